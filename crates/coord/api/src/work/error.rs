//! What a handler says of a job that it did not do.

use std::{error::Error as StdError, fmt::Display};

use crate::{Error, error::with_sources};

/// Why a handler did not do its job, and what becomes of the job.
///
/// Any error becomes one by `?`, and has the job tried again on the back-off curve (CQ-04); but a payload that could not
/// be decoded fails it for good, because it would be no better the next time (CQ-10).
#[derive(Debug)]
pub struct JobError {
    pub(super) text: Option<String>,
    pub(super) fate: Fate,
}

/// What becomes of a job that was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Tried again after so many seconds, or after as many as the curve gives.
    Retry(Option<i64>),
    /// Moved to the dead letters.
    Fail,
    /// Given back as if it had not been claimed.
    Release,
}

impl JobError {
    /// Tries the job again on the back-off curve: for what is no error of its own.
    ///
    /// The text is kept as it shows itself, without its sources: of an [`Error`], pass [`report`](Error::report).
    pub fn retry(error: impl Display) -> Self {
        Self::new(error, Fate::Retry(None))
    }

    /// Tries the job again after `delay` seconds, instead of on the curve. Of an [`Error`], pass
    /// [`report`](Error::report): shown alone it does not tell its cause.
    pub fn retry_after(error: impl Display, delay: i64) -> Self {
        Self::new(error, Fate::Retry(Some(delay)))
    }

    /// Moves the job to the dead letters: it can never be done. Of an [`Error`], pass [`report`](Error::report): shown
    /// alone it does not tell its cause.
    pub fn fail(error: impl Display) -> Self {
        Self::new(error, Fate::Fail)
    }

    /// Gives the job back with the attempt not counted. It is ready at once, so the next claim may be this worker's: to
    /// wait for something, use [`retry_after`](Self::retry_after).
    pub fn release() -> Self {
        Self {
            text: None,
            fate: Fate::Release,
        }
    }

    fn new(error: impl Display, fate: Fate) -> Self {
        Self {
            text: Some(error.to_string()),
            fate,
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        let error = error.into();
        let fate = match error.downcast_ref() {
            Some(Error::Codec(_)) => Fate::Fail,
            _ => Fate::Retry(None),
        };
        Self::new(with_sources(&*error), fate)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the order could not be shipped")]
    struct Shipping(#[source] io::Error);

    #[test]
    fn cq_07_any_error_has_its_job_tried_again_and_its_causes_are_kept() {
        let error = JobError::from(Shipping(io::Error::other("no route")));
        assert_eq!(error.fate, Fate::Retry(None));
        assert_eq!(
            error.text.as_deref(),
            Some("the order could not be shipped: no route")
        );
        assert_eq!(JobError::from("down").text.as_deref(), Some("down"));
        let told = Error::database("gone", crate::Outcome::Unknown);
        assert_eq!(
            JobError::from(told).text.as_deref(),
            Some("the database failed, and the work may have been done: gone")
        );
    }

    #[test]
    fn cq_10_what_cannot_be_decoded_is_not_tried_again() {
        let error = crate::Payload::new("{").decode::<u32>().unwrap_err();
        assert_eq!(JobError::from(error).fate, Fate::Fail);
    }
}
