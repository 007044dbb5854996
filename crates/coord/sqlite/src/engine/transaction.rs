//! A held transaction of the store, which also runs the caller's own SQL (CT-*).

use esker_coord_api::{
    BoxFuture, Channel, Clock, Cursor, EngineTransaction, Job, LocalName, Name, NewEvent, NewJob, Payload,
    Result, StreamEvent,
};

use crate::{
    Error, HeldTransaction, Transaction,
    engine::{queues, streams},
};

/// The transaction of a [`SqliteEngine`](crate::SqliteEngine). It keeps every other writer of the file waiting, so hold it
/// shortly (CT-05); a closure in [`SqliteEngine::write`](crate::SqliteEngine::write) shares its commit with others instead.
pub struct SqliteTransaction {
    held: HeldTransaction,
    clock: Clock,
}

impl SqliteTransaction {
    pub(crate) fn new(held: HeldTransaction, clock: Clock) -> Self {
        Self { held, clock }
    }

    /// The transaction behind the contract's, when that is of a [`SqliteEngine`](crate::SqliteEngine).
    pub fn of(transaction: &mut esker_coord_api::Transaction) -> Option<&mut Self> {
        transaction.engine_mut()
    }

    /// Runs the caller's own statements, on the writer thread and in a savepoint: see [`HeldTransaction::run`].
    pub async fn run<T, E, F>(&mut self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.held.run(work).await
    }

    fn step<T, F>(&mut self, work: F) -> BoxFuture<'_, Result<T>>
    where
        F: FnOnce(&mut Transaction<'_>, i64) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let clock = self.clock.clone();
        Box::pin(async move { Ok(self.held.run(move |tx| work(tx, clock.now())).await?) })
    }
}

impl EngineTransaction for SqliteTransaction {
    fn enqueue(&mut self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.step(move |tx, now| queues::enqueue(tx, &queue, &jobs, now))
    }

    fn publish(&mut self, stream: Name, events: Vec<NewEvent>) -> BoxFuture<'_, Result<()>> {
        // Nobody else can publish meanwhile, so the offsets may be assigned now.
        self.step(move |tx, now| streams::publish(tx, &stream, &events, now).map(drop))
    }

    fn notify(&mut self, channel: Name, _payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.step(move |tx, _| {
            tx.wake(&Channel::notify(&channel));
            Ok(())
        })
    }

    fn save_offset(&mut self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.step(move |tx, _| streams::save_offset(tx.sql(), &stream, &consumer, offset))
    }

    fn get_offset(&mut self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.step(move |tx, _| streams::get_offset(tx.sql(), &stream, &consumer))
    }

    fn get_job(&mut self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.step(move |tx, _| queues::get_job(tx.sql(), &queue, id))
    }

    fn read(&mut self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.step(move |tx, _| streams::read(tx.sql(), &stream, &from, limit))
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { Ok(self.held.commit().await?) })
    }
}
