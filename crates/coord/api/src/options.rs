//! What jobs are stamped with, and when they are due (CQ-01).

use crate::{Error, Payload, Result};

/// What rules a queue's jobs. Stamped on each job when it is enqueued, for its whole life: a changed option touches
/// later jobs only. Zero or negative values are refused when the queue handle is made (CX-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// How long a claim holds without a heartbeat, in seconds. Default 300.
    pub visibility_timeout_s: i64,
    /// Claims that a job may take. Default 3.
    pub max_attempts: i64,
    /// The first retry's delay, in seconds; later ones double (CQ-04). Default 5.
    pub backoff_base_s: i64,
    /// How long a dead job is kept, in seconds; `None` keeps it until it is purged. Default `None`.
    pub dead_letter_retention_s: Option<i64>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            visibility_timeout_s: 300,
            max_attempts: 3,
            backoff_base_s: 5,
            dead_letter_retention_s: None,
        }
    }
}

impl QueueOptions {
    /// The stamps of an outbox's jobs (CO-01): visibility 60, attempts 5, back-off 5.
    pub const OUTBOX: Self = Self {
        visibility_timeout_s: 60,
        max_attempts: 5,
        backoff_base_s: 5,
        dead_letter_retention_s: None,
    };

    pub(crate) fn check(&self) -> Result<()> {
        positive("visibility_timeout_s", self.visibility_timeout_s)?;
        positive("max_attempts", self.max_attempts)?;
        positive("backoff_base_s", self.backoff_base_s)?;
        self.dead_letter_retention_s
            .map_or(Ok(()), |retention| positive("dead_letter_retention_s", retention))
    }
}

/// What is said about one job. Every value of `delay`, `run_at` and `expires` is defined; sums saturate (CX-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnqueueOptions {
    /// Seconds from now until the job is ready. Beats [`run_at`](Self::run_at).
    pub delay: Option<i64>,
    /// When the job is ready, in unix seconds.
    pub run_at: Option<i64>,
    /// Higher ones are claimed first. Default 0. A claim looks at each priority that jobs wait with: use a handful (CQ-08).
    pub priority: i64,
    /// Instead of the queue's.
    pub max_attempts: Option<i64>,
    /// Seconds, from when the job is ready, after which it is no longer claimed.
    pub expires: Option<i64>,
}

/// When a job is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// After so many seconds.
    After(i64),
    /// At a time, in unix seconds.
    At(i64),
}

/// A job as it goes to the engine: checked, and stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// What the worker gets.
    pub payload: Payload,
    /// Higher ones are claimed first.
    pub priority: i64,
    /// When it is ready.
    pub start: Start,
    /// Seconds, from when it is ready, after which it is no longer claimed.
    pub expires: Option<i64>,
    /// The stamps; `max_attempts` is the job's own.
    pub stamps: QueueOptions,
    /// The schedule's boundary that this job stands for, in unix seconds (CD-03).
    pub boundary: Option<i64>,
}

impl NewJob {
    /// Stamps a job; [`Error::InvalidOption`] for attempts that are not positive.
    pub fn new(payload: Payload, stamps: QueueOptions, options: EnqueueOptions) -> Result<Self> {
        let max_attempts = options.max_attempts.unwrap_or(stamps.max_attempts);
        positive("max_attempts", max_attempts)?;
        let start = match (options.delay, options.run_at) {
            (Some(delay), _) => Start::After(delay),
            (None, Some(time)) => Start::At(time),
            (None, None) => Start::Now,
        };
        Ok(Self {
            payload,
            priority: options.priority,
            start,
            expires: options.expires,
            stamps: QueueOptions {
                max_attempts,
                ..stamps
            },
            boundary: None,
        })
    }

    /// Stamps many jobs.
    pub fn batch(stamps: QueueOptions, jobs: Vec<(Payload, EnqueueOptions)>) -> Result<Vec<Self>> {
        let jobs = jobs.into_iter();
        jobs.map(|(payload, options)| Self::new(payload, stamps, options))
            .collect()
    }

