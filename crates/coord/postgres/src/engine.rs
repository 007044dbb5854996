//! The engine: each operation of the contract, on its way to the database.

use std::{future::Future, sync::Arc, time::Duration};

use esker_coord_api::{
    BoxFuture, Channel, Claim, Claimed, Cursor, DeadPage, Engine, EngineTransaction, Firing, Inspection, Job,
    LocalName, LockAttempt, Name, NewEvent, NewJob, NewSchedule, NextTime, Payload, Result, StreamEvent,
    WakeReceiver, sleep,
};
use tokio_postgres::types::Type;

use crate::{
    Error, Options, Stats, WakeMode,
    batch::{Batcher, Work},
    inspect, job,
    listener::Listener,
    locks,
    notify::Notification,
    queues::{self, Ack, Ending, Enqueue, Wish},
    schedules,
    shared::Shared,
    streams::{self, GET_OFFSET, Publish, Reading, SAVE_OFFSET, Saving, saved},
    transaction::PostgresTransaction,
    vacuum,
};

/// A store on Postgres. It belongs to the tokio runtime in which it was opened, and can be used from anywhere.
pub struct PostgresEngine {
    shared: Arc<Shared>,
    listener: Listener,
    publishes: Batcher<Publish>,
    enqueues: Batcher<Enqueue>,
    claims: Batcher<Wish>,
    acks: Batcher<Ack>,
}

impl PostgresEngine {
    /// Opens the store behind a URL such as `postgres://user@host/database`, creating or migrating its schema. See
    /// [`Options`] for what the URL may say.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let (shared, target) = crate::open::open(url, options).await?;
        let listener = Listener::start(&shared, target).await?;
        shared.runtime.spawn(shared.clone().tell_others());
        shared.runtime.spawn(vacuum::keep(shared.clone()));
        Ok(Self {
            publishes: Batcher::new(&shared),
            enqueues: Batcher::new(&shared),
            claims: Batcher::new(&shared),
            acks: Batcher::new(&shared),
            listener,
            shared,
        })
    }

    /// What the store has done since it was opened.
    pub fn stats(&self) -> Stats {
        self.shared.stats.stats(self.listener.channels())
    }

    /// By what this store knows the wakes that it sent itself: the payload of their notifications.
    pub fn number(&self) -> &str {
        &self.shared.number
    }

    /// How wakes in other processes arrive (CW-08).
    pub fn wake_mode(&self) -> WakeMode {
        self.listener.mode()
    }

    /// Runs an operation in a task of its own, so that it goes on when its future is dropped (CX-10).
    fn run<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F + Send + 'static) -> BoxFuture<'_, Result<T>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        let shared = self.shared.clone();
        Box::pin(async move {
            let entry = shared.enter().await?;
            let runtime = shared.runtime.clone();
            let work = work(shared);
            let task = runtime.spawn(async move {
                let answer = work.await;
                drop(entry);
                answer
            });
            Ok(task.await.unwrap_or(Err(Error::Lost))?)
        })
    }

    /// Lets an operation share a commit with others of its kind.
    fn share<'e, W: Work>(&'e self, batcher: &'e Batcher<W>, work: W) -> BoxFuture<'e, Result<W::Answer>> {
        Box::pin(async move {
            let entry = self.shared.enter().await?;
            Ok(batcher.submit(work, entry).await?)
        })
    }
}

/// The tasks of the store end with it, and who listens hears the end.
impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.hub.close();
    }
}

impl Engine for PostgresEngine {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn notify(&self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>> {
        let heard = self.wake_mode() == WakeMode::Listening;
        self.run(move |shared| async move {
            let notification = Notification::new(shared.database.schema(), &channel, &payload)?;
            shared
                .database
                .write(Notification::SQL, &notification.parameters())
                .await?;
            // Else it arrives as in any other process.
            if !heard {
                shared.hub.wake(&Channel::notify(&channel));
            }
            Ok(())
        })
    }

    fn listen(&self, channel: Channel) -> BoxFuture<'_, Result<WakeReceiver>> {
        Box::pin(async move {
            self.shared.check_open()?;
            Ok(self.listener.listen(&self.shared, channel).await?)
        })
    }

    fn publish(&self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.share(&self.publishes, Publish { stream, events })
    }

    fn read(&self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.run(move |shared| async move {
            let reading = Reading::new(stream, from, limit);
            let rows = shared.database.read(Reading::SQL, &reading.parameters()).await?;
            Ok(reading.events(&rows))
        })
    }

    fn save_offset(&self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.run(move |shared| async move {
            let saving = Saving::new(&stream, &consumer, offset);
            shared
                .database
                .write(SAVE_OFFSET, &saving.parameters())
                .await
                .map(drop)
        })
    }

    fn get_offset(&self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.run(move |shared| async move {
            let saving = Saving::new(&stream, &consumer, 0);
            Ok(saved(&shared.database.read(GET_OFFSET, &saving.whose()).await?))
        })
    }

