//! What can go wrong, and whether the work was undone (CX-07).

use std::{error, result};

/// The result of an operation of this contract.
pub type Result<T, E = Error> = result::Result<T, E>;

/// Why a store did not do what was asked. A variant stands only where a caller can act on it: no work, a lost lock and a
/// late ack are values, not errors.
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
    #[error("payload: {0}")]
    Codec(#[source] Box<dyn error::Error + Send + Sync>),
    /// The engine failed; the driver's error is the source.
    #[error("{source}")]
    Database {
        /// The driver's error.
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
