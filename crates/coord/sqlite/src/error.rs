//! What can go wrong with the database, and whether the work was undone.

use std::{any::Any, io, path::PathBuf, sync::Arc, time::Duration};

use esker_coord_api::Outcome;
use rusqlite::{ErrorCode, ffi};

/// Why the database did not do what was asked.
///
/// It can be cloned, because one failed commit answers every caller whose work it carried. The text tells all; the causes,
/// which would tell a part of it again, are in the variants and not in the chain of sources.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement failed. What the closure wrote before it is undone when the closure returns an error.
    #[error("SQLite: {0}")]
    Sqlite(Arc<rusqlite::Error>),
    /// The commit failed, for everybody who shared it.
    #[error("commit: {0}")]
    Commit(Arc<rusqlite::Error>),
    /// The log could not be flushed to the disk. What was committed may or may not be there after a power cut, and
    /// nothing more is written: open the store anew when the disk is well.
    #[error("flushing {path} to the disk: {cause}")]
    Flush {
        /// The write-ahead log.
        path: PathBuf,
        /// The system's reason.
        cause: Arc<io::Error>,
    },
    /// The disk, or the size that [`Options::max_pages`](crate::Options::max_pages) allows, is full. Nothing was
    /// kept; the store still reads, and writes again once there is room.
    #[error("the disk or the database file is full")]
    DiskFull,
    /// Another process kept the file locked for longer than
    /// [`Options::busy_timeout`](crate::Options::busy_timeout). Nothing was done.
    #[error("another process keeps the database locked")]
    Busy,
    /// The shared transaction was rolled back by the failure of another closure in it (SQLite does so on some full
    /// disk, I/O and memory errors). Nothing was kept; asking again is safe.
    #[error("the shared transaction was rolled back")]
    RolledBack,
    /// The handle was closed.
    #[error("the store is closed")]
    Closed,
    /// This process is a fork of the one that opened the store, whose threads and locks it does not have. Nothing was done:
    /// open the store anew.
    #[error("the store was opened before this process was forked from another; open it anew")]
    Forked,
    /// The answer was lost, because the thread that owed it ended. The work may or may not have been done.
    #[error("the answer was lost")]
    Lost,
    /// The closure panicked with this message. What it wrote is undone.
    #[error("the work panicked: {0}")]
    Panicked(String),
    /// A read took longer than its time budget.
    #[error("the query took longer than {0:?}")]
    OverBudget(Duration),
    /// A held transaction did nothing for this long and was rolled back (CT-05).
    #[error(
        "the transaction was idle for longer than {0:?} and was rolled back (what a queue or a stream does beside it waits for its end)"
    )]
    IdleTransaction(Duration),
    /// The file was replaced or removed while the store was open (CX-09). Nothing was written to the old file.
    #[error("the database file {0} was replaced or removed while it was open")]
    Replaced(PathBuf),
    /// An option has a value that cannot work.
    #[error("option {option}: {reason}")]
    InvalidOption {
        /// The field of [`Options`](crate::Options).
        option: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The folder of the file is not there. Nothing was made.
    #[error("the folder {0} does not exist: make it, or name a file in one that does")]
    NoFolder(PathBuf),
    /// The path leads to what cannot be a database file, such as a folder.
    #[error("{path} {is}; {instead}")]
    NotAFile {
        /// What the path leads to.
        path: PathBuf,
        /// What that is.
        is: &'static str,
        /// What would be right.
        instead: String,
    },
    /// The user that runs this may not write the file, or in its folder.
    #[error(
        "{0} cannot be written by the user that runs this, who must be able to write both the file of a store and its \
         folder, where the write-ahead log is kept"
    )]
    NotWritable(PathBuf),
    /// SQLite cannot make or open the file, and the system does not tell why.
    #[error(
        "{path} cannot be made or opened; name a file in a folder that can hold one (SQLite says {code})"
    )]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// SQLite's extended code.
        code: i32,
    },
    /// The path names no file: in-memory and temporary databases, and `file:` URIs, are not for this handle.
    #[error("{0:?} is not the path of a database file; in-memory databases and URIs are not supported")]
    NotAPath(PathBuf),
    /// The folder or the file could not be looked at, or a thread not started.
    #[error("{path}: {cause}")]
    Io {
        /// What was looked at.
        path: PathBuf,
        /// The system's reason.
        cause: Arc<io::Error>,
    },
    /// The SQLite library is older than 3.51.3; such versions can corrupt a WAL file (CX-09).
    #[error("SQLite {found} can corrupt the write-ahead log; {needed} or newer is needed")]
    Library {
        /// The version that was found.
        found: String,
        /// The oldest that is accepted.
        needed: String,
    },
    /// The file is on a network file system, where WAL is unsafe (CX-09).
    #[error("{path} is on a network file system ({kind}), where SQLite's write-ahead log is not safe")]
    NetworkFileSystem {
        /// The file or its folder.
        path: PathBuf,
        /// The file system's name.
        kind: &'static str,
    },
    /// The file exists and is no SQLite database.
    #[error("{0} is not a SQLite database; it was left alone: name another file")]
    NotADatabase(PathBuf),
    /// The file is a SQLite database of another program.
    #[error(
        "{path} is a database of another program (application id {application_id:#010x}); it was left alone"
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// Its `application_id`.
        application_id: i32,
    },
    /// The file system cannot hold a write-ahead log.
    #[error("{path} cannot use a write-ahead log (its journal mode stays {mode})")]
    NoWal {
        /// The file.
        path: PathBuf,
        /// The mode that SQLite offers instead.
        mode: String,
    },
    /// The file was written by a newer build (CX-09).
    #[error(
        "the file's {component} tables have version {found}, this build knows up to {known}; use a newer build"
    )]
    NewerSchema {
        /// The component, see [`Schema`](crate::Schema).
        component: String,
        /// The version in the file.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
    },
    /// Numbers of this kind are used up. Nothing was done.
    #[error("no more {0} can be numbered")]
    Exhausted(&'static str),
    /// A row holds what this crate never writes.
    #[error("the database holds a value that was never written: {0}")]
    Malformed(&'static str),
    /// A migration failed; the file is as it was.
    #[error("migration of {component} from version {version}: {cause}")]
    Migration {
        /// The component, see [`Schema`](crate::Schema).
        component: &'static str,
        /// The version that the migration starts from.
        version: i64,
        /// Why.
        cause: Arc<rusqlite::Error>,
    },
}

impl Error {
    /// Whether the work was certainly undone.
    pub fn outcome(&self) -> Outcome {
        match self {
            // The log may hold the whole commit though the sync failed: after a crash it would be found there.
            Self::Commit(cause) => match cause.sqlite_error_code() {
                Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::OutOfMemory) => {
                    Outcome::Unknown
                }
                _ => Outcome::Aborted,
            },
            Self::Lost | Self::Flush { .. } => Outcome::Unknown,
            _ => Outcome::Aborted,
        }
    }

    /// The error of a failed COMMIT.
    pub(crate) fn of_commit(cause: rusqlite::Error) -> Self {
        match cause.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::DatabaseBusy) => Self::Busy,
            // Also where the log's index found no room: the log may hold the commit by then.
            _ => Self::Commit(Arc::new(cause)),
        }
    }

    /// Whether there was no room on the disk, wherever that showed.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::DiskFull => true,
            Self::Commit(cause) => is_no_room(cause),
            _ => false,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            cause: Arc::new(source),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(cause: rusqlite::Error) -> Self {
        match cause.sqlite_error_code() {
            _ if is_no_room(&cause) => Self::DiskFull,
            Some(ErrorCode::DatabaseBusy) => Self::Busy,
            _ => Self::Sqlite(Arc::new(cause)),
        }
    }
}

