//! The coordination store on the database handle: each operation is one closure in the group commit, or one read.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use esker_coord_api::{
    BoxFuture, Channel, Claim, Claimed, Clock, Cursor, DeadPage, Engine, EngineTransaction, Firing,
    Inspection, Job, LocalName, LockAttempt, Name, NewEvent, NewJob, NewSchedule, NextTime, Payload, Result,
    StreamEvent, WakeReceiver,
};

use crate::{Database, Error, Options, Snapshot, Transaction, options::check_span};

#[cfg(test)]
mod claim_cost;
mod claims;
mod dead;
mod effects;
mod inspect;
mod jobs;
mod locks;
#[cfg(test)]
mod query_plans;
mod queues;
mod schedules;
mod schema;
mod streams;
mod transaction;

pub use effects::Effects;
pub use schema::SCHEMA;
pub use transaction::SqliteTransaction;

/// What the store is told beyond what every engine takes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the file is opened and served.
    pub database: Options,
    /// The store's one clock (CX-04). Default: the system's.
    pub clock: Clock,
    /// How long one read may take, at most 2,147,483,647 ms (24 days). Default 30 s.
    pub read_budget: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            database: Options::default(),
            clock: Clock::system(),
            read_budget: Duration::from_secs(30),
        }
    }
}

/// A coordination store on one SQLite file, for one host and many processes; clones share it. Consumers use it through
/// [`esker_coord_api::Store`].
#[derive(Debug, Clone)]
pub struct SqliteEngine {
    database: Database,
    clock: Clock,
    read_budget: Duration,
    busy: BusyQueues,
}

impl SqliteEngine {
    /// Opens or makes the file, and brings the coordination tables up to date: see [`Database::open`].
    pub fn open(path: &Path, settings: Settings) -> Result<Self, Error> {
        check_span("read_budget", settings.read_budget)?;
        let database = Database::open(path, settings.database, &[SCHEMA])?;
        Ok(Self::on(database, settings.clock, settings.read_budget))
    }

    /// Stands on a database that others share, which was opened with [`SCHEMA`] among its schemas.
    pub fn on(database: Database, clock: Clock, read_budget: Duration) -> Self {
        Self {
            database,
            clock,
            read_budget,
            busy: BusyQueues::default(),
        }
    }

    /// The database handle beneath.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Runs `work` in the next group commit, with the caller's own statements and side effects in one savepoint (CT-02).
    /// Unlike a transaction it holds up no other writer: see [`Database::write`].
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Effects<'_, '_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let clock = self.clock.clone();
        let work = move |tx: &mut Transaction<'_>| work(&mut Effects::new(tx, clock.now()));
        self.database.write(work).await
    }

    fn change<T, F>(&self, work: F) -> BoxFuture<'_, Result<T>>
    where
        F: FnOnce(&mut Transaction<'_>, i64) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let clock = self.clock.clone();
        Box::pin(async move { Ok(self.database.write(move |tx| work(tx, clock.now())).await?) })
    }

    fn look<T, F>(&self, work: F) -> BoxFuture<'_, Result<T>>
    where
        F: FnOnce(&mut Snapshot<'_>, i64) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let clock = self.clock.clone();
        let read = move |snapshot: &mut Snapshot<'_>| work(snapshot, clock.now());
        Box::pin(async move { Ok(self.database.read(self.read_budget, read).await?) })
    }
}

/// Queues whose last claim took as much as it asked for, so that the next need not look before it takes the write lock.
/// A hint: a wrong one costs a look, or one empty commit.
#[derive(Debug, Clone, Default)]
struct BusyQueues(Arc<Mutex<HashSet<Name>>>);

impl BusyQueues {
    /// Queues that are remembered.
    const MOST: usize = 1024;

    fn contains(&self, queue: &Name) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(queue)
    }

    fn note(&self, queue: &Name, busy: bool) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy {
            queues.remove(queue);
        } else if queues.len() < Self::MOST {
            queues.insert(queue.clone());
        }
    }
}

impl Engine for SqliteEngine {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn notify(&self, channel: Name, _payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.change(move |tx, _| {
            tx.wake(&Channel::notify(&channel));
            Ok(())
        })
    }

