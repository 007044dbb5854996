//! What can go wrong with Postgres, and whether the work was undone.

use std::{sync::Arc, time::Duration};

use esker_coord_api::Outcome;
use tokio_postgres::error::{Severity, SqlState};

/// Why the database did not do what was asked.
///
/// It can be cloned, because one failed batch answers every caller whose work it carried. The text tells all; the driver's
/// error, which would tell a part of it again, is in the variants and not in the chain of sources.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used.
    #[error("the Postgres URL {0}")]
    Url(String),
    /// An option has a value that cannot work.
    #[error("option {option} {reason}")]
    InvalidOption {
        /// The field of [`Options`](crate::Options).
        option: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The URL asks for TLS, and this build has none: it lacks the feature `tls`.
    #[error("the URL asks for TLS, which this build does not have: enable the feature `tls`")]
    NoTls,
    /// The certificates that should vouch for the server cannot be read.
    #[error("{path}: {reason}")]
    Certificates {
        /// The file that `sslrootcert` names.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server could not be reached, or let nobody in. Nothing was done.
    #[error("connecting to Postgres: {}", told(.0))]
    Connect(Arc<tokio_postgres::Error>),
    /// Neither a free connection nor an answer came within
    /// [`Options::operation_timeout`](crate::Options::operation_timeout).
    #[error("Postgres did not answer within {after:?}")]
    Timeout {
        /// The bound.
        after: Duration,
        /// Whether the work had been sent.
        outcome: Outcome,
    },
    /// A statement failed.
    #[error("Postgres: {}", told(.cause))]
    Statement {
        /// The driver's error, with the server's own inside.
        cause: Arc<tokio_postgres::Error>,
        /// Whether the work may have been done all the same.
        outcome: Outcome,
    },
    /// A statement of a migration failed. Nothing of it was kept.
    #[error("migrating schema {schema} to version {version}: {}", told(.cause))]
    Migration {
        /// The schema.
        schema: String,
        /// The version that was not reached.
        version: i32,
        /// The driver's error, with the server's own inside.
        cause: Arc<tokio_postgres::Error>,
    },
    /// The server is older than Postgres 14.
    #[error("the server is Postgres {0}; 14 or newer is needed")]
    ServerTooOld(String),
    /// The database has no store in this schema, and none was to be made: see [`Options::create`](crate::Options::create).
    #[error("there is no store in the schema {0} of this database")]
    NoSchema(String),
    /// The schema was made by a newer build.
    #[error("schema {schema} has version {found}, and this build knows {known}")]
    NewerSchema {
        /// The schema.
        schema: String,
        /// Its version.
        found: i32,
        /// The newest version that this build knows.
        known: i32,
    },
    /// The notification is longer than Postgres carries (CW-04). Nothing was sent.
    #[error("the payload is too large: at most {limit} bytes fit")]
    PayloadTooLarge {
        /// Bytes that would have fitted.
        limit: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The answer was lost with the task that owed it.
    #[error("the answer was lost")]
    Lost,
    /// The transaction's connection was given up earlier. Nothing of it was kept.
    #[error("the transaction has ended")]
    Ended,
}

/// What was running when a statement failed: it decides what a lost answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// A statement that keeps nothing, or one inside a transaction whose commit was not sent: lost with it.
    Undecided,
    /// A statement that commits by itself, or a commit.
    Commit,
}

impl Error {
    /// What the driver's error means for work that was sent.
    pub(crate) fn of(source: tokio_postgres::Error, running: Running) -> Self {
        let outcome = match running {
            Running::Commit if !is_certain(&source) => Outcome::Unknown,
            _ => Outcome::Aborted,
        };
        Self::Statement {
            cause: Arc::new(source),
            outcome,
        }
    }

    pub(crate) fn connect(source: tokio_postgres::Error) -> Self {
        Self::Connect(Arc::new(source))
    }

    /// Whether the work was certainly undone or may have been done (CX-07).
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Timeout { outcome, .. } | Self::Statement { outcome, .. } => *outcome,
            Self::Lost => Outcome::Unknown,
            _ => Outcome::Aborted,
        }
    }

    /// The server's own code (SQLSTATE), where the server answered.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Connect(cause) | Self::Statement { cause, .. } | Self::Migration { cause, .. } => {
                cause.code()
            }
            _ => None,
        }
    }

    /// Whether the connection, not the statement, was at fault.
    pub(crate) fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Statement { cause, .. }
            if cause.as_db_error().is_none_or(|db| db.parsed_severity() != Some(Severity::Error)))
    }

    /// Whether the server undid the work only because others were in its way (class 40).
    pub(crate) fn is_conflict(&self) -> bool {
        self.outcome() == Outcome::Aborted && self.code().is_some_and(|code| code.code().starts_with("40"))
    }

    /// Whether one element of a batch may be at fault, so that the others succeed without it: bad data, a constraint
    /// or a limit (classes 22, 23 and 54).
    pub(crate) fn is_of_one_element(&self) -> bool {
        self.outcome() == Outcome::Aborted
            && self
                .code()
                .is_some_and(|code| matches!(code.code().get(..2), Some("22" | "23" | "54")))
    }
}

impl From<Error> for esker_coord_api::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::Closed,
            Error::PayloadTooLarge { limit } => Self::PayloadTooLarge { limit },
            Error::InvalidOption { option, reason } => Self::InvalidOption {
                option,
                reason: reason.to_owned(),
            },
            Error::Url(_) | Error::NoTls => Self::InvalidOption {
                option: "url",
                reason: error.to_string(),
            },
            other => {
                let outcome = other.outcome();
                Self::database(other, outcome)
            }
        }
    }
}

/// Whether the server itself says that the statement was undone. A server that shuts down or ends the connection
/// (FATAL, PANIC) may have committed before.
fn is_certain(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        db.parsed_severity() == Some(Severity::Error)
            && *db.code() != SqlState::TRANSACTION_RESOLUTION_UNKNOWN
    })
}

/// The driver's error in words: its own text says "db error" alone where the server spoke.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => match db.detail() {
            Some(detail) => format!("{} ({}; {})", db.message(), detail, db.code().code()),
            None => format!("{} ({})", db.message(), db.code().code()),
        },
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn cx_07_no_error_tells_what_its_source_tells() {
        let driver = || "port=none".parse::<tokio_postgres::Config>().unwrap_err();
        let errors = [
            Error::connect(driver()),
            Error::of(driver(), Running::Commit),
            Error::Migration {
                schema: "esker".into(),
                version: 1,
                cause: Arc::new(driver()),
            },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("invalid connection string"), "{text}");
            let mut source = error.source();
            while let Some(cause) = source {
                assert!(!text.contains(&cause.to_string()), "{text}: {cause}");
                source = cause.source();
            }
        }
    }
}
