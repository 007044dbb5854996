//! Jobs as they are read, and what the clock decides about them (CQ-02, CQ-05).

use serde::de::DeserializeOwned;

use crate::{LocalName, Name, Payload, QueueOptions, Result};

/// `last_error` of a job whose attempts are spent, where no other is known (CQ-05).
pub const MAX_ATTEMPTS: &str = "max attempts exceeded";
/// `last_error` of a job that was failed without a reason (CQ-05).
pub const FAILED: &str = "failed";
/// `last_error` of a job that expired (CQ-05).
pub const EXPIRED: &str = "expired";

/// Jobs that one claim settles at most of each kind, so that no claim pays for all that lapsed at once. What is left is
/// settled by the next.
pub const MOST_SETTLED: usize = 1000;

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Not claimed; ready when its `run_at` has come.
    Pending,
    /// Claimed; the claim may have lapsed.
    Processing,
    /// Moved to the dead letters.
    Dead,
}

/// A job, live or dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Unique in the store, growing.
    pub id: i64,
    /// The queue's name.
    pub queue: Name,
    /// Where it is in its life.
    pub state: JobState,
    /// What the worker gets, as it was given.
    pub payload: Payload,
    /// Higher ones are claimed first.
    pub priority: i64,
    /// When it is ready, or was, in unix seconds.
    pub run_at: i64,
    /// Claims so far, the present one included.
    pub attempts: i64,
    /// Its options for life; [`max_attempts`](QueueOptions::max_attempts) is the job's own.
    pub stamps: QueueOptions,
    /// Who claimed it; `None` unless it is processing.
    pub worker: Option<LocalName>,
    /// When it was claimed; `None` unless it is processing.
    pub claimed_at: Option<i64>,
    /// The last second in which the claim holds; `None` unless it is processing.
    pub claim_expires_at: Option<i64>,
    /// When it was enqueued.
    pub created_at: i64,
    /// The first second in which it is no longer claimed.
    pub expires_at: Option<i64>,
    /// The schedule's boundary that it stands for.
    pub boundary: Option<i64>,
    /// The last error that a worker gave, or why it is dead.
    pub last_error: Option<String>,
    /// When it was moved to the dead letters.
    pub died_at: Option<i64>,
}

impl Job {
    /// Decodes the payload's JSON.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        self.payload.decode()
    }
}

/// The identity of one claim: the job, the worker, and a token that no other claim of the job has (CQ-03).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub id: i64,
    /// Who claimed it.
    pub worker: LocalName,
    /// What tells this claim from others of the same worker.
    pub token: i64,
}

/// A job that was claimed: as it is after the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The job, processing.
    pub job: Job,
    /// The token that the claim was marked with.
    pub token: i64,
}

/// What the clock has decided about a live job. A claim settles its queue before it takes from it, at most
/// [`MOST_SETTLED`] jobs of each kind; a sweep settles all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Nothing: it goes on.
    Live,
    /// It is to be moved to the dead letters, with this error; for [`MAX_ATTEMPTS`] see [`spent_error`].
    Dead(&'static str),
}

/// `last_error` of a job that dies because its attempts are spent: what the worker gives now, else what one gave before,
/// else [`MAX_ATTEMPTS`] (CQ-05).
pub fn spent_error(given: Option<String>, before: Option<String>) -> String {
    given.or(before).unwrap_or_else(|| MAX_ATTEMPTS.to_owned())
}

/// What the clock has decided about this live job at `now`. `sweep` tells whether a claim that still holds is no
/// protection from expiry: in a sweep it is none (CQ-06); when others claim, it is.
pub fn settles(job: &Job, now: i64, sweep: bool) -> Settlement {
    let lapsed = has_lapsed(job, now);
    if job.expires_at.is_some_and(|expires| expires <= now) && (sweep || job.worker.is_none() || lapsed) {
        return Settlement::Dead(EXPIRED);
    }
    if lapsed && job.attempts >= job.stamps.max_attempts {
        return Settlement::Dead(MAX_ATTEMPTS);
    }
    Settlement::Live
}

