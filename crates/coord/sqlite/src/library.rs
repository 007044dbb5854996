//! The oldest SQLite library that is accepted (CX-09).

use crate::Error;

/// 3.51.3: older ones can lose or corrupt pages when a write meets a checkpoint that restarts the log.
const FLOOR: i32 = 3_051_003;

/// Refuses a library whose version number (as `sqlite3_libversion_number` gives it) is too old.
pub(crate) fn check(version: i32) -> Result<(), Error> {
    if version >= FLOOR {
        return Ok(());
    }
    Err(Error::Library {
        found: text(version),
        needed: text(FLOOR),
    })
}

fn text(version: i32) -> String {
    format!(
        "{}.{}.{}",
        version / 1_000_000,
        version / 1_000 % 1_000,
        version % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_09_library_older_than_the_floor_is_refused() {
        assert!(check(3_051_003).is_ok());
        assert!(check(3_054_001).is_ok());
        assert!(check(4_000_000).is_ok());
        let error = check(3_051_002).unwrap_err();
        assert_eq!(
            error.to_string(),
            "SQLite 3.51.2 can corrupt the write-ahead log; 3.51.3 or newer is needed"
        );
        assert!(check(3_050_007).is_err());
    }

    #[test]
    fn cx_09_library_in_use_is_accepted() {
        check(rusqlite::version_number()).unwrap();
    }
}
