//! What can go wrong, and whether the work was undone (CX-07).

use std::{error, result};

/// The result of an operation of this contract.
pub type Result<T, E = Error> = result::Result<T, E>;

/// Why a store did not do what was asked. A variant stands only where a caller can act on it: no work, a lost lock and a
/// late ack are values, not errors.
///
/// The text tells nothing that [`source`](error::Error::source) tells: print both, as `anyhow` does with `{:#}`, or
/// [`report`](Self::report).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine cannot carry a notification of this size, as sent (CW-04). Nothing was sent.
    #[error("the payload is too large: at most {limit} bytes fit")]
    PayloadTooLarge {
        /// Bytes that would have fitted.
        limit: usize,
    },
    /// The name begins with the prefix that the store keeps for itself (CX-06).
    #[error("the name {name:?} is reserved: names must not begin with \"__alkstore_\"")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// The name cannot be used (CX-06).
    #[error("the name {name:?} is invalid: {reason}")]
    InvalidName {
        /// The name.
        name: String,
        /// What would be right.
        reason: &'static str,
    },
    /// The schedule's specification is not of the grammar (CD-01).
    #[error("the schedule {spec:?} is invalid: {reason}")]
    InvalidSpec {
        /// The specification.
        spec: String,
        /// What would be right.
        reason: &'static str,
    },
    /// An option or argument is outside of what works (CX-05); the text names the field.
    #[error("{option} is invalid: {reason}")]
    InvalidOption {
        /// The field.
        option: &'static str,
        /// What would be right.
        reason: String,
    },
    /// Another runner leads (CD-02).
    #[error("another runner leads the schedules")]
    LeadershipLost,
    /// The store, or the source of a receiver, has ended.
    #[error("the store is closed")]
    Closed,
    /// A value could not be made into bytes, or bytes into a value (CX-03).
    #[error("the payload cannot be encoded or decoded")]
    Codec(#[source] Box<dyn error::Error + Send + Sync>),
    /// The engine failed; its error, which has the driver's, is the source.
    #[error("{}", failed(*outcome))]
    Database {
        /// The engine's error, such as `esker_coord_sqlite::Error`.
        #[source]
        source: Box<dyn error::Error + Send + Sync>,
        /// What is known about the work.
        outcome: Outcome,
    },
}

/// What is known about the work of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of it was kept: asking again is safe.
    Aborted,
    /// It may have been done: the commit lost its answer.
    Unknown,
}

impl Error {
    /// Whether the work was certainly undone, or may have been done (CX-07).
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Database { outcome, .. } => *outcome,
            _ => Outcome::Aborted,
        }
    }

    /// What went wrong and why, on one line: the text with those of its sources, for a log.
    pub fn report(&self) -> String {
        with_sources(self)
    }

    /// An engine's failure.
    pub fn database(source: impl Into<Box<dyn error::Error + Send + Sync>>, outcome: Outcome) -> Self {
        Self::Database {
            source: source.into(),
            outcome,
        }
    }

    pub(crate) fn option(option: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidOption {
            option,
            reason: reason.into(),
        }
    }
}

fn failed(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Aborted => "the database failed",
        Outcome::Unknown => "the database failed, and the work may have been done",
    }
}

/// An error's text with those of its sources, each told once: many an error's text holds that of its source.
pub fn with_sources(error: &(dyn error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let told = error.to_string();
        if !text.contains(&told) {
            // `Error code 14: unable to open` after `unable to open` adds the code alone.
            let new = match told.split_once(": ") {
                Some((new, again)) if text.contains(again) => new,
                _ => &told,
            };
            text = format!("{text}: {new}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, io};

    use super::*;

    #[test]
    fn cx_07_no_error_tells_what_its_source_tells() {
        let codec = crate::Payload::new("{").decode::<u32>().unwrap_err();
        let aborted = Error::database("no room", Outcome::Aborted);
        let unknown = Error::database("no answer", Outcome::Unknown);
        for error in [&codec, &aborted, &unknown] {
            let source = error.source().expect("the cause is the source").to_string();
            assert!(!error.to_string().contains(&source), "{error}");
            assert_eq!(error.report(), format!("{error}: {source}"));
        }
        assert_eq!(aborted.report(), "the database failed: no room");
        assert_eq!(
            unknown.report(),
            "the database failed, and the work may have been done: no answer"
        );
        assert_eq!(Error::Closed.report(), "the store is closed");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{told}")]
    struct Told {
        told: &'static str,
        source: io::Error,
    }

    #[test]
    fn cx_07_a_report_tells_each_cause_once() {
        for (told, cause, report) in [
            ("no room", "disk full", "no room: disk full"),
            ("no room: disk full", "disk full", "no room: disk full"),
            (
                "unable to open",
                "Error code 14: unable to open",
                "unable to open: Error code 14",
            ),
        ] {
            let source = io::Error::other(cause);
            let error = Error::database(Told { told, source }, Outcome::Aborted);
            assert_eq!(error.report(), format!("the database failed: {report}"));
        }
    }
}
