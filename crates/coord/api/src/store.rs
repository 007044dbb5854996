//! The store: what a consumer holds, whatever engine is behind it.

use std::{any::Any, sync::Arc, time::Instant};

use crate::{
    Channel, Engine, EnqueueOptions, Inspection, LocalName, Lock, LockAttempt, Name, NewJob, NewSchedule,
    Outbox, Payload, Queue, QueueOptions, Result, Spec, Stream, Transaction, WakeReceiver, options::positive,
};

/// A coordination store. Clones share it; consumer code names no engine (CX-01).
///
/// Names and options are checked here, before the engine is asked: [`Error::InvalidName`](crate::Error::InvalidName),
/// [`Error::ReservedName`](crate::Error::ReservedName), [`Error::InvalidOption`](crate::Error::InvalidOption).
#[derive(Clone)]
pub struct Store(pub(crate) Arc<dyn Engine>);

impl Store {
    /// A store on this engine.
    pub fn new(engine: impl Engine) -> Self {
        Self(Arc::new(engine))
    }

    /// The engine's name: `sqlite`, `postgres`, `memory`.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The engine, when it is of this type.
    pub fn engine<T: Engine>(&self) -> Option<&T> {
        let engine: &dyn Any = &*self.0;
        engine.downcast_ref()
    }

    /// A stream, by name.
    pub fn stream(&self, name: &str) -> Result<Stream> {
        Ok(Stream::new(self.0.clone(), Name::new(name)?))
    }

    /// A queue, by name, with the options that its jobs are stamped with (CQ-01).
    pub fn queue(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        Queue::new(self.0.clone(), Name::new(name)?, options)
    }

    /// An outbox, by name (CO-01).
    pub fn outbox(&self, name: &str) -> Result<Outbox> {
        Outbox::new(self.0.clone(), Name::new(name)?)
    }

    /// Begins a transaction (CT-01).
    pub async fn begin(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.begin().await?))
    }

    /// Runs `work` in a transaction and commits it; an error or a panic rolls back (CT-03). Inside, use the transaction
    /// alone: what a [`Queue`] or a [`Stream`] does is no part of it, and on SQLite waits for its end, which waits for it in
    /// turn, until the transaction has been idle for too long and is rolled back.
    pub async fn with_transaction<T, E: From<crate::Error>>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin().await?;
        let value = work(&mut transaction).await?;
        transaction.commit().await?;
        Ok(value)
    }

    /// Wakes who listens to the channel, in every process; fire and forget (CW-01). Listeners of this store get no
    /// payload (CW-02); on Postgres, whoever else listens does.
    pub async fn notify(&self, channel: &str, payload: impl Into<Payload>) -> Result<()> {
        self.0.notify(Name::new(channel)?, payload.into()).await
    }

    /// Listens to the channel from now on (CW-01).
    pub async fn listen(&self, channel: &str) -> Result<WakeReceiver> {
        self.0.listen(Channel::notify(&Name::new(channel)?)).await
    }

    /// Takes a lock for `ttl` seconds, if no other owner holds it (CL-01). The same owner, trying again while it holds the
    /// lock, gets it again without a new ttl (CL-02). A ttl that is not positive is refused.
    pub async fn try_lock(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Lock>> {
        let (name, owner) = (Name::new(name)?, LocalName::new(owner)?);
        positive("ttl", ttl)?;
        let asked = Instant::now();
        match self.0.try_lock(name.clone(), owner, ttl).await? {
            LockAttempt::Held { fence, until } => {
                Ok(Some(Lock::new(self.0.clone(), name, fence, asked, until.wait)))
            }
            LockAttempt::Lost(_) => Ok(None),
        }
    }

    /// Adds a schedule, or changes the one of this name (CD-01, CD-03): at each boundary a job is enqueued, with the
    /// default queue options and these. Such a job is ready at its boundary, whatever they say of that. Nothing fires
    /// without a runner: see [`run_schedules`](Self::run_schedules).
    pub async fn schedule(
        &self,
        name: &str,
        spec: &str,
        queue: &str,
        payload: impl Into<Payload>,
        options: EnqueueOptions,
    ) -> Result<()> {
        let schedule = NewSchedule {
            name: Name::new(name)?,
            spec: spec.parse::<Spec>()?,
            queue: Name::new(queue)?,
            job: NewJob::new(payload.into(), QueueOptions::default(), options)?,
        };
        self.0.schedule(schedule).await
    }

    /// Removes a schedule, and tells whether it was there.
    pub async fn unschedule(&self, name: &str) -> Result<bool> {
        self.0.unschedule(Name::new(name)?).await
    }

    /// What the store holds: queues, streams, locks, schedules, size (CI-01).
    pub async fn inspect(&self) -> Result<Inspection> {
        self.0.inspect().await
    }

    /// Whether every later call fails: the store was closed, or what it is on is gone (CX-09).
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Ends the store for all its clones: what was submitted is done, receivers end, later calls give
    /// [`Error::Closed`](crate::Error::Closed).
    pub async fn close(&self) {
        self.0.close().await;
    }
}
