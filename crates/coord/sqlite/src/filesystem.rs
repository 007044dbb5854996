//! File systems on which a write-ahead log is not safe (CX-09).

use std::path::Path;

use crate::Error;

/// Refuses a file that is, or whose folder is, on a network file system. Nothing is opened.
#[cfg(target_os = "linux")]
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(file);
    let looked_at = if file.exists() { file } else { folder };
    let found = rustix::fs::statfs(looked_at).map_err(|e| Error::io(looked_at, e.into()))?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "magic numbers have 32 bits"
    )]
    let magic = found.f_type as u32;
    match network(magic) {
        Some(kind) => Err(Error::NetworkFileSystem {
            path: looked_at.to_owned(),
            kind,
        }),
        None => Ok(()),
    }
}

/// Elsewhere the kernel's numbers are unknown, so only the folder's presence is checked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(file);
    std::fs::metadata(folder)
        .map(drop)
        .map_err(|e| Error::io(folder, e))
}

/// The name of the network or shared-disk file system that has this magic number in `statfs`. FUSE is not among
/// them: it is local as often as not, and nothing tells.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn network(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0000_564C => "NCP",
        0x0102_1997 => "9p",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x786F_4256 => "VirtualBox shared folder",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_09_network_file_systems_are_known_by_number() {
        assert_eq!(network(0x6969), Some("NFS"));
        assert_eq!(network(0xFF53_4D42), Some("CIFS"));
        assert_eq!(network(0xFE53_4D42), Some("SMB2"));
        assert_eq!(network(0x0102_1997), Some("9p"));
        let ext4 = 0xEF53;
        let tmpfs = 0x0102_1994;
        let btrfs = 0x9123_683E;
        for local in [ext4, tmpfs, btrfs] {
            assert_eq!(network(local), None);
        }
    }

    #[test]
    fn cx_09_folder_that_is_not_there_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("missing").join("a.db");
        assert!(matches!(check(&file), Err(Error::Io { .. })));
        check(&folder.path().join("a.db")).unwrap();
    }
}
