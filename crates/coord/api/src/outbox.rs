//! Outboxes: deliveries that commit with what they tell of (CO-*).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    Engine, EnqueueOptions, Job, JobError, Name, Payload, Queue, QueueOptions, Result, Transaction,
    WorkOptions, WorkReport,
    name::RESERVED,
    work::{self, Pace},
};

/// An outbox of a store, by name: a queue of deliveries that nothing else reaches, with stamps of its own. Clones are
/// cheap.
#[derive(Clone)]
pub struct Outbox {
    name: Name,
    queue: Queue,
}

/// What the name of a queue behind an outbox begins with, after the reserved prefix.
const QUEUE: &str = "outbox:";

/// The queue behind an outbox, out of reach by name (CO-01).
pub(crate) fn queue_name(outbox: &Name) -> Name {
    Name::reserved(&format!("{QUEUE}{outbox}"))
}

impl Outbox {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: Name) -> Result<Self> {
        let queue = Queue::new(engine, queue_name(&name), QueueOptions::OUTBOX)?;
        Ok(Self { name, queue })
    }

    /// The name of the queue behind the outbox of this name, which callers cannot give (CO-01): for engines.
    pub fn queue_name(outbox: &str) -> Result<Name> {
        Ok(queue_name(&Name::new(outbox)?))
    }

    /// The name of the outbox that is behind a queue of this name, if one is: the way back from
    /// [`queue_name`](Self::queue_name).
    pub fn of_queue_name(queue: &str) -> Option<&str> {
        queue.strip_prefix(RESERVED)?.strip_prefix(QUEUE)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Stores a delivery, and gives its id. To commit it with other writes, use
    /// [`Transaction::outbox_enqueue`](crate::Transaction::outbox_enqueue).
    pub async fn enqueue(&self, payload: impl Into<Payload>) -> Result<i64> {
        self.queue.enqueue(payload).await
    }

    /// Stores a delivery with options, and gives its id.
    pub async fn enqueue_with(&self, payload: impl Into<Payload>, options: EnqueueOptions) -> Result<i64> {
        self.queue.enqueue_with(payload, options).await
    }

    /// Stores a delivery in a transaction of the same store, and gives its id, as
    /// [`Transaction::outbox_enqueue`] does by the outbox's name.
    pub async fn enqueue_in(
        &self,
        transaction: &mut Transaction,
        payload: impl Into<Payload>,
    ) -> Result<i64> {
        self.queue.enqueue_in(transaction, payload).await
    }

    /// Stores a delivery with options in a transaction of the same store, and gives its id.
    pub async fn enqueue_in_with(
        &self,
        transaction: &mut Transaction,
        payload: impl Into<Payload>,
        options: EnqueueOptions,
    ) -> Result<i64> {
        self.queue.enqueue_in_with(transaction, payload, options).await
    }

    /// The queue behind it: for its dead letters, and to look in.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Delivers the job that comes first, if there is one, and tells whether there was (CO-01). `Ok` acknowledges it, an
    /// error or a panic has it tried again on the back-off curve, and a [`JobError`] can say otherwise. The claim is
    /// renewed meanwhile; when it is lost all the same, the delivery is dropped.
    pub async fn run_once(
        &self,
        worker: &str,
        delivery: impl AsyncFnOnce(&Job) -> Result<(), JobError>,
    ) -> Result<bool> {
        let Some(handle) = self.queue.claim_one(worker).await? else {
            return Ok(false);
        };
        let never = CancellationToken::new();
        let pace = Pace {
            heartbeats: WorkOptions::default().heartbeats,
            stopping: &never,
            over: &never,
        };
        work::run(&handle, delivery, pace).await?;
        Ok(true)
    }

    /// Delivers until `stop`, as [`Queue::work`] works (CO-02).
    pub async fn run(
        &self,
        options: WorkOptions,
        delivery: impl AsyncFn(&Job) -> Result<(), JobError>,
        stop: CancellationToken,
    ) -> Result<WorkReport> {
        self.queue.work(options, delivery, stop).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_01_an_outbox_is_told_by_the_name_of_its_queue() {
        let queue = Outbox::queue_name("hooks").unwrap();
        assert_eq!(queue.as_str(), "__alkstore_outbox:hooks");
        assert_eq!(Outbox::of_queue_name(queue.as_str()), Some("hooks"));
        for none in ["hooks", "outbox:hooks", Name::scheduler().as_str()] {
            assert_eq!(Outbox::of_queue_name(none), None, "{none}");
        }
    }
}