impl From<Error> for esker_coord_api::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::Closed,
            Error::InvalidOption { option, reason } => Self::InvalidOption {
                option,
                reason: reason.to_owned(),
            },
            error => {
                let outcome = error.outcome();
                Self::database(error, outcome)
            }
        }
    }
}

/// Whether SQLite found no room: for pages, or for the index of the write-ahead log, whose file it makes and grows
/// with codes of their own.
fn is_no_room(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull
            || matches!(
                error.extended_code,
                ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN
            )
    })
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::error;

    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn cx_07_outcome_of_a_commit_is_unknown_only_where_the_log_may_hold_it() {
        assert_eq!(
            Error::of_commit(sqlite(ffi::SQLITE_IOERR_FSYNC)).outcome(),
            Outcome::Unknown
        );
        assert_eq!(
            Error::of_commit(sqlite(ffi::SQLITE_CONSTRAINT)).outcome(),
            Outcome::Aborted
        );
        assert_eq!(
            Error::of_commit(sqlite(ffi::SQLITE_FULL)).outcome(),
            Outcome::Aborted
        );
        assert_eq!(
            Error::from(sqlite(ffi::SQLITE_IOERR_READ)).outcome(),
            Outcome::Aborted
        );
        assert_eq!(Error::Lost.outcome(), Outcome::Unknown);
        assert_eq!(Error::Closed.outcome(), Outcome::Aborted);
    }

    #[test]
    fn cx_07_no_error_tells_what_its_source_tells() {
        let cause = || Arc::new(sqlite(ffi::SQLITE_CORRUPT));
        let lost = || Arc::new(io::Error::other("no such disk"));
        let errors = [
            Error::Sqlite(cause()),
            Error::Commit(cause()),
            Error::Migration {
                component: "coord",
                version: 1,
                cause: cause(),
            },
            Error::Flush {
                path: "a.db-wal".into(),
                cause: lost(),
            },
            Error::Io {
                path: "a.db".into(),
                cause: lost(),
            },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(
                text.contains("malformed") || text.contains("no such disk"),
                "{text}"
            );
            let mut source = error::Error::source(&error);
            while let Some(cause) = source {
                assert!(!text.contains(&cause.to_string()), "{text}: {cause}");
                source = cause.source();
            }
        }
    }

    #[test]
    fn cx_07_full_and_busy_are_variants_of_their_own() {
        assert!(matches!(Error::from(sqlite(ffi::SQLITE_FULL)), Error::DiskFull));
        assert!(matches!(
            Error::of_commit(sqlite(ffi::SQLITE_FULL)),
            Error::DiskFull
        ));
        for code in [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMOPEN] {
            assert!(matches!(Error::from(sqlite(code)), Error::DiskFull), "{code}");
            // The log may hold the commit whose index found no room.
            let commit = Error::of_commit(sqlite(code));
            assert!(commit.is_full() && commit.outcome() == Outcome::Unknown, "{code}");
        }
        assert!(matches!(
            Error::from(sqlite(ffi::SQLITE_BUSY_SNAPSHOT)),
            Error::Busy
        ));
    }
}
