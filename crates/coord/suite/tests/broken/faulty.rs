//! Memory with a fault: each operation goes to memory, by way of the fault.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex},
};

use esker_coord_api::{
    BoxFuture, Channel, Claim, Claimed, Clock, Cursor, DeadPage, Engine, EngineTransaction, Firing,
    Inspection, Job, LocalName, LockAttempt, Name, NewEvent, NewJob, NewSchedule, NextTime, Payload, Result,
    Store, StreamEvent, WakeReceiver,
};
use esker_coord_memory::{MemoryEngine, Options};

use crate::Tokens;

/// What a faulty engine does otherwise than memory.
pub(crate) trait Fault: Send + Sync + 'static {
    /// Whether transactions write at once.
    const LEAKS: bool = false;
    /// Whether all is gone when the store is opened again.
    const FORGETS: bool = false;

    fn held(
        _memory: &MemoryEngine,
        _queue: &Name,
        claim: Claim,
        _tokens: &Tokens,
    ) -> impl Future<Output = Claim> + Send {
        async { claim }
    }
    fn error(error: Option<String>) -> Option<String> {
        error
    }
    fn release(
        memory: &MemoryEngine,
        queue: Name,
        claim: Claim,
    ) -> impl Future<Output = Result<bool>> + Send {
        memory.release(queue, claim)
    }
    fn heartbeat(
        memory: &MemoryEngine,
        _clock: &Clock,
        queue: Name,
        claim: Claim,
        extend: i64,
    ) -> impl Future<Output = Result<bool>> + Send {
        memory.heartbeat(queue, claim, extend)
    }
    fn claimed(claimed: Vec<Claimed>) -> Vec<Claimed> {
        claimed
    }
    fn cancel(memory: &MemoryEngine, queue: Name, id: i64) -> impl Future<Output = Result<bool>> + Send {
        memory.cancel(queue, id)
    }
    fn sweep_expired(memory: &MemoryEngine, queue: Name) -> impl Future<Output = Result<u64>> + Send {
        memory.sweep_expired(queue)
    }
    fn next(next: Option<NextTime>, _clock: &Clock) -> Option<NextTime> {
        next
    }
    fn page(page: DeadPage) -> DeadPage {
        page
    }
    fn offset(_saved: &[(Name, LocalName, i64)], _stream: &Name, _consumer: &LocalName, offset: i64) -> i64 {
        offset
    }
    fn cursor(cursor: Cursor) -> Cursor {
        cursor
    }
    fn horizon(horizon: i64) -> i64 {
        horizon
    }
    fn event(event: NewEvent) -> NewEvent {
        event
    }
    fn job(job: NewJob, _clock: &Clock) -> NewJob {
        job
    }
    fn try_lock(
        memory: &MemoryEngine,
        name: Name,
        owner: LocalName,
        ttl: i64,
    ) -> impl Future<Output = Result<LockAttempt>> + Send {
        memory.try_lock(name, owner, ttl)
    }
    fn schedule(memory: &MemoryEngine, schedule: NewSchedule) -> impl Future<Output = Result<()>> + Send {
        memory.schedule(schedule)
    }
    fn fire(memory: &MemoryEngine, lock: Name, fence: i64) -> impl Future<Output = Result<Firing>> + Send {
        memory.fire_schedules(lock, fence)
    }
}

/// The engine under test.
pub(crate) struct Faulty<F>(Store, Clock, PhantomData<F>);

/// A handle on memory, with the fault.
pub(crate) struct Inner<F> {
    memory: MemoryEngine,
    clock: Clock,
    tokens: Tokens,
    saved: Arc<Mutex<Vec<(Name, LocalName, i64)>>>,
    fault: PhantomData<F>,
}

impl<F: Fault> Faulty<F> {
    fn new(memory: MemoryEngine, clock: Clock) -> Self {
        let inner = Inner::<F> {
            memory,
            clock: clock.clone(),
            tokens: Tokens::default(),
            saved: Arc::default(),
            fault: PhantomData,
        };
        Self(Store::new(inner), clock, PhantomData)
    }

    fn another(&self) -> Store {
        let inner: &Inner<F> = self.0.engine().expect("the faulty engine");
        Store::new(Inner::<F> {
            memory: inner.memory.open_again(),
            clock: inner.clock.clone(),
            tokens: inner.tokens.clone(),
            saved: inner.saved.clone(),
            fault: PhantomData,
        })
    }
}

impl<F: Fault> esker_coord_suite::Engine for Faulty<F> {
    type Inner = Inner<F>;
    const WRITERS_WAIT: bool = false;

    async fn open(clock: Clock) -> Self {
        let options = Options { clock: clock.clone() };
        Self::new(MemoryEngine::open(options), clock)
    }

    fn store(&self) -> Store {
        self.0.clone()
    }

    async fn open_again(&self) -> Store {
        self.another()
    }

    async fn reopen(self) -> Self {
        if F::FORGETS {
            return Self::open(self.1).await;
        }
        Self(self.another(), self.1, PhantomData)
    }
}

