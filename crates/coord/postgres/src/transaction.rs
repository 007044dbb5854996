//! Transactions of callers: their own SQL and its side effects commit together (CT-*).

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
};

use esker_coord_api::{
    BoxFuture, Channel, Cursor, EngineTransaction, Job, LocalName, Name, NewEvent, NewJob, Payload, Result,
    StreamEvent,
};
use tokio_postgres::{Client, types::Type};

use crate::{
    Error,
    held::Held,
    job::{self, NewJobs, one},
    notify::Notification,
    queues,
    shared::Shared,
    streams::{Append, GET_OFFSET, Reading, SAVE_OFFSET, Saving, saved},
    text::escape,
};

/// Ends with the transaction. Another's name with the same hash is waited for, too, which harms nobody.
const HOLD: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

/// A transaction on a connection of the pool. Dropping it rolls back.
///
/// Events are kept until the commit, or until the same transaction reads their stream, because from the moment that
/// an event has its offset other publishers of that stream wait. So a transaction that is held keeps nobody waiting.
pub struct PostgresTransaction {
    shared: Arc<Shared>,
    held: Held,
    events: BTreeMap<Name, Vec<NewEvent>>,
    wakes: BTreeSet<Channel>,
}

impl PostgresTransaction {
    pub(crate) async fn begin(shared: Arc<Shared>) -> Result<Self, Error> {
        let held = Held::begin(&shared.database, "ISOLATION LEVEL READ COMMITTED").await?;
        Ok(Self {
            shared,
            held,
            events: BTreeMap::new(),
            wakes: BTreeSet::new(),
        })
    }

    /// The transaction behind the contract's, when that is of a [`PostgresEngine`](crate::PostgresEngine).
    pub fn of(transaction: &mut esker_coord_api::Transaction) -> Option<&mut Self> {
        transaction.engine_mut()
    }

    /// The connection that the transaction is on, for the caller's own statements (CT-02). They must not end the
    /// transaction. Where one fails, all that can be done is to roll back (the commit gives an error), unless it came after a
    /// `SAVEPOINT` to which they go back.
    pub fn client(&self) -> Result<&Client, Error> {
        self.shared.check_open()?;
        self.held.client()
    }

    /// Gives the events of one stream their offsets.
    async fn append(&mut self, stream: &Name) -> Result<(), Error> {
        let Some(events) = self.events.remove(stream) else {
            return Ok(());
        };
        let append = Append::new(
            self.shared.database.now(),
            events.iter().map(|event| (stream, event)),
        );
        self.held.query(Append::SQL, &append.parameters()).await.map(drop)
    }

    /// Keeps the consumer's offset from others that ask for it in a transaction, until the end of this one: of two that do
    /// the work of one consumer, the second goes on where the first has saved (CS-06).
    async fn hold(&mut self, stream: &Name, consumer: &LocalName) -> Result<(), Error> {
        let consumer = escape(consumer.as_str());
        let what = format!("{}\n{stream}\n{consumer}", self.shared.database.schema());
        let parameters = [(&what as _, Type::TEXT)];
        self.held.query(HOLD, &parameters).await.map(drop)
    }

    async fn finish(self) -> Result<(), Error> {
        let Self {
            shared,
            held,
            events,
            wakes,
        } = self;
        if events.is_empty() {
            held.commit().await?;
        } else {
            let all = events
                .iter()
                .flat_map(|(stream, events)| events.iter().map(move |event| (stream, event)));
            let append = Append::new(shared.database.now(), all);
            held.commit_with(Append::SQL, &append.parameters()).await?;
        }
        shared.wake(wakes);
        Ok(())
    }

    /// Runs one step, unless the store was closed.
    fn step<'t, T, F>(
        &'t mut self,
        work: impl FnOnce(&'t mut Self) -> F + Send + 't,
    ) -> BoxFuture<'t, Result<T>>
    where
        F: Future<Output = Result<T, Error>> + Send + 't,
    {
        Box::pin(async move {
            self.shared.check_open()?;
            Ok(work(self).await?)
        })
    }
}

impl EngineTransaction for PostgresTransaction {
    fn enqueue(&mut self, queue: Name, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<i64>>> {
        self.step(move |this| async move {
            let mut all = NewJobs::new(this.shared.database.now());
            for job in &jobs {
                all.push(&queue, job);
            }
            let rows = this.held.query(NewJobs::SQL, &all.parameters()).await?;
            this.wakes.insert(Channel::queue(&queue));
            one(&rows)
        })
    }

    fn publish(&mut self, stream: Name, mut events: Vec<NewEvent>) -> BoxFuture<'_, Result<()>> {
        self.step(move |this| async move {
            this.wakes.insert(Channel::stream(&stream));
            this.events.entry(stream).or_default().append(&mut events);
            Ok(())
        })
    }

    fn notify(&mut self, channel: Name, payload: Payload) -> BoxFuture<'_, Result<()>> {
        self.step(move |this| async move {
            let notification = Notification::new(this.shared.database.schema(), &channel, &payload)?;
            this.held
                .query(Notification::SQL, &notification.parameters())
                .await?;
            Ok(())
        })
    }

    fn save_offset(&mut self, stream: Name, consumer: LocalName, offset: i64) -> BoxFuture<'_, Result<()>> {
        self.step(move |this| async move {
            let saving = Saving::new(&stream, &consumer, offset);
            this.held.query(SAVE_OFFSET, &saving.parameters()).await.map(drop)
        })
    }

    fn get_offset(&mut self, stream: Name, consumer: LocalName) -> BoxFuture<'_, Result<i64>> {
        self.step(move |this| async move {
            this.hold(&stream, &consumer).await?;
            let saving = Saving::new(&stream, &consumer, 0);
            Ok(saved(&this.held.query(GET_OFFSET, &saving.whose()).await?))
        })
    }

    fn get_job(&mut self, queue: Name, id: i64) -> BoxFuture<'_, Result<Option<Job>>> {
        self.step(move |this| async move {
            let parameters = [(&queue.as_str() as _, Type::TEXT), (&id as _, Type::INT8)];
            let rows = this.held.query(queues::GET, &parameters).await?;
            Ok(rows.first().map(|row| job::read(row, 0, &queue)))
        })
    }

    fn read(&mut self, stream: Name, from: Cursor, limit: usize) -> BoxFuture<'_, Result<Vec<StreamEvent>>> {
        self.step(move |this| async move {
            if let Cursor::Saved(consumer) = &from {
                this.hold(&stream, consumer).await?;
            }
            this.append(&stream).await?;
            let reading = Reading::new(stream, from, limit);
            let rows = this.held.query(Reading::SQL, &reading.parameters()).await?;
            Ok(reading.events(&rows))
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let entry = shared.enter().await?;
            // In a task of its own: a commit that was asked for is not undone because nobody waits for it (CX-10).
            let committed = shared.runtime.spawn(async move {
                let committed = self.finish().await;
                drop(entry);
                committed
            });
            let committed = committed.await;
            Ok(committed.unwrap_or(Err(Error::Lost))?)
        })
    }
}