/// Whether the job's claim has lapsed: its deadline is before now (CQ-02).
pub fn has_lapsed(job: &Job, now: i64) -> bool {
    job.state == JobState::Processing && job.claim_expires_at.is_some_and(|deadline| deadline < now)
}

/// Whether this live job can be claimed at `now` (CQ-02).
pub fn is_claimable(job: &Job, now: i64) -> bool {
    let open = match job.state {
        JobState::Pending => job.run_at <= now,
        JobState::Processing => has_lapsed(job, now),
        JobState::Dead => false,
    };
    open && job.attempts < job.stamps.max_attempts && job.expires_at.is_none_or(|expires| expires > now)
}

/// The contract's order of claims (CQ-02): priority descending, then `run_at`, then id.
pub fn claim_order(job: &Job) -> (std::cmp::Reverse<i64>, i64, i64) {
    (std::cmp::Reverse(job.priority), job.run_at, job.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            id: 1,
            queue: Name::new("q").unwrap(),
            state: JobState::Pending,
            payload: Payload::default(),
            priority: 0,
            run_at: 100,
            attempts: 0,
            stamps: QueueOptions::default(),
            worker: None,
            claimed_at: None,
            claim_expires_at: None,
            created_at: 50,
            expires_at: None,
            boundary: None,
            last_error: None,
            died_at: None,
        }
    }

    fn claimed(until: i64, attempts: i64) -> Job {
        Job {
            state: JobState::Processing,
            worker: Some(LocalName::new("w").unwrap()),
            claim_expires_at: Some(until),
            attempts,
            ..job()
        }
    }

    #[test]
    fn cq_02_claimable_is_ready_or_lapsed_with_attempts_left_and_not_expired() {
        assert!(!is_claimable(&job(), 99) && is_claimable(&job(), 100));
        // The claim holds in its last second.
        assert!(!is_claimable(&claimed(200, 1), 200) && is_claimable(&claimed(200, 1), 201));
        assert!(!is_claimable(&claimed(200, 3), 201));
        let expiring = Job {
            expires_at: Some(150),
            ..job()
        };
        assert!(is_claimable(&expiring, 149) && !is_claimable(&expiring, 150));
        let dead = Job {
            state: JobState::Dead,
            ..job()
        };
        assert!(!is_claimable(&dead, 200));
    }

    #[test]
    fn cq_05_expiry_comes_before_spent_attempts() {
        let spent = claimed(200, 3);
        assert_eq!(settles(&spent, 200, false), Settlement::Live);
        assert_eq!(settles(&spent, 201, false), Settlement::Dead(MAX_ATTEMPTS));
        let both = Job {
            expires_at: Some(150),
            ..spent
        };
        assert_eq!(settles(&both, 201, false), Settlement::Dead(EXPIRED));
    }

    #[test]
    fn cq_06_a_sweep_takes_expired_jobs_from_their_holders_and_a_claim_does_not() {
        let held = Job {
            expires_at: Some(150),
            ..claimed(200, 1)
        };
        assert_eq!(settles(&held, 160, false), Settlement::Live);
        assert_eq!(settles(&held, 160, true), Settlement::Dead(EXPIRED));
        assert_eq!(settles(&held, 149, true), Settlement::Live);
    }

    #[test]
    fn cq_05_a_spent_job_keeps_what_is_known_of_its_errors() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(spent_error(text("now"), text("before")), "now");
        assert_eq!(spent_error(None, text("before")), "before");
        assert_eq!(spent_error(None, None), MAX_ATTEMPTS);
    }

    #[test]
    fn cq_02_the_order_is_priority_then_run_at_then_id() {
        let mut jobs =
            [(0, 5, 1), (1, 9, 2), (1, 9, 3), (1, 8, 4), (-1, 0, 5)].map(|(priority, run_at, id)| Job {
                id,
                priority,
                run_at,
                ..job()
            });
        jobs.sort_by_key(claim_order);
        assert_eq!(jobs.map(|job| job.id), [4, 2, 3, 1, 5]);
    }
}
