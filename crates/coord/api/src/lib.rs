//! The coordination contract: durable streams, queues, locks, wakes and schedules, whatever engine is behind them.
//!
//! A [`Store`] has them all. Side effects that belong to a write commit with it: see [`Transaction`]. Names, options,
//! stamps, back-off and the schedules' arithmetic are decided here, once, in plain functions; an [`Engine`] stores.
//!
//! No runtime and no driver is needed here (CX-01): futures wake whoever polls them, timers are a thread of their own.

mod backoff;
mod clock;
mod debug;
mod engine;
mod error;
mod inspect;
mod job;
mod lease;
mod lock;
mod name;
mod options;
mod outbox;
mod pause;
mod payload;
mod queue;
mod schedule;
mod scheduler;
mod store;
mod stream;
mod transaction;
mod wait;
mod wake;
mod work;

pub use backoff::backoff;
pub use clock::{Clock, sleep};
pub use engine::{BoxFuture, Engine, EngineTransaction, Firing, LockAttempt, NextTime};
pub use error::{Error, Outcome, Result, with_sources};
pub use inspect::{
    ConsumerInspection, Inspection, LockInspection, QueueInspection, ScheduleInspection, StreamInspection,
};
pub use job::{
    Claim, Claimed, EXPIRED, FAILED, Job, JobState, MAX_ATTEMPTS, MOST_SETTLED, Settlement, claim_order,
    has_lapsed, is_claimable, settles, spent_error,
};
pub use lock::Lock;
pub use name::{LocalName, Name};
pub use options::{EnqueueOptions, NewJob, QueueOptions, Start, extent};
pub use outbox::Outbox;
pub use payload::Payload;
pub use queue::{DeadPage, JobHandle, Queue};
pub use schedule::{CatchUp, FiringRoom, MOST_REPLAYED, NewSchedule, Spec};
pub use scheduler::SchedulerOptions;
pub use store::Store;
pub use stream::{Cursor, EventReceiver, NewEvent, Stream, StreamEvent};
pub use tokio_util::sync::CancellationToken;
pub use transaction::Transaction;
pub use wake::{Channel, RECONNECTED, Wake, WakeHub, WakeReceiver};
pub use work::{JobError, WorkOptions, WorkReport};
