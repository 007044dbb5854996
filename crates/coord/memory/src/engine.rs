//! The engine over the shared state: one operation at a time, done when it is called.

use std::{future::ready, sync::Arc};

use esker_coord_api::{
    BoxFuture, Channel, Claim, Claimed, Cursor, DeadPage, Engine, EngineTransaction, Error, Firing,
    Inspection, Job, JobState, LocalName, LockAttempt, Name, NewEvent, NewJob, NewSchedule, NextTime,
    Payload, Result, StreamEvent, WakeHub, WakeReceiver,
};

use crate::{
    Options,
    inspect::inspect,
    jobs,
    state::{Shared, State},
    transaction::MemoryTransaction,
};

/// A handle on a store in memory. When the last is dropped, all is gone.
pub struct MemoryEngine {
    shared: Arc<Shared>,
    number: u64,
    hub: WakeHub,
}

impl MemoryEngine {
    /// An empty store.
    pub fn open(options: Options) -> Self {
        Self::attach(Arc::new(Shared::new(options.clock)))
    }

    /// Another handle on the same store, as a second process would have one: closing either leaves the other open.
    #[must_use]
    pub fn open_again(&self) -> Self {
        Self::attach(self.shared.clone())
    }

    fn attach(shared: Arc<Shared>) -> Self {
        let (number, hub) = shared.attach();
        Self { shared, number, hub }
    }

    fn view<T: Send + 'static>(&self, view: impl FnOnce(&State, i64) -> T) -> BoxFuture<'static, Result<T>> {
        self.write(|state, now, _| view(state, now))
    }

    /// Runs an operation, then wakes who is to be woken.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State, i64, &mut Vec<Channel>) -> T,
    ) -> BoxFuture<'static, Result<T>> {
        // Done here and now, so that a dropped future undoes nothing (CX-10).
        let answer = if self.shared.is_attached(self.number) {
            let mut wakes = Vec::new();
            let value = work(&mut self.shared.state(), self.shared.clock.now(), &mut wakes);
            self.shared.wake(&wakes);
            Ok(value)
        } else {
            Err(Error::Closed)
        };
        Box::pin(ready(answer))
    }

    /// Does something to the job of a claim that still holds; `work` tells whether who waits for the queue may have to look
    /// sooner than it knew.
    fn with_claim(
        &self,
        queue: &Name,
        claim: &Claim,
        work: impl FnOnce(&mut Job, i64) -> bool,
    ) -> BoxFuture<'static, Result<bool>> {
        self.write(|state, now, wakes| {
            let sooner = state.jobs.held(queue, claim, now).map(|job| work(job, now));
            wakes.extend((sooner == Some(true)).then(|| Channel::queue(queue)));
            sooner.is_some()
        })
    }

    fn redrive_some(&self, queue: &Name, wanted: impl Fn(i64) -> bool) -> BoxFuture<'static, Result<u64>> {
        self.write(|state, now, wakes| {
            let redriven = state.jobs.redrive(queue, now, wanted);
            wakes.extend((redriven > 0).then(|| Channel::queue(queue)));
            redriven
        })
    }
}

/// What listens through this handle ends, as a process would.
impl Drop for MemoryEngine {
    fn drop(&mut self) {
        self.shared.detach(self.number);
    }
}

impl Engine for MemoryEngine {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn notify(&self, channel: Name, _payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.write(|_, _, wakes| wakes.push(Channel::notify(&channel)))
    }

