//! A history: what is done to a store, one step after the other, in words that a person can read.

use std::fmt;

use esker_coord_api::{EnqueueOptions, Name, NewEvent, NewJob, NewSchedule, Payload, QueueOptions, Spec};
use esker_testing::histories;

use crate::world::name;

/// Names, few so that steps meet. Two of them differ in case only, which a database's order may not see.
pub(crate) const QUEUES: [&str; 2] = ["q", "Q"];
pub(crate) const STREAMS: [&str; 2] = ["s", "S"];
pub(crate) const CONSUMERS: [&str; 2] = ["c", "C"];
pub(crate) const WORKERS: [&str; 2] = ["w", "x"];
pub(crate) const LOCKS: [&str; 2] = ["l", "L"];
pub(crate) const OWNERS: [&str; 2] = ["a", "b"];
/// Each has a queue of its own, so that the order in which schedules fire does not matter.
pub(crate) const SCHEDULES: [&str; 2] = ["d", "D"];

/// A job that is to be stored.
#[derive(Clone)]
pub(crate) struct NewJobStep {
    pub(crate) payload: u64,
    pub(crate) stamps: QueueOptions,
    pub(crate) options: EnqueueOptions,
}

/// An event that is to be published.
#[derive(Clone)]
pub(crate) struct NewEventStep {
    pub(crate) payload: u64,
    pub(crate) key: Option<&'static str>,
}

/// One step. `handle` is taken modulo the handles that there are; jobs, claims and locks are counted back from the
/// newest, so that a step means the same when earlier ones are left out.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Publish {
        handle: usize,
        stream: &'static str,
        events: Vec<NewEventStep>,
    },
    Read {
        handle: usize,
        stream: &'static str,
        after: i64,
        limit: usize,
    },
    ReadSaved {
        handle: usize,
        stream: &'static str,
        consumer: &'static str,
        limit: usize,
    },
    SaveOffset {
        handle: usize,
        stream: &'static str,
        consumer: &'static str,
        offset: i64,
    },
    GetOffset {
        handle: usize,
        stream: &'static str,
        consumer: &'static str,
    },
    Trim {
        handle: usize,
        stream: &'static str,
        horizon: i64,
    },
    Enqueue {
        handle: usize,
        queue: &'static str,
        jobs: Vec<NewJobStep>,
    },
    Claim {
        handle: usize,
        queue: &'static str,
        worker: &'static str,
        n: usize,
    },
    Ack {
        handle: usize,
        queue: &'static str,
        claims: Vec<usize>,
    },
    EndClaim {
        handle: usize,
        claim: usize,
        wrong: Option<Wrong>,
        end: End,
    },
    Cancel {
        handle: usize,
        queue: &'static str,
        job: usize,
    },
    GetJob {
        handle: usize,
        queue: &'static str,
        job: usize,
    },
    Sweep {
        handle: usize,
        queue: &'static str,
    },
    NextReady {
        handle: usize,
        queue: &'static str,
    },
    Dead {
        handle: usize,
        queue: &'static str,
        after: Option<usize>,
        limit: i64,
    },
    Redrive {
        handle: usize,
        queue: &'static str,
        job: usize,
    },
    RedriveAll {
        handle: usize,
        queue: &'static str,
    },
    Purge {
        handle: usize,
        queue: &'static str,
    },
    TryLock {
        handle: usize,
        lock: &'static str,
        owner: &'static str,
        ttl: i64,
    },
    Renew {
        handle: usize,
        lock: usize,
        ttl: i64,
    },
    Release {
        handle: usize,
        lock: usize,
    },
    Schedule {
        handle: usize,
        schedule: &'static str,
        every_s: i64,
        job: NewJobStep,
    },
    Unschedule {
        handle: usize,
        schedule: &'static str,
    },
    Fire {
        handle: usize,
        lock: usize,
    },
    Inspect {
        handle: usize,
    },
    Transaction {
        handle: usize,
        parts: Vec<Part>,
        commit: bool,
    },
    Clock(i64),
    Reopen,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Ack,
    Retry { error: Option<&'static str>, delay: i64 },
    Fail { error: Option<&'static str> },
    Release,
    Heartbeat(i64),
}

/// What is not the claim's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wrong {
    Worker,
    Token,
    Queue,
}

