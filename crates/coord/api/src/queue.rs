//! Queues: jobs that wait, and the handles of those who work on them (CQ-*).

use std::{sync::Arc, time::Instant};

use serde::de::DeserializeOwned;

use crate::{
    Channel, Claim, Claimed, Engine, EnqueueOptions, Job, LocalName, Name, NewJob, NextTime, Payload,
    QueueOptions, Result, Transaction, WakeReceiver,
    backoff::backoff,
    options::{extent, positive},
};

/// A queue of a store, by name, with the options that its jobs are stamped with. Clones are cheap.
#[derive(Clone)]
pub struct Queue {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) name: Name,
    options: QueueOptions,
}

/// Which dead jobs to list (CI-02). The default is the first hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadPage {
    /// Jobs with greater ids only; 0 begins.
    pub after: i64,
    /// At most so many; none when it is not positive.
    pub limit: i64,
}

impl Default for DeadPage {
    fn default() -> Self {
        Self { after: 0, limit: 100 }
    }
}

impl Queue {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: Name, options: QueueOptions) -> Result<Self> {
        options.check()?;
        Ok(Self {
            engine,
            name,
            options,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// What its jobs are stamped with.
    pub fn options(&self) -> QueueOptions {
        self.options
    }

    /// Stores a job that is ready at once, and gives its id.
    pub async fn enqueue(&self, payload: impl Into<Payload>) -> Result<i64> {
        self.enqueue_with(payload, EnqueueOptions::default()).await
    }

    /// Stores a job, and gives its id.
    pub async fn enqueue_with(&self, payload: impl Into<Payload>, options: EnqueueOptions) -> Result<i64> {
        let ids = self.enqueue_batch(vec![(payload.into(), options)]).await?;
        Ok(ids[0])
    }

    /// Stores many jobs in one transaction, and gives their ids, in order (CQ-09).
    pub async fn enqueue_batch(&self, jobs: Vec<(Payload, EnqueueOptions)>) -> Result<Vec<i64>> {
        let jobs = NewJob::batch(self.options, jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.engine.enqueue(self.name.clone(), jobs).await
    }

    /// Stores a job in a transaction of the same store, with this queue's options, and gives its id. By the queue's name alone
    /// ([`Transaction::enqueue`]) it has the default ones (CT-04).
    pub async fn enqueue_in(
        &self,
        transaction: &mut Transaction,
        payload: impl Into<Payload>,
    ) -> Result<i64> {
        self.enqueue_in_with(transaction, payload, EnqueueOptions::default())
            .await
    }

    /// Stores a job in a transaction of the same store, with this queue's options and its own, and gives its id.
    pub async fn enqueue_in_with(
        &self,
        transaction: &mut Transaction,
        payload: impl Into<Payload>,
        options: EnqueueOptions,
    ) -> Result<i64> {
        let ids = self
            .enqueue_batch_in(transaction, vec![(payload.into(), options)])
            .await?;
        Ok(ids[0])
    }

    /// Stores many jobs in a transaction of the same store, with this queue's options, and gives their ids, in order.
    pub async fn enqueue_batch_in(
        &self,
        transaction: &mut Transaction,
        jobs: Vec<(Payload, EnqueueOptions)>,
    ) -> Result<Vec<i64>> {
        transaction.store(&self.name, self.options, jobs).await
    }

    /// Claims the job that comes first, if one can be claimed (CQ-02).
    pub async fn claim_one(&self, worker: &str) -> Result<Option<JobHandle>> {
        Ok(self.claim_batch(worker, 1).await?.pop())
    }

    /// Claims at most `n` jobs, in order; none when `n` is not positive (CQ-02).
    pub async fn claim_batch(&self, worker: &str, n: i64) -> Result<Vec<JobHandle>> {
        let worker = LocalName::new(worker)?;
        let n = extent(n);
        if n == 0 {
            return Ok(Vec::new());
        }
        // Not to be guessed, and no two claims share one.
        let token = fastrand::i64(1..);
        let asked = Instant::now();
        let claimed = self
            .engine
            .claim(self.name.clone(), worker.clone(), token, n)
            .await?;
        let handle = |Claimed { job, token }| JobHandle {
            engine: self.engine.clone(),
            asked,
            claim: Claim {
                id: job.id,
                worker: worker.clone(),
                token,
            },
            job,
        };
        Ok(claimed.into_iter().map(handle).collect())
    }

    /// Acknowledges many jobs of this queue in one transaction, and tells how many claims still held (CQ-06).
    pub async fn ack_batch<'h>(&self, handles: impl IntoIterator<Item = &'h JobHandle>) -> Result<usize> {
        let claims: Vec<Claim> = handles
            .into_iter()
            .filter(|handle| handle.job.queue == self.name)
            .map(|handle| handle.claim.clone())
            .collect();
        if claims.is_empty() {
            return Ok(0);
        }
        let acked = self.engine.ack(self.name.clone(), claims).await?;
        Ok(acked.into_iter().filter(|acked| *acked).count())
    }

    /// Deletes a live job of this queue, whoever holds it, and tells whether it was there; its holder's next operation
    /// gives `false` (CQ-06).
    pub async fn cancel(&self, id: i64) -> Result<bool> {
        self.engine.cancel(self.name.clone(), id).await
    }

    /// A live or dead job of this queue (CQ-05).
    pub async fn get_job(&self, id: i64) -> Result<Option<Job>> {
        self.engine.get_job(self.name.clone(), id).await
    }

    /// Moves every expired job to the dead letters, in any state, and tells how many; deletes dead ones past their
    /// retention (CQ-06). Nothing does so unasked.
    pub async fn sweep_expired(&self) -> Result<u64> {
        self.engine.sweep_expired(self.name.clone()).await
    }

    /// When a claim will next find something: now or earlier when it would already, else when a job becomes ready or a
    /// claim lapses; `None` when nothing waits (CQ-07).
    pub async fn next_ready_at(&self) -> Result<Option<i64>> {
        Ok(self.next_ready().await?.map(|time| time.at))
    }

    /// Listens for enqueues, without claiming.
    pub async fn listen(&self) -> Result<WakeReceiver> {
        self.engine.listen(Channel::queue(&self.name)).await
    }

    /// Dead jobs, by id (CI-02).
    pub async fn dead_jobs(&self, page: DeadPage) -> Result<Vec<Job>> {
        if page.limit <= 0 {
            return Ok(Vec::new());
        }
        self.engine.dead_jobs(self.name.clone(), page).await
    }

    /// Makes a dead job of this queue pending again, with all its attempts, ready now and without expiry; tells whether
    /// it was there (CI-02).
    pub async fn redrive(&self, id: i64) -> Result<bool> {
        self.engine.redrive(self.name.clone(), id).await
    }

    /// Redrives all dead jobs, and tells how many (CI-02).
    pub async fn redrive_all(&self) -> Result<u64> {
        self.engine.redrive_all(self.name.clone()).await
    }

    /// Deletes all dead jobs, and tells how many (CI-02).
    pub async fn purge_dead(&self) -> Result<u64> {
        self.engine.purge_dead(self.name.clone()).await
    }

    pub(crate) async fn next_ready(&self) -> Result<Option<NextTime>> {
        self.engine.next_ready(self.name.clone()).await
    }
}

/// A claimed job. Its operations hold while the claim does: the job is processing, by this worker, under this claim,
/// and the deadline has not passed. Else they give `false` and change nothing (CQ-03).
pub struct JobHandle {
    engine: Arc<dyn Engine>,
    job: Job,
    claim: Claim,
    /// When the claim was asked for, by this process's own time.
    pub(crate) asked: Instant,
}

impl JobHandle {
    /// The job, as it was claimed.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Decodes the payload's JSON. What cannot be decoded is the worker's to [`fail`](Self::fail) (CQ-10).
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        self.job.payload_as()
    }

    /// The work is done: deletes the job.
    pub async fn ack(&self) -> Result<bool> {
        let acked = self.engine.ack(self.queue(), vec![self.claim.clone()]).await?;
        Ok(acked.first() == Some(&true))
    }

    /// The work failed: the job is tried again after `delay` seconds, without one on the back-off curve (CQ-04), or,
    /// when its attempts are spent, moved to the dead letters. The error stays on the job either way; of an
    /// [`Error`](crate::Error), pass [`report`](crate::Error::report), which tells the cause as well.
    pub async fn retry(&self, error: Option<&str>, delay: Option<i64>) -> Result<bool> {
        let delay = delay.unwrap_or_else(|| backoff(self.job.attempts, self.job.stamps.backoff_base_s));
        let error = error.map(str::to_owned);
        self.engine
            .retry(self.queue(), self.claim.clone(), error, delay)
            .await
    }

    /// The work can never succeed: moves the job to the dead letters. Of an [`Error`](crate::Error), pass
    /// [`report`](crate::Error::report), which tells the cause as well.
    pub async fn fail(&self, error: Option<&str>) -> Result<bool> {
        let error = error.map(str::to_owned);
        self.engine.fail(self.queue(), self.claim.clone(), error).await
    }

    /// Gives the job back as if it had not been claimed: it is pending again, the attempt not counted.
    pub async fn release(&self) -> Result<bool> {
        self.engine.release(self.queue(), self.claim.clone()).await
    }

    /// Sets the deadline to `extend` seconds from now, not added to what is left; refused when not positive.
    pub async fn heartbeat(&self, extend: i64) -> Result<bool> {
        positive("extend", extend)?;
        self.engine
            .heartbeat(self.queue(), self.claim.clone(), extend)
            .await
    }

    fn queue(&self) -> Name {
        self.job.queue.clone()
    }
}
