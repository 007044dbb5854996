//! What a store holds, for those who operate it (CI-01).

use serde::Serialize;

use crate::Name;

/// What a store holds at one moment, each list by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Inspection {
    /// The queues that have jobs, or had.
    pub queues: Vec<QueueInspection>,
    /// The streams that have events, or had.
    pub streams: Vec<StreamInspection>,
    /// The locks that are held.
    pub locks: Vec<LockInspection>,
    /// The schedules.
    pub schedules: Vec<ScheduleInspection>,
    /// Bytes on the disk, where there is one.
    pub size_bytes: Option<u64>,
}

/// A queue's jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct QueueInspection {
    /// The queue; an outbox's is its queue's name.
    pub name: String,
    /// Pending, and their time has come; expired ones too, until a claim or a sweep meets them.
    pub ready: u64,
    /// Pending, and their time is to come.
    pub scheduled: u64,
    /// Processing, lapsed claims included.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Seconds since the oldest ready job became ready.
    pub oldest_ready_s: Option<i64>,
}

/// A stream's events and consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StreamInspection {
    /// The stream.
    pub name: String,
    /// The offset of the oldest event that was not trimmed; `None` when there is none.
    pub first: Option<i64>,
    /// The offset of the newest event ever published.
    pub last: i64,
    /// Who has saved an offset, by name.
    pub consumers: Vec<ConsumerInspection>,
}

/// How far a consumer has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ConsumerInspection {
    /// The consumer.
    pub name: String,
    /// Its saved offset.
    pub offset: i64,
    /// Offsets between the saved one and the newest; 0 when it is ahead.
    pub lag: i64,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LockInspection {
    /// The lock.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Under which fence.
    pub fence: i64,
    /// Seconds until it lapses.
    pub expires_in_s: i64,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ScheduleInspection {
    /// The schedule.
    pub name: String,
    /// As [`Spec`](crate::Spec) writes it.
    pub spec: String,
    /// Where its jobs go.
    pub queue: String,
    /// Its next boundary, in unix seconds.
    pub next: i64,
}

impl Inspection {
    /// The lock under which a runner leads the schedules; `None` where nobody runs them (CD-02).
    pub fn scheduler(&self) -> Option<&LockInspection> {
        let name = Name::scheduler();
        self.locks.iter().find(|lock| lock.name == name.as_str())
    }
}

impl ConsumerInspection {
    /// A consumer of a stream whose newest event is `last`.
    pub fn new(name: String, offset: i64, last: i64) -> Self {
        Self {
            name,
            offset,
            lag: last.saturating_sub(offset).max(0),
        }
    }
}
