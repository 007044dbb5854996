//! Where no store can be, told in words: SQLite tells it by a number, or makes a file that cannot work.

use std::{fs, io, path::Path};

use rusqlite::ErrorCode;
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
    let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    if file.exists() && !(writable(file) && access(file, Access::READ_OK).is_ok()) {
        Error::NotWritable(file.to_owned())
    } else if !writable(folder) || code.code != ErrorCode::CannotOpen {
        Error::NotWritable(folder.to_owned())
    } else {
        Error::CannotOpen {
            path: file.to_owned(),
            code: code.extended_code,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rusqlite::ffi;

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
        let of = |code| {
            let cause = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            explain(&file, Error::Sqlite(Arc::new(cause))).to_string()
        };
        for code in [
            ffi::SQLITE_READONLY,
            ffi::SQLITE_READONLY_DIRECTORY,
            ffi::SQLITE_PERM,
        ] {
            let told = of(code);
            let written = format!("{} cannot be written by the user", folder.path().display());
            assert!(told.starts_with(&written), "{told}");
        }
        let told = of(ffi::SQLITE_CANTOPEN);
        assert!(
            told.starts_with(&format!("{} cannot be made or opened", file.display())),
            "{told}"
        );
        // Of what is no refusal nothing is made up.
        assert!(of(ffi::SQLITE_CORRUPT).contains("malformed"));
    }
}
