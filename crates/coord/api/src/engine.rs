//! What an engine provides: storage under the handles of this crate, which have checked names, options and payloads.

use std::{any::Any, future::Future, pin::Pin, time::Duration};

use crate::{
    Channel, Claim, Claimed, Cursor, DeadPage, Inspection, Job, LocalName, Name, NewEvent, NewJob,
    NewSchedule, Payload, Result, StreamEvent, WakeReceiver,
};

/// A boxed future, so that the traits are object safe and need no runtime (CX-01).
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A coordination engine. Consumers use [`Store`](crate::Store), which asks it.
///
/// Each operation is atomic, durable when it resolves (CX-08), reads the clock once (CX-04), and goes on when its
/// future is dropped (CX-10). An error says by its [`outcome`](crate::Error::outcome) what is known of the work.
pub trait Engine: Any + Send + Sync {
    /// The engine's name, as in a URL: `sqlite`, `postgres`, `memory`.
    fn kind(&self) -> &'static str;

    /// Wakes who listens, in every process (CW-01). [`PayloadTooLarge`](crate::Error::PayloadTooLarge) before anything
    /// is sent.
    fn notify(&self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>>;

    /// Listens from the moment that this resolves.
    fn listen(&self, channel: Channel) -> BoxFuture<'_, Result<WakeReceiver>>;

    /// Appends events, in order, and gives their offsets (CS-01, CS-03, CS-04).
    fn publish(&self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<Vec<i64>>>;

    /// Events beyond the cursor, ascending, at most `limit` (CS-05).
    fn read(&self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>>;

    /// Saves a consumer's offset, unless it is below the saved one (CS-06).
    fn save_offset(&self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>>;

    /// A consumer's saved offset, 0 when there is none (CS-06).
    fn get_offset(&self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>>;

    /// Deletes events up to and including `horizon`, and tells how many (CS-08).
    fn trim_to(&self, stream: Name, horizon: i64) -> BoxFuture<'_, Result<u64>>;

    /// Stores jobs and gives their ids, in order (CQ-09).
    fn enqueue(&self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>>;

    /// Claims at most `n` jobs, in the contract's order (CQ-02), each marked with `token`. First it settles what the
    /// clock has decided: see [`settles`](crate::settles).
    fn claim(
        &self,
        queue: Name,
        worker: LocalName,
        token: i64,
        n: usize,
    ) -> BoxFuture<'_, Result<Vec<Claimed>>>;

    /// Deletes the jobs of claims that still hold, and tells for each (CQ-03, CQ-06). In one transaction.
    fn ack(&self, queue: Name, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<bool>>>;

    /// Ends a claim that still holds: the job is ready again after `delay` seconds, or, its attempts spent, dead, with
    /// this error or [`MAX_ATTEMPTS`](crate::MAX_ATTEMPTS) (CQ-03).
    fn retry(
        &self,
        queue: Name,
        claim: Claim,
        error: Option<String>,
        delay: i64,
    ) -> BoxFuture<'_, Result<bool>>;

    /// Ends a claim that still holds: the job is dead, with this error or [`FAILED`](crate::FAILED) (CQ-03).
    fn fail(&self, queue: Name, claim: Claim, error: Option<String>) -> BoxFuture<'_, Result<bool>>;

    /// Ends a claim that still holds as if it had not been: the job is pending at its old `run_at`, the attempt not
    /// counted.
    fn release(&self, queue: Name, claim: Claim) -> BoxFuture<'_, Result<bool>>;

    /// Sets the deadline of a claim that still holds to `extend` seconds from now (CQ-03).
    fn heartbeat(&self, queue: Name, claim: Claim, extend: i64) -> BoxFuture<'_, Result<bool>>;

    /// Deletes a live job, whoever holds it (CQ-06).
    fn cancel(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>>;

    /// A live or dead job of this queue (CQ-05).
    fn get_job(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>>;

    /// Moves every expired job of the queue to dead, in any state, and every lapsed one with no attempts left, and tells
    /// how many; deletes dead jobs past their retention (CQ-05, CQ-06).
    fn sweep_expired(&self, queue: Name) -> BoxFuture<'_, Result<u64>>;

    /// When a claim will next find something: now, when a job is ready or a claim has lapsed, else the earliest time
    /// at which one will be; `None` when nothing waits (CQ-07). Attempts and expiry count.
    fn next_ready(&self, queue: Name) -> BoxFuture<'_, Result<Option<NextTime>>>;

    /// Dead jobs, by id (CI-02).
    fn dead_jobs(&self, queue: Name, page: DeadPage) -> BoxFuture<'_, Result<Vec<Job>>>;

    /// Makes a dead job pending again, ready now, with no attempts counted and no expiry, and tells whether it was there
    /// (CI-02). It keeps its id and its `last_error`.
    fn redrive(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>>;

    /// Redrives all dead jobs of the queue, and tells how many (CI-02).
    fn redrive_all(&self, queue: Name) -> BoxFuture<'_, Result<u64>>;

    /// Deletes all dead jobs of the queue, and tells how many (CI-02).
    fn purge_dead(&self, queue: Name) -> BoxFuture<'_, Result<u64>>;

    /// Takes a lock that is free or lapsed, with a fence greater than every earlier one of this name; or finds the owner
    /// to be this one already, and changes nothing (CL-01 to CL-03).
    fn try_lock(&self, name: Name, owner: LocalName, ttl: i64) -> BoxFuture<'_, Result<LockAttempt>>;

    /// Gives a lock that is still held under this fence, and has not lapsed, a full new window (CL-01).
    fn renew_lock(&self, name: Name, fence: i64, ttl: i64) -> BoxFuture<'_, Result<bool>>;

    /// Gives back a lock that is still held under this fence, and has not lapsed (CL-01). Its fence is remembered.
    /// Wakes [`Channel::released`].
    fn release_lock(&self, name: Name, fence: i64) -> BoxFuture<'_, Result<bool>>;

    /// Adds or changes a schedule (CD-01, CD-03). Wakes [`Channel::schedules`].
    fn schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, Result<()>>;

    /// Removes a schedule, and tells whether it was there. Wakes [`Channel::schedules`].
    fn unschedule(&self, name: Name) -> BoxFuture<'_, Result<bool>>;

    /// Enqueues what has elapsed and advances the schedules, in one transaction (CD-03), if this lock is still held
    /// under this fence and has not lapsed.
    fn fire_schedules(&self, lock: Name, fence: i64) -> BoxFuture<'_, Result<Firing>>;

    /// What the store holds (CI-01).
    fn inspect(&self) -> BoxFuture<'_, Result<Inspection>>;

    /// Begins a transaction (CT-01).
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn EngineTransaction>>>;

    /// Resolves at this time of the store's clock.
    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()>;

    /// How often who waits reads again without a wake, where wakes can be lost (CW-05).
    fn safety_interval(&self) -> Option<Duration> {
        None
    }

    /// Counts that reading again without a wake found something (CW-05).
    fn note_lost_wake(&self) {}

    /// Whether every later call fails: the store was closed, or what it is on is gone.
    fn is_closed(&self) -> bool;

    /// Ends the store: what was submitted is done and answered, receivers end, later calls give
    /// [`Closed`](crate::Error::Closed).
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A transaction of an engine. Dropping it rolls back (CT-03).
pub trait EngineTransaction: Any + Send {
    /// Stores jobs, visible after the commit, and gives their ids, in order.
    fn enqueue(&mut self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>>;

    /// Appends events, in order; their offsets are assigned last, so that commit order is offset order (CS-04).
    fn publish(&mut self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<()>>;

    /// Wakes who listens, after the commit (CW-01).
    fn notify(&mut self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>>;

    /// Saves a consumer's offset, unless it is below the saved one (CS-06).
    fn save_offset(&mut self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>>;

    /// As [`Engine::get_offset`], own writes included.
    fn get_offset(&mut self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>>;

    /// As [`Engine::get_job`], own writes included.
    fn get_job(&mut self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>>;

    /// As [`Engine::read`], own writes included.
    fn read(&mut self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>>;

    /// Commits: durable when it resolves.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// A time to come, as the engine told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTime {
    /// In unix seconds of the store's clock.
    pub at: i64,
    /// How far away it was when the engine answered: for a store whose clock is on another host.
    pub wait: Duration,
}

impl NextTime {
    /// A time to come, as seen `now` by a clock of this host.
    pub fn seen(at: i64, now: i64) -> Self {
        let wait = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
        Self {
            at,
            wait: Duration::from_secs(wait),
        }
    }
}

/// What became of the wish for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockAttempt {
    /// It is held.
    Held {
        /// Under this fence.
        fence: i64,
        /// Until then, unless it is renewed: the same owner gets what it holds without a new ttl (CL-02).
        until: NextTime,
    },
    /// Another owner holds it, until then unless it is renewed.
    Lost(NextTime),
}

/// What became of the schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firing {
    /// The lock is not held: nothing was done.
    Lost,
    /// Jobs were enqueued for what had elapsed.
    Fired {
        /// How many.
        jobs: u64,
        /// The next boundary of all schedules.
        next: Option<NextTime>,
    },
}
