//! Side effects beside the caller's own SQL, in one closure of the group commit (CT-02).

use esker_coord_api::{
    Channel, Cursor, EnqueueOptions, Job, LocalName, Name, NewEvent, NewJob, Outbox, Payload, QueueOptions,
    Result, StreamEvent, extent,
};

use crate::{
    Transaction,
    engine::{queues, streams},
};

/// What a closure of [`SqliteEngine::write`](crate::SqliteEngine::write) writes with: its own savepoint in the shared
/// transaction. Nothing of it is visible before the commit, and all of it is gone when the closure gives an error.
///
/// The clock was read once, when the closure began (CX-04). Jobs carry the default queue options (CT-04).
pub struct Effects<'t, 'c> {
    tx: &'t mut Transaction<'c>,
    now: i64,
}

impl<'t, 'c> Effects<'t, 'c> {
    pub(crate) fn new(tx: &'t mut Transaction<'c>, now: i64) -> Self {
        Self { tx, now }
    }

    /// The writer's transaction, for the caller's own statements: see [`Transaction::sql`].
    pub fn transaction(&mut self) -> &mut Transaction<'c> {
        self.tx
    }

    /// The time of this closure, in unix seconds of the store's clock.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Stores a job, and gives its id.
    pub fn enqueue(&mut self, queue: &str, payload: impl Into<Payload>) -> Result<i64> {
        self.enqueue_with(queue, payload, EnqueueOptions::default())
    }

    /// Stores a job with options, and gives its id.
    pub fn enqueue_with(
        &mut self,
        queue: &str,
        payload: impl Into<Payload>,
        options: EnqueueOptions,
    ) -> Result<i64> {
        let ids = self.enqueue_batch(queue, vec![(payload.into(), options)])?;
        Ok(ids[0])
    }

    /// Stores many jobs, and gives their ids, in order.
    pub fn enqueue_batch(&mut self, queue: &str, jobs: Vec<(Payload, EnqueueOptions)>) -> Result<Vec<i64>> {
        self.store(&Name::new(queue)?, QueueOptions::default(), jobs)
    }

    /// Stores a delivery with the outbox's options (CO-01), and gives its id.
    pub fn outbox_enqueue(&mut self, outbox: &str, payload: impl Into<Payload>) -> Result<i64> {
        let delivery = (payload.into(), EnqueueOptions::default());
        let ids = self.store(&Outbox::queue_name(outbox)?, QueueOptions::OUTBOX, vec![delivery])?;
        Ok(ids[0])
    }

    /// Appends an event, and gives its offset.
    pub fn publish(&mut self, stream: &str, payload: impl Into<Payload>) -> Result<i64> {
        self.publish_with_key(stream, None, payload)
    }

    /// Appends an event with a key (CS-01), and gives its offset.
    pub fn publish_with_key(
        &mut self,
        stream: &str,
        key: Option<&str>,
        payload: impl Into<Payload>,
    ) -> Result<i64> {
        let event = NewEvent::new(key, payload)?;
        let offsets = self.publish_batch(stream, &[event])?;
        Ok(offsets[0])
    }

    /// Appends many events, and gives their offsets, in order.
    pub fn publish_batch(&mut self, stream: &str, events: &[NewEvent]) -> Result<Vec<i64>> {
        let stream = Name::new(stream)?;
        Ok(streams::publish(self.tx, &stream, events, self.now)?)
    }

    /// Wakes who listens to the channel, after the commit (CW-01).
    pub fn notify(&mut self, channel: &str) -> Result<()> {
        self.tx.wake(&Channel::notify(&Name::new(channel)?));
        Ok(())
    }

    /// Saves how far a consumer has come, unless it has come further (CS-06).
    pub fn save_offset(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        let (stream, consumer) = (Name::new(stream)?, LocalName::new(consumer)?);
        Ok(streams::save_offset(self.tx.sql(), &stream, &consumer, offset)?)
    }

    /// How far a consumer has come.
    pub fn get_offset(&mut self, stream: &str, consumer: &str) -> Result<i64> {
        let (stream, consumer) = (Name::new(stream)?, LocalName::new(consumer)?);
        Ok(streams::get_offset(self.tx.sql(), &stream, &consumer)?)
    }

    /// Events after `offset`, ascending, at most `limit`; none for a limit that is not positive.
    pub fn read_since(&mut self, stream: &str, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        self.read(stream, &Cursor::After(offset), limit)
    }

    /// Events after what the consumer has saved.
    pub fn read_from_consumer(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        let consumer = LocalName::new(consumer)?;
        self.read(stream, &Cursor::Saved(consumer), limit)
    }

    /// A live or dead job of the queue.
    pub fn get_job(&mut self, queue: &str, id: i64) -> Result<Option<Job>> {
        Ok(queues::get_job(self.tx.sql(), &Name::new(queue)?, id)?)
    }

    fn store(
        &mut self,
        queue: &Name,
        stamps: QueueOptions,
        jobs: Vec<(Payload, EnqueueOptions)>,
    ) -> Result<Vec<i64>> {
        let jobs = NewJob::batch(stamps, jobs)?;
        Ok(queues::enqueue(self.tx, queue, &jobs, self.now)?)
    }

    fn read(&mut self, stream: &str, from: &Cursor, limit: i64) -> Result<Vec<StreamEvent>> {
        let stream = Name::new(stream)?;
        Ok(streams::read(self.tx.sql(), &stream, from, extent(limit))?)
    }
}