    fn listen(&self, channel: Channel) -> BoxFuture<'_, Result<WakeReceiver>> {
        Box::pin(async move { Ok(self.database.listen(channel).await?) })
    }

    fn publish(&self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.change(move |tx, now| streams::publish(tx, &stream, &events, now))
    }

    fn read(&self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.look(move |snapshot, _| streams::read(snapshot.sql(), &stream, &from, limit))
    }

    fn save_offset(&self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.change(move |tx, _| streams::save_offset(tx.sql(), &stream, &consumer, offset))
    }

    fn get_offset(&self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.look(move |snapshot, _| streams::get_offset(snapshot.sql(), &stream, &consumer))
    }

    fn trim_to(&self, stream: Name, horizon: i64) -> BoxFuture<'_, Result<u64>> {
        self.change(move |tx, _| streams::trim_to(tx.sql(), &stream, horizon))
    }

    fn enqueue(&self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.change(move |tx, now| queues::enqueue(tx, &queue, &jobs, now))
    }

    fn claim(
        &self,
        queue: Name,
        worker: LocalName,
        token: i64,
        n: usize,
    ) -> BoxFuture<'_, Result<Vec<Claimed>>> {
        Box::pin(async move {
            // An idle worker never takes the write lock (CQ-08). What the claim is by is read anew, once it has the lock: the
            // wait for it may be long, and a claim by a time before it could have lapsed when it is given.
            if !self.busy.contains(&queue) {
                let of = queue.clone();
                let work = self.look(move |snapshot, now| claims::has_work(snapshot.sql(), &of, now));
                if !work.await? {
                    return Ok(Vec::new());
                }
            }
            let of = queue.clone();
            let claim = self.change(move |tx, now| claims::claim(tx.sql(), &of, &worker, token, n, now));
            let claimed = claim.await?;
            self.busy.note(&queue, claimed.len() >= n);
            Ok(claimed)
        })
    }

    fn ack(&self, queue: Name, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<bool>>> {
        self.change(move |tx, now| queues::ack(tx.sql(), &queue, &claims, now))
    }

    fn retry(
        &self,
        queue: Name,
        claim: Claim,
        error: Option<String>,
        delay: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| queues::retry(tx, &queue, &claim, error.as_deref(), delay, now))
    }

    fn fail(&self, queue: Name, claim: Claim, error: Option<String>) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| queues::fail(tx, &queue, &claim, error.as_deref(), now))
    }

    fn release(&self, queue: Name, claim: Claim) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| queues::release(tx, &queue, &claim, now))
    }

    fn heartbeat(&self, queue: Name, claim: Claim, extend: i64) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| queues::heartbeat(tx, &queue, &claim, extend, now))
    }

    fn cancel(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, _| queues::cancel(tx.sql(), &queue, id))
    }

    fn get_job(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.look(move |snapshot, _| queues::get_job(snapshot.sql(), &queue, id))
    }

    fn sweep_expired(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.change(move |tx, now| dead::sweep_expired(tx.sql(), &queue, now))
    }

    fn next_ready(&self, queue: Name) -> BoxFuture<'_, Result<Option<NextTime>>> {
        self.look(move |snapshot, now| {
            let next = claims::next_ready(snapshot.sql(), &queue, now)?;
            Ok(next.map(|at| NextTime::seen(at, now)))
        })
    }

    fn dead_jobs(&self, queue: Name, page: DeadPage) -> BoxFuture<'_, Result<Vec<Job>>> {
        self.look(move |snapshot, _| dead::page(snapshot.sql(), &queue, page))
    }

    fn redrive(&self, queue: Name, id: i64) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| dead::redrive(tx, &queue, id, now))
    }

    fn redrive_all(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.change(move |tx, now| dead::redrive_all(tx, &queue, now))
    }

    fn purge_dead(&self, queue: Name) -> BoxFuture<'_, Result<u64>> {
        self.change(move |tx, _| dead::purge(tx.sql(), &queue))
    }

    fn try_lock(&self, name: Name, owner: LocalName, ttl: i64) -> BoxFuture<'_, Result<LockAttempt>> {
        Box::pin(async move {
            // As for a claim: who loses takes no write lock, and the window of who gets the lock begins when it is given.
            let (of, by) = (name.clone(), owner.clone());
            let held = self.look(move |snapshot, now| locks::look(snapshot.sql(), &of, &by, now));
            if let Some(held) = held.await? {
                return Ok(held);
            }
            self.change(move |tx, now| locks::try_lock(tx.sql(), &name, &owner, ttl, now))
                .await
        })
    }

    fn renew_lock(&self, name: Name, fence: i64, ttl: i64) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| locks::renew(tx.sql(), &name, fence, ttl, now))
    }

    fn release_lock(&self, name: Name, fence: i64) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, now| locks::release(tx, &name, fence, now))
    }

    fn schedule(&self, schedule: NewSchedule) -> BoxFuture<'_, Result<()>> {
        self.change(move |tx, now| schedules::schedule(tx, &schedule, now))
    }

    fn unschedule(&self, name: Name) -> BoxFuture<'_, Result<bool>> {
        self.change(move |tx, _| schedules::unschedule(tx, &name))
    }

    fn fire_schedules(&self, lock: Name, fence: i64) -> BoxFuture<'_, Result<Firing>> {
        self.change(move |tx, now| schedules::fire(tx, &lock, fence, now))
    }

    fn inspect(&self) -> BoxFuture<'_, Result<Inspection>> {
        Box::pin(async move {
            let inspect = self.look(|snapshot, now| inspect::inspect(snapshot.sql(), now));
            Ok(Inspection {
                size_bytes: Some(self.database.disk_bytes()),
                ..inspect.await?
            })
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn EngineTransaction>>> {
        Box::pin(async move {
            let held = self.database.begin().await?;
            let transaction: Box<dyn EngineTransaction> =
                Box::new(SqliteTransaction::new(held, self.clock.clone()));
            Ok(transaction)
        })
    }

    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(time.at)
    }

    fn is_closed(&self) -> bool {
        self.database.is_closed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.database.close())
    }
}