impl<F: Fault> Engine for Inner<F> {
    fn kind(&self) -> &'static str {
        self.memory.kind()
    }
    fn notify(&self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.memory.notify(channel, payload)
    }
    fn listen(&self, channel: Channel) -> BoxFuture<'_, Result<WakeReceiver>> {
        self.memory.listen(channel)
    }
    fn publish(&self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.memory
            .publish(stream, events.into_iter().map(F::event).collect())
    }
    fn read(&self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.memory.read(stream, F::cursor(from), limit)
    }
    fn save_offset(&self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.saved
            .lock()
            .expect("no panic")
            .push((stream.clone(), consumer.clone(), offset));
        self.memory.save_offset(stream, consumer, offset)
    }
    fn get_offset(&self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        Box::pin(async move {
            let offset = self.memory.get_offset(stream.clone(), consumer.clone()).await?;
            Ok(F::offset(
                &self.saved.lock().expect("no panic"),
                &stream,
                &consumer,
                offset,
            ))
        })
    }
    fn trim_to(&self, stream: Name, horizon: i64) -> BoxFuture<'_, Result<u64>> {
        self.memory.trim_to(stream, F::horizon(horizon))
    }
    fn enqueue(&self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        let jobs = jobs.into_iter().map(|job| F::job(job, &self.clock)).collect();
        self.memory.enqueue(queue, jobs)
    }
    fn claim(
        &self,
        queue: Name,
        worker: LocalName,
        token: i64,
        n: usize,
    ) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        Box::pin(async move {
            let claimed = self.memory.claim(queue, worker, token, n).await?;
            let tokens = claimed.iter().map(|claimed| (claimed.job.id, claimed.token));
            self.tokens.lock().expect("no panic").extend(tokens);
            Ok(F::claimed(claimed))
        })
    }
    fn ack(&self, queue: Name, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(async move {
            let mut held = Vec::new();
            for claim in claims {
                held.push(F::held(&self.memory, &queue, claim, &self.tokens).await);
            }
            self.memory.ack(queue, held).await
        })
    }
    fn retry(
        &self,
        queue: Name,
        claim: Claim,
        error: Option<String>,
        delay: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let claim = F::held(&self.memory, &queue, claim, &self.tokens).await;
            self.memory.retry(queue, claim, F::error(error), delay).await
        })
    }
    fn fail(&self, queue: Name, claim: Claim, error: Option<String>) -> BoxFuture<'_, Result<bool>> {
        self.memory.fail(queue, claim, error)
    }
    fn release(&self, queue: Name, claim: Claim) -> BoxFuture<'_, Result<bool>> {
        Box::pin(F::release(&self.memory, queue, claim))
    }
    fn heartbeat(&self, queue: Name, claim: Claim, extend: i64) -> BoxFuture<'_, Result<bool>> {
        Box::pin(F::heartbeat(&self.memory, &self.clock, queue, claim, extend))
    }
    fn cancel(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        Box::pin(F::cancel(&self.memory, queue, id))
    }
    fn get_job(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.memory.get_job(queue, id)
    }
    fn sweep_expired(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        Box::pin(F::sweep_expired(&self.memory, queue))
    }
    fn next_ready(&self, queue: Name) -> BoxFuture<'_, Result<Option<NextTime>>> {
        Box::pin(async move { Ok(F::next(self.memory.next_ready(queue).await?, &self.clock)) })
    }
    fn dead_jobs(&self, queue: Name, page: DeadPage) -> BoxFuture<'_, Result<Vec<Job>>> {
        self.memory.dead_jobs(queue, F::page(page))
    }
    fn redrive(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.memory.redrive(queue, id)
    }
    fn redrive_all(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.memory.redrive_all(queue)
    }
    fn purge_dead(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.memory.purge_dead(queue)
    }
    fn try_lock(&self, name: Name, owner: LocalName, ttl: i64) -> BoxFuture<'_, Result<LockAttempt>> {
        Box::pin(F::try_lock(&self.memory, name, owner, ttl))
    }
    fn renew_lock(&self, name: Name, fence: i64, ttl: i64) -> BoxFuture<'_, Result<bool>> {
        self.memory.renew_lock(name, fence, ttl)
    }
    fn release_lock(&self, name: Name, fence: i64) -> BoxFuture<'_, Result<bool>> {
        self.memory.release_lock(name, fence)
    }
    fn schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, Result<()>> {
        Box::pin(F::schedule(&self.memory, schedule))
    }
    fn unschedule(&self, name: Name) -> BoxFuture<'_, Result<bool>> {
        self.memory.unschedule(name)
    }
    fn fire_schedules(&self, lock: Name, fence: i64) -> BoxFuture<'_, Result<Firing>> {
        Box::pin(F::fire(&self.memory, lock, fence))
    }
    fn inspect(&self) -> BoxFuture<'_, Result<Inspection>> {
        self.memory.inspect()
    }
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn EngineTransaction>>> {
        Box::pin(async move {
            let transaction = self.memory.begin().await?;
            let leaky: Box<dyn EngineTransaction> = Box::new(Leaky(transaction, self.memory.open_again()));
            Ok(if F::LEAKS {
                leaky
            } else {
                self.memory.begin().await?
            })
        })
    }
    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()> {
        self.memory.sleep_until(time)
    }
    fn is_closed(&self) -> bool {
        self.memory.is_closed()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.memory.close()
    }
}

/// A transaction whose events and wakes are there at once.
struct Leaky(Box<dyn EngineTransaction>, MemoryEngine);

impl EngineTransaction for Leaky {
    fn enqueue(&mut self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.0.enqueue(queue, jobs)
    }
    fn publish(&mut self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.1.publish(stream, events).await.map(drop) })
    }
    fn notify(&mut self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.1.notify(channel, payload)
    }
    fn save_offset(&mut self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.0.save_offset(stream, consumer, offset)
    }
    fn get_offset(&mut self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.0.get_offset(stream, consumer)
    }
    fn get_job(&mut self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.0.get_job(queue, id)
    }
    fn read(&mut self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.0.read(stream, from, limit)
    }
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.commit()
    }
}