/// A part of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Enqueue {
        queue: &'static str,
        jobs: Vec<NewJobStep>,
    },
    Publish {
        stream: &'static str,
        events: Vec<NewEventStep>,
    },
    Notify,
    SaveOffset {
        stream: &'static str,
        consumer: &'static str,
        offset: i64,
    },
    GetOffset {
        stream: &'static str,
        consumer: &'static str,
    },
    GetJob {
        queue: &'static str,
        job: usize,
    },
    Read {
        stream: &'static str,
        after: i64,
        limit: usize,
    },
    ReadSaved {
        stream: &'static str,
        consumer: &'static str,
        limit: usize,
    },
    /// What others see meanwhile.
    Outside {
        handle: usize,
    },
}

/// What is done.
#[derive(Clone)]
pub(crate) struct History {
    /// Whether everything is read back after each step, so that a fault shows where it happens; otherwise what an
    /// engine keeps in memory between reads is left alone.
    pub(crate) eager: bool,
    /// Whether two handles take turns.
    pub(crate) two_handles: bool,
    pub(crate) steps: Vec<Step>,
}

impl histories::Step for Step {
    /// How much of it could be left out or be nearer.
    fn weight(&self) -> usize {
        match self {
            Self::Publish { events, .. } => events.len(),
            Self::Enqueue { jobs, .. } => jobs.len(),
            Self::Ack { claims, .. } => claims.len(),
            Self::Transaction { parts, .. } => parts.len(),
            _ => self.clone().back().map_or(0, |back| *back),
        }
    }

    /// The same step in its `n`-th simpler form: without one of its parts, or meaning something nearer.
    fn simpler(&self, n: usize) -> Option<Self> {
        let mut simpler = self.clone();
        match &mut simpler {
            Self::Publish { events, .. } => without(events, n)?,
            Self::Enqueue { jobs, .. } => without(jobs, n)?,
            Self::Ack { claims, .. } => without(claims, n)?,
            Self::Transaction { parts, .. } => without(parts, n)?,
            other => {
                let back = other.back().filter(|back| **back > 0)?;
                *back = *[0, *back / 2].get(n)?;
            }
        }
        Some(simpler)
    }
}

impl Step {
    /// How far back the job, claim or lock is that it means.
    fn back(&mut self) -> Option<&mut usize> {
        match self {
            Self::EndClaim { claim: back, .. }
            | Self::Cancel { job: back, .. }
            | Self::GetJob { job: back, .. }
            | Self::Redrive { job: back, .. }
            | Self::Renew { lock: back, .. }
            | Self::Release { lock: back, .. }
            | Self::Fire { lock: back, .. } => Some(back),
            _ => None,
        }
    }
}

/// Takes one part out, but the last.
fn without<T>(parts: &mut Vec<T>, part: usize) -> Option<()> {
    if part >= parts.len() || parts.len() == 1 {
        return None;
    }
    parts.remove(part);
    Some(())
}

impl NewJobStep {
    pub(crate) fn new_job(&self) -> NewJob {
        let payload = Payload::new(self.payload.to_le_bytes().to_vec());
        NewJob::new(payload, self.stamps, self.options).expect("options that can work")
    }
}

impl NewEventStep {
    pub(crate) fn new_event(&self) -> NewEvent {
        let payload = Payload::new(self.payload.to_le_bytes().to_vec());
        NewEvent::new(self.key, payload).expect("a key that is not empty")
    }
}

/// The schedule that a step means.
pub(crate) fn new_schedule(schedule: &str, every_s: i64, job: &NewJobStep) -> NewSchedule {
    NewSchedule {
        name: name(schedule),
        spec: Spec::every(every_s).expect("a positive interval"),
        queue: queue_of(schedule),
        job: job.new_job(),
    }
}

fn queue_of(schedule: &str) -> Name {
    name(if schedule == SCHEDULES[0] {
        QUEUES[0]
    } else {
        QUEUES[1]
    })
}

impl fmt::Debug for NewJobStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EnqueueOptions {
            delay,
            run_at,
            priority,
            max_attempts,
            expires,
        } = self.options;
        write!(
            f,
            "job {:x}, visible {}",
            self.payload & 0xffff,
            self.stamps.visibility_timeout_s
        )?;
        for (word, value) in [
            ("delay", delay),
            ("run at", run_at),
            ("priority", Some(priority).filter(|priority| *priority != 0)),
            ("attempts", max_attempts),
            ("expires", expires),
            ("kept", self.stamps.dead_letter_retention_s),
        ] {
            if let Some(value) = value {
                write!(f, ", {word} {value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NewEventStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {:x}", self.payload & 0xffff)?;
        self.key.map_or(Ok(()), |key| write!(f, ", key {key}"))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number:>3}. {step:?}")?;
        }
        Ok(())
    }
}