    fn listen(&self, channel: Channel) -> BoxFuture<'_, Result<WakeReceiver>> {
        self.view(|_, _| self.hub.listen(channel))
    }

    fn publish(&self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.write(|state, now, wakes| {
            wakes.push(Channel::stream(&stream));
            let publish = |event| state.streams.publish(&stream, event, now);
            events.into_iter().map(publish).collect()
        })
    }

    fn read(&self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.view(|state, _| state.streams.read(&stream, &from, limit))
    }

    fn save_offset(&self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.write(|state, _, _| state.streams.save_offset(&stream, consumer, offset))
    }

    fn get_offset(&self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.view(|state, _| state.streams.offset(&stream, &consumer))
    }

    fn trim_to(&self, stream: Name, horizon: i64) -> BoxFuture<'_, Result<u64>> {
        self.write(|state, _, _| state.streams.trim_to(&stream, horizon))
    }

    fn enqueue(&self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.write(|state, now, wakes| {
            wakes.push(Channel::queue(&queue));
            let enqueue = |job| state.jobs.enqueue(&queue, job, now);
            jobs.into_iter().map(enqueue).collect()
        })
    }

    fn claim(
        &self,
        queue: Name,
        worker: LocalName,
        token: i64,
        n: usize,
    ) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        self.write(|state, now, _| state.jobs.claim(&queue, &worker, token, n, now))
    }

    fn ack(&self, queue: Name, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<bool>>> {
        self.write(|state, now, _| {
            let ack = |claim| state.jobs.ack(&queue, claim, now);
            claims.iter().map(ack).collect()
        })
    }

    fn retry(
        &self,
        queue: Name,
        claim: Claim,
        error: Option<String>,
        delay: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.with_claim(&queue, &claim, |job, now| {
            jobs::retry(job, error, delay, now);
            job.state == JobState::Pending
        })
    }

    fn fail(&self, queue: Name, claim: Claim, error: Option<String>) -> BoxFuture<'_, Result<bool>> {
        self.with_claim(&queue, &claim, |job, now| {
            jobs::fail(job, error, now);
            false
        })
    }

    fn release(&self, queue: Name, claim: Claim) -> BoxFuture<'_, Result<bool>> {
        self.with_claim(&queue, &claim, |job, _| {
            jobs::release(job);
            true
        })
    }

    fn heartbeat(&self, queue: Name, claim: Claim, extend: i64) -> BoxFuture<'_, Result<bool>> {
        self.with_claim(&queue, &claim, |job, now| {
            let deadline = now.saturating_add(extend);
            let before = job.claim_expires_at.replace(deadline);
            before.is_some_and(|before| deadline < before)
        })
    }

    fn cancel(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(|state, _, _| state.jobs.cancel(&queue, id))
    }

    fn get_job(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.view(|state, _| state.jobs.get(&queue, id).cloned())
    }

    fn sweep_expired(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.write(|state, now, _| state.jobs.sweep(&queue, now))
    }

    fn next_ready(&self, queue: Name) -> BoxFuture<'_, Result<Option<NextTime>>> {
        self.view(|state, now| {
            let at = state.jobs.next_ready(&queue, now)?;
            Some(NextTime::seen(at, now))
        })
    }

    fn dead_jobs(&self, queue: Name, page: DeadPage) -> BoxFuture<'_, Result<Vec<Job>>> {
        self.view(|state, _| state.jobs.dead(&queue, page))
    }

    fn redrive(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        let redriven = self.redrive_some(&queue, |dead| dead == id);
        Box::pin(async move { Ok(redriven.await? == 1) })
    }

    fn redrive_all(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.redrive_some(&queue, |_| true)
    }

    fn purge_dead(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.write(|state, _, _| state.jobs.purge(&queue))
    }

    fn try_lock(&self, name: Name, owner: LocalName, ttl: i64) -> BoxFuture<'_, Result<LockAttempt>> {
        self.write(|state, now, _| state.locks.take(&name, owner, ttl, now))
    }

    fn renew_lock(&self, name: Name, fence: i64, ttl: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(|state, now, _| state.locks.renew(&name, fence, ttl, now))
    }

    fn release_lock(&self, name: Name, fence: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(|state, now, wakes| {
            let released = state.locks.release(&name, fence, now);
            wakes.extend(Channel::released(&name).filter(|_| released));
            released
        })
    }

    fn schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, Result<()>> {
        self.write(|state, now, wakes| {
            wakes.push(Channel::schedules());
            state.schedules.set(schedule, now);
        })
    }

    fn unschedule(&self, name: Name) -> BoxFuture<'_, Result<bool>> {
        self.write(|state, _, wakes| {
            let removed = state.schedules.remove(&name);
            wakes.extend(removed.then(Channel::schedules));
            removed
        })
    }

    fn fire_schedules(&self, lock: Name, fence: i64) -> BoxFuture<'_, Result<Firing>> {
        self.write(|state, now, wakes| {
            if !state.locks.is_held(&lock, fence, now) {
                return Firing::Lost;
            }
            let fired = state.schedules.fire(&mut state.jobs, now);
            wakes.extend(fired.iter().map(Channel::queue));
            Firing::Fired {
                jobs: fired.len() as u64,
                next: state.schedules.next().map(|at| NextTime::seen(at, now)),
            }
        })
    }

    fn inspect(&self) -> BoxFuture<'_, Result<Inspection>> {
        self.view(inspect)
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn EngineTransaction>>> {
        let (shared, number) = (self.shared.clone(), self.number);
        self.view(move |_, _| {
            let transaction: Box<dyn EngineTransaction> = Box::new(MemoryTransaction::new(shared, number));
            transaction
        })
    }

    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()> {
        self.shared.clock.sleep_until(time.at)
    }

    fn is_closed(&self) -> bool {
        !self.shared.is_attached(self.number)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.shared.detach(self.number);
        Box::pin(ready(()))
    }
}