    /// When the job is ready, if it is enqueued `now`.
    pub fn run_at(&self, now: i64) -> i64 {
        match self.start {
            Start::Now => now,
            Start::After(delay) => now.saturating_add(delay),
            Start::At(time) => time,
        }
    }

    /// When it expires, if it is enqueued `now`.
    pub fn expires_at(&self, now: i64) -> Option<i64> {
        Some(self.run_at(now).saturating_add(self.expires?))
    }
}

/// How many a caller asks for: none, where the number is not positive (CX-05).
pub fn extent(n: i64) -> usize {
    usize::try_from(n.max(0)).unwrap_or(usize::MAX)
}

/// Refuses what is zero or negative, by name.
pub(crate) fn positive(option: &'static str, value: i64) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Error::option(option, format!("it must be positive, not {value}")))
}

/// The ttl of a lock that is renewed while it is held. Times are whole seconds: a ttl of 1 may be over at once.
pub(crate) fn renewable(option: &'static str, ttl: i64) -> Result<()> {
    if ttl > 1 {
        return Ok(());
    }
    Err(Error::option(option, format!("it must be at least 2, not {ttl}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(options: EnqueueOptions) -> NewJob {
        NewJob::new(Payload::default(), QueueOptions::default(), options).unwrap()
    }

    #[test]
    fn cx_05_options_that_cannot_work_are_refused_by_name() {
        type Change = fn(&mut QueueOptions, i64);
        let changes: [(&str, Change); 4] = [
            ("visibility_timeout_s", |o, v| o.visibility_timeout_s = v),
            ("max_attempts", |o, v| o.max_attempts = v),
            ("backoff_base_s", |o, v| o.backoff_base_s = v),
            ("dead_letter_retention_s", |o, v| {
                o.dead_letter_retention_s = Some(v);
            }),
        ];
        for (field, change) in changes {
            for value in [0, -1, i64::MIN] {
                let mut options = QueueOptions::default();
                change(&mut options, value);
                match options.check() {
                    Err(Error::InvalidOption { option, .. }) => assert_eq!(option, field),
                    other => panic!("{field} = {value}: {other:?}"),
                }
            }
        }
        assert!(QueueOptions::default().check().is_ok() && QueueOptions::OUTBOX.check().is_ok());
        let none = EnqueueOptions {
            max_attempts: Some(0),
            ..EnqueueOptions::default()
        };
        let refused = NewJob::new(Payload::default(), QueueOptions::default(), none);
        assert!(matches!(
            refused,
            Err(Error::InvalidOption {
                option: "max_attempts",
                ..
            })
        ));
    }

    #[test]
    fn cq_01_delay_beats_run_at_and_expiry_counts_from_readiness() {
        let both = job(EnqueueOptions {
            delay: Some(10),
            run_at: Some(5),
            expires: Some(3),
            ..EnqueueOptions::default()
        });
        assert_eq!((both.run_at(100), both.expires_at(100)), (110, Some(113)));
        let at = job(EnqueueOptions {
            run_at: Some(5),
            ..EnqueueOptions::default()
        });
        assert_eq!((at.run_at(100), at.expires_at(100)), (5, None));
        assert_eq!(job(EnqueueOptions::default()).run_at(100), 100);
    }

    #[test]
    fn cx_05_times_saturate() {
        let far = job(EnqueueOptions {
            delay: Some(i64::MAX),
            expires: Some(i64::MAX),
            ..EnqueueOptions::default()
        });
        assert_eq!((far.run_at(100), far.expires_at(100)), (i64::MAX, Some(i64::MAX)));
        let past = job(EnqueueOptions {
            delay: Some(i64::MIN),
            ..EnqueueOptions::default()
        });
        assert_eq!(past.run_at(-100), i64::MIN);
    }
}
