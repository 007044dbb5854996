//! Transactions: side effects that commit with the caller's own writes (CT-*).

use std::any::Any;

use crate::{
    Cursor, EngineTransaction, EnqueueOptions, Job, LocalName, Name, NewEvent, NewJob, Payload, QueueOptions,
    Result, StreamEvent, options::extent, outbox,
};

/// A transaction of a store. Nothing of it is visible before the commit, and all of it is gone when it is dropped
/// (CT-02, CT-03). Its reads see its own writes.
///
/// The caller's own SQL runs through the engine's own transaction: see [`engine_mut`](Self::engine_mut). On SQLite a
/// transaction that is held keeps every other writer of the file waiting (CT-05).
pub struct Transaction(Box<dyn EngineTransaction>);

impl Transaction {
    pub(crate) fn new(transaction: Box<dyn EngineTransaction>) -> Self {
        Self(transaction)
    }

    /// Stores a job with the default queue options (CT-04), and gives its id.
    pub async fn enqueue(&mut self, queue: &str, payload: impl Into<Payload>) -> Result<i64> {
        self.enqueue_with(queue, payload, EnqueueOptions::default()).await
    }

    /// Stores a job with the default queue options (CT-04) and its own, and gives its id.
    pub async fn enqueue_with(
        &mut self,
        queue: &str,
        payload: impl Into<Payload>,
        options: EnqueueOptions,
    ) -> Result<i64> {
        let ids = self.enqueue_batch(queue, vec![(payload.into(), options)]).await?;
        Ok(ids[0])
    }

    /// Stores many jobs with the default queue options (CT-04), and gives their ids, in order.
    pub async fn enqueue_batch(
        &mut self,
        queue: &str,
        jobs: Vec<(Payload, EnqueueOptions)>,
    ) -> Result<Vec<i64>> {
        let queue = Name::new(queue)?;
        self.store(&queue, QueueOptions::default(), jobs).await
    }

    /// Stores a delivery with the outbox's options (CO-01), and gives its id.
    pub async fn outbox_enqueue(&mut self, outbox: &str, payload: impl Into<Payload>) -> Result<i64> {
        let queue = outbox::queue_name(&Name::new(outbox)?);
        let delivery = (payload.into(), EnqueueOptions::default());
        let ids = self.store(&queue, QueueOptions::OUTBOX, vec![delivery]).await?;
        Ok(ids[0])
    }

    /// Appends an event. Its offset is assigned last of all, so that no other publisher waits for this transaction
    /// (CS-04); [`read_since`](Self::read_since) shows it.
    pub async fn publish(&mut self, stream: &str, payload: impl Into<Payload>) -> Result<()> {
        self.publish_with_key(stream, None, payload).await
    }

    /// Appends an event with a key (CS-01).
    pub async fn publish_with_key(
        &mut self,
        stream: &str,
        key: Option<&str>,
        payload: impl Into<Payload>,
    ) -> Result<()> {
        let event = NewEvent::new(key, payload)?;
        self.publish_batch(stream, vec![event]).await
    }

    /// Appends many events, in order, as [`publish`](Self::publish) appends one.
    pub async fn publish_batch(&mut self, stream: &str, events: Vec<NewEvent>) -> Result<()> {
        let stream = Name::new(stream)?;
        if events.is_empty() {
            return Ok(());
        }
        self.0.publish(stream, events).await
    }

    /// Wakes who listens, after the commit (CW-01).
    pub async fn notify(&mut self, channel: &str, payload: impl Into<Payload>) -> Result<()> {
        self.0.notify(Name::new(channel)?, payload.into()).await
    }

    /// Saves how far a consumer has come: with what was done for its events, this is exactly once (CS-06). Ask for the events
    /// or the offset in the same transaction, not before it.
    pub async fn save_offset(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        let (stream, consumer) = (Name::new(stream)?, LocalName::new(consumer)?);
        self.0.save_offset(stream, consumer, offset).await
    }

    /// How far a consumer has come. Others that ask for it in a transaction wait for the end of this one (CS-06).
    pub async fn get_offset(&mut self, stream: &str, consumer: &str) -> Result<i64> {
        let (stream, consumer) = (Name::new(stream)?, LocalName::new(consumer)?);
        self.0.get_offset(stream, consumer).await
    }

    /// A live or dead job of the queue.
    pub async fn get_job(&mut self, queue: &str, id: i64) -> Result<Option<Job>> {
        self.0.get_job(Name::new(queue)?, id).await
    }

    /// Events after `offset`, ascending, at most `limit`; none for a limit that is not positive.
    pub async fn read_since(&mut self, stream: &str, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.read(Name::new(stream)?, Cursor::After(offset), limit).await
    }

    /// Events after what the consumer has saved. Others that ask for them in a transaction wait for the end of this one, so
    /// that each goes on where the other has saved (CS-06).
    pub async fn read_from_consumer(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        let (stream, consumer) = (Name::new(stream)?, LocalName::new(consumer)?);
        self.read(stream, Cursor::Saved(consumer), limit).await
    }

    /// Commits: durable when this resolves. An error whose outcome is
    /// [`Unknown`](crate::Outcome::Unknown) may have been a commit.
    pub async fn commit(self) -> Result<()> {
        self.0.commit().await
    }

    /// The engine's own transaction, when it is of this type; it runs the caller's SQL (CT-02).
    pub fn engine_mut<T: EngineTransaction>(&mut self) -> Option<&mut T> {
        let transaction: &mut dyn Any = &mut *self.0;
        transaction.downcast_mut()
    }

    pub(crate) async fn store(
        &mut self,
        queue: &Name,
        stamps: QueueOptions,
        jobs: Vec<(Payload, EnqueueOptions)>,
    ) -> Result<Vec<i64>> {
        let jobs = NewJob::batch(stamps, jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.0.enqueue(queue.clone(), jobs).await
    }

    async fn read(&mut self, stream: Name, from: Cursor, limit: i64) -> Result<Vec<StreamEvent>> {
        match extent(limit) {
            0 => Ok(Vec::new()),
            limit => self.0.read(stream, from, limit).await,
        }
    }
}