    fn trim_to(&self, stream: Name, horizon: i64) -> BoxFuture<'_, Result<u64>> {
        self.run(move |shared| async move { streams::trim(&shared.database, &stream, horizon).await })
    }

    fn enqueue(&self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.share(&self.enqueues, Enqueue { queue, jobs })
    }

    fn claim(
        &self,
        queue: Name,
        worker: LocalName,
        token: i64,
        n: usize,
    ) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        self.share(
            &self.claims,
            Wish {
                queue,
                worker,
                token,
                n,
            },
        )
    }

    fn ack(&self, queue: Name, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<bool>>> {
        self.share(&self.acks, Ack { queue, claims })
    }

    fn retry(
        &self,
        queue: Name,
        claim: Claim,
        error: Option<String>,
        delay: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        let ending = Ending::Retry { error, delay };
        self.run(move |shared| async move { queues::end(&shared, &queue, &claim, ending).await })
    }

    fn fail(&self, queue: Name, claim: Claim, error: Option<String>) -> BoxFuture<'_, Result<bool>> {
        let ending = Ending::Fail { error };
        self.run(move |shared| async move { queues::end(&shared, &queue, &claim, ending).await })
    }

    fn release(&self, queue: Name, claim: Claim) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { queues::end(&shared, &queue, &claim, Ending::Release).await })
    }

    fn heartbeat(&self, queue: Name, claim: Claim, extend: i64) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { queues::heartbeat(&shared, &queue, &claim, extend).await })
    }

    fn cancel(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { queues::cancel(&shared, &queue, id).await })
    }

    fn get_job(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.run(move |shared| async move {
            let parameters = [(&queue.as_str() as _, Type::TEXT), (&id as _, Type::INT8)];
            let rows = shared.database.read(queues::GET, &parameters).await?;
            Ok(rows.first().map(|row| job::read(row, 0, &queue)))
        })
    }

    fn sweep_expired(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.run(move |shared| async move { queues::sweep(&shared, &queue).await })
    }

    fn next_ready(&self, queue: Name) -> BoxFuture<'_, Result<Option<NextTime>>> {
        self.run(move |shared| async move { queues::next_ready(&shared.database, &queue).await })
    }

    fn dead_jobs(&self, queue: Name, page: DeadPage) -> BoxFuture<'_, Result<Vec<Job>>> {
        self.run(move |shared| async move { queues::dead(&shared.database, &queue, page).await })
    }

    fn redrive(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { Ok(queues::redrive(&shared, &queue, Some(id)).await? > 0) })
    }

    fn redrive_all(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.run(move |shared| async move { queues::redrive(&shared, &queue, None).await })
    }

    fn purge_dead(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.run(move |shared| async move { queues::purge(&shared.database, &queue).await })
    }

    fn try_lock(&self, name: Name, owner: LocalName, ttl: i64) -> BoxFuture<'_, Result<LockAttempt>> {
        self.run(move |shared| async move { locks::take(&shared, &name, &owner, ttl).await })
    }

    fn renew_lock(&self, name: Name, fence: i64, ttl: i64) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { locks::renew(&shared, &name, fence, ttl).await })
    }

    fn release_lock(&self, name: Name, fence: i64) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { locks::release(&shared, &name, fence).await })
    }

    fn schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, Result<()>> {
        self.run(move |shared| async move { schedules::set(&shared, &schedule).await })
    }

    fn unschedule(&self, name: Name) -> BoxFuture<'_, Result<bool>> {
        self.run(move |shared| async move { schedules::remove(&shared, &name).await })
    }

    fn fire_schedules(&self, lock: Name, fence: i64) -> BoxFuture<'_, Result<Firing>> {
        self.run(move |shared| async move { schedules::fire(&shared, &lock, fence).await })
    }

    fn inspect(&self) -> BoxFuture<'_, Result<Inspection>> {
        self.run(move |shared| async move { inspect::inspect(&shared.database).await })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn EngineTransaction>>> {
        self.run(move |shared| async move {
            let transaction: Box<dyn EngineTransaction> = Box::new(PostgresTransaction::begin(shared).await?);
            Ok(transaction)
        })
    }

    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()> {
        match &self.shared.options.clock {
            Some(clock) => clock.sleep_until(time.at),
            None => Box::pin(sleep(time.wait)),
        }
    }

    fn safety_interval(&self) -> Option<Duration> {
        Some(self.shared.options.safety_interval)
    }

    fn note_lost_wake(&self) {
        self.shared.stats.lost_wakes.add();
    }

    fn is_closed(&self) -> bool {
        self.shared.check_open().is_err()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let (runtime, shared) = (self.shared.runtime.clone(), self.shared.clone());
        Box::pin(async move {
            let closing = runtime.spawn(async move { shared.close().await });
            // It fails only with the runtime, and then all has ended.
            let _ended = closing.await;
        })
    }
}
