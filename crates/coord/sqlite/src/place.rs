//! Where no store can be, told in words: SQLite tells it by a number, or makes a file that cannot work.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{ErrorCode, ffi};
use rustix::fs::{Access, access};

use crate::Error;

/// Refuses a path that leads to no file, or into no folder. Nothing is opened or made.
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(file);
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Error::NotAFile {
                path: folder.to_owned(),
                is: "is not a folder",
                instead: "name a file in one".to_owned(),
            });
        }
        Err(error) => return Err(unseen(folder, folder, error)),
    }
    match fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(Error::NotAFile {
            path: file.to_owned(),
            is: "is a folder",
            instead: format!("name a file, as {} would be", file.join("esker.db").display()),
        }),
        Ok(_) => Err(Error::NotAFile {
            path: file.to_owned(),
            is: "is not a regular file",
            instead: "name one, or one that is to be made".to_owned(),
        }),
        // It is to be made, or a link leads nowhere yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unseen(file, folder, error)),
    }
}

/// What could not be looked at; `folder` is what would have to let it be seen.
fn unseen(path: &Path, folder: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NoFolder(folder.to_owned()),
        io::ErrorKind::PermissionDenied => Error::NotWritable(folder.to_owned()),
        _ => Error::io(path, error),
    }
}

/// Says what SQLite's refusal to open or to write the file means.
pub(crate) fn explain(file: &Path, error: Error) -> Error {
    explain_by(file, error, |path, what| access(path, what).is_ok())
}

/// The same, by what the user may do.
fn explain_by(file: &Path, error: Error, may: impl Fn(&Path, Access) -> bool) -> Error {
    let Error::Sqlite(cause) = &error else {
        return error;
    };
    let Some(code) = cause.sqlite_error().filter(|error| {
        matches!(
            error.code,
            ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied
        )
    }) else {
        return error;
    };
    let folder = file.parent().unwrap_or(file);
    // Another user that opened the store may have left the log or its index behind.
    let mut files = ["", "-wal", "-shm"].into_iter().map(|suffix| {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    });
    if let Some(refused) = files.find(|path| path.exists() && !may(path, Access::READ_OK | Access::WRITE_OK))
    {
        Error::NotWritable(refused)
    } else if !may(folder, Access::WRITE_OK) || code.extended_code == ffi::SQLITE_READONLY_DIRECTORY {
        Error::NotWritable(folder.to_owned())
    } else if code.code == ErrorCode::CannotOpen {
        Error::CannotOpen {
            path: file.to_owned(),
            code: code.extended_code,
        }
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn refusal(path: &Path) -> String {
        check(path).unwrap_err().to_string()
    }

    #[test]
    fn cx_09_what_cannot_be_a_store_is_told_with_what_would_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        fs::write(here.join("notes"), "text").unwrap();
        assert_eq!(
            refusal(here),
            format!(
                "{0} is a folder; name a file, as {0}/esker.db would be",
                here.display()
            )
        );
        assert_eq!(
            refusal(&here.join("none/a.db")),
            format!(
                "the folder {}/none does not exist: make it, or name a file in one that does",
                here.display()
            )
        );
        assert_eq!(
            refusal(&here.join("notes/a.db")),
            format!("{}/notes is not a folder; name a file in one", here.display())
        );
        assert!(refusal(Path::new("/dev/null")).starts_with("/dev/null is not a regular file"));
        check(&here.join("a.db")).unwrap();
        check(&here.join("notes")).unwrap();
    }

    #[test]
    fn cx_09_a_refusal_of_sqlite_is_told_without_its_number_where_the_reason_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let of = |code, refused: &Path| {
            let cause = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            explain_by(&file, Error::Sqlite(Arc::new(cause)), |path, _| path != refused).to_string()
        };
        let refusals = [
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_READONLY_DIRECTORY,
            ffi::SQLITE_PERM,
        ];
        let names = ["a.db", "a.db-wal", "a.db-shm"].map(|name| folder.path().join(name));
        for name in &names {
            fs::write(name, "").unwrap();
        }
        for (code, refused) in refusals
            .into_iter()
            .flat_map(|code| names.iter().map(move |name| (code, name.as_path())))
            .chain(refusals.map(|code| (code, folder.path())))
        {
            let told = of(code, refused);
            let written = format!("{} cannot be written by the user", refused.display());
            assert!(told.starts_with(&written), "{told}");
        }
        // Nothing that can be seen refuses it.
        let nobody = Path::new("");
        for (code, told) in [
            (
                ffi::SQLITE_CANTOPEN,
                format!("{} cannot be made or opened", file.display()),
            ),
            (
                ffi::SQLITE_READONLY_DIRECTORY,
                format!("{} cannot be written", folder.path().display()),
            ),
            (ffi::SQLITE_READONLY, "SQLite: ".to_owned()),
            (ffi::SQLITE_PERM, "SQLite: ".to_owned()),
        ] {
            let explained = of(code, nobody);
            assert!(explained.starts_with(&told), "{explained}");
        }
        // Of what is no refusal nothing is made up.
        assert!(of(ffi::SQLITE_CORRUPT, nobody).contains("malformed"));
    }
}
