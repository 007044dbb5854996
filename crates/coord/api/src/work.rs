//! Workers: jobs are claimed and handed to a handler, several at once, until the worker is told to stop (CQ-07, CO-02).

mod error;
mod run;

use std::{future::pending, pin::pin, process, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{Either, join, select},
    select_biased,
    stream::FuturesUnordered,
};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

pub use error::JobError;
pub(crate) use run::{Pace, run};

use run::Ending;

use crate::{
    Error, Job, JobHandle, LocalName, Queue, Result,
    clock::sleep,
    pause::Pause,
    wait::{Waiting, Woken},
};

/// Handlers that one worker runs at most.
const MOST_CONCURRENT: usize = 65_536;

/// How a worker works. Values that cannot work are refused by name when it starts (CX-05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOptions {
    /// Who claims, as the jobs show it; it need not be unique. Default: one that tells the process.
    pub worker: String,
    /// Handlers that run at once: 1 to 65,536. Default 10.
    pub concurrency: usize,
    /// How many times within its visibility timeout a claim is renewed while its handler runs; 2 or more. Default 3.
    pub heartbeats: u32,
    /// How long handlers may go on after the stop, before they are dropped and their jobs given back. Default 20 s.
    pub grace: Duration,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self {
            worker: format!("worker-{}-{:08x}", process::id(), fastrand::u32(..)),
            concurrency: 10,
            heartbeats: 3,
            grace: Duration::from_secs(20),
        }
    }
}

impl WorkOptions {
    fn check(&self) -> Result<()> {
        LocalName::new(&self.worker)?;
        if !(1..=MOST_CONCURRENT).contains(&self.concurrency) {
            let reason = format!("it must be from 1 to {MOST_CONCURRENT}, not {}", self.concurrency);
            return Err(Error::option("concurrency", reason));
        }
        if self.heartbeats < 2 {
            let reason = format!("it must be 2 or more, not {}", self.heartbeats);
            return Err(Error::option("heartbeats", reason));
        }
        Ok(())
    }
}

/// What became of the jobs that a worker claimed: each is counted once among the five after
/// [`claimed`](Self::claimed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WorkReport {
    /// Jobs claimed.
    pub claimed: u64,
    /// Done and deleted.
    pub acked: u64,
    /// Put back, to be tried again.
    pub retried: u64,
    /// Moved to the dead letters: failed for good, or their attempts spent.
    pub failed: u64,
    /// Given back with the attempt not counted: at the stop, or because the handler said so.
    pub released: u64,
    /// Whose claim had ended before the handler did, or whose end could not be stored; another worker gets them.
    pub lost: u64,
    /// Handlers that panicked; counted as retried or failed too.
    pub panicked: u64,
}

impl WorkReport {
    fn count(&mut self, ending: Ending) {
        let (counter, panicked) = match ending {
            Ending::Acked => (&mut self.acked, false),
            Ending::Retried { panicked } => (&mut self.retried, panicked),
            Ending::Failed { panicked } => (&mut self.failed, panicked),
            Ending::Released => (&mut self.released, false),
            Ending::Lost => (&mut self.lost, false),
        };
        *counter += 1;
        self.claimed += 1;
        self.panicked += u64::from(panicked);
    }
}

impl Queue {
    /// Works on this queue until `stop`: claims jobs as handlers become free, and waits for the queue's wake or the next
    /// due time when there are none (CQ-07).
    ///
    /// `Ok` acknowledges the job; an error has it tried again on the back-off curve, and a [`JobError`] can say
    /// otherwise. A panic counts as an error. While a handler runs, its claim is renewed; when the claim is lost all the
    /// same, because the job was cancelled or its deadline passed, the handler is dropped.
    ///
    /// At the stop nothing more is claimed, running handlers have the [grace](WorkOptions::grace) to finish, and what is
    /// still held then is given back. While the storage fails, the worker goes on trying; the ends of handlers are
    /// stored as soon as it works again, if their claims have not lapsed by then.
    ///
    /// All handlers run within this one future: spawn what computes or blocks for long, or its claims are not renewed.
    /// Dropping the future drops the handlers; their claims lapse. To spawn the future itself, make the handler an
    /// `async move` closure, which owns what it uses.
    ///
    /// [`Error::Closed`] when the store has ended, after the running handlers.
    ///
    /// ```
    /// # use esker_coord_api::{CancellationToken, JobError, Queue, Result, WorkOptions};
    /// # struct Mailer; struct Welcome { to: String }
    /// # impl<'de> serde::Deserialize<'de> for Welcome {
    /// #     fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
    /// #         String::deserialize(d).map(|to| Self { to })
    /// #     }
    /// # }
    /// # impl Mailer { async fn send(&self, _: &str) -> std::io::Result<()> { Ok(()) } }
    /// # async fn work(queue: Queue, mailer: Mailer, stop: CancellationToken) -> Result<()> {
    /// let handler = async move |job: &esker_coord_api::Job| {
    ///     // What cannot be decoded fails for good.
    ///     let welcome: Welcome = job.payload_as()?;
    ///     if !welcome.to.contains('@') {
    ///         return Err(JobError::fail("no address"));
    ///     }
    ///     // What cannot be sent is tried again.
    ///     mailer.send(&welcome.to).await?;
    ///     Ok(())
    /// };
    /// let report = queue.work(WorkOptions::default(), handler, stop).await?;
    /// println!("{} sent, {} to be tried again", report.acked, report.retried);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work(
        &self,
        options: WorkOptions,
        handler: impl AsyncFn(&Job) -> Result<(), JobError>,
        stop: CancellationToken,
    ) -> Result<WorkReport> {
        options.check()?;
        let worker = Worker {
            queue: self,
            slots: Arc::new(Semaphore::new(options.concurrency)),
            stopping: stop.child_token(),
            over: CancellationToken::new(),
            options: &options,
        };
        let (sender, receiver) = mpsc::channel(options.concurrency);
        let work = join(worker.run(&handler, receiver), worker.feed(sender));
        let grace = async {
            worker.stopping.cancelled().await;
            sleep(options.grace).await;
            worker.over.cancel();
            pending::<()>().await;
        };
        match select(pin!(work), pin!(grace)).await {
            Either::Left(((report, fed), _)) => fed.map(|()| report),
            Either::Right(_) => unreachable!("the grace's future never resolves"),
        }
    }
}

/// A claimed job, and the place that its handler takes.
type Held = (JobHandle, OwnedSemaphorePermit);

struct Worker<'w> {
    queue: &'w Queue,
    options: &'w WorkOptions,
    /// One for each handler that may run.
    slots: Arc<Semaphore>,
    /// Nothing more is claimed.
    stopping: CancellationToken,
    /// The grace is over.
    over: CancellationToken,
}

impl Worker<'_> {
    /// Runs a handler for each job that is received, until there are no more to come.
    async fn run(
        &self,
        handler: &impl AsyncFn(&Job) -> Result<(), JobError>,
        mut held: mpsc::Receiver<Held>,
    ) -> WorkReport {
        let mut report = WorkReport::default();
        let mut running = FuturesUnordered::new();
        let mut more = true;
        while more || !running.is_empty() {
            select_biased! {
                ending = running.select_next_some() => report.count(ending),
                job = next(&mut held, more).fuse() => match job {
                    Some(job) => running.push(self.process(job, handler)),
                    None => more = false,
                },
            }
        }
        report
    }

    /// Claims jobs as there are places for them, until the stop.
    async fn feed(&self, running: mpsc::Sender<Held>) -> Result<()> {
        let fed = self.claim(running).await;
        self.stopping.cancel();
        fed
    }

    async fn claim(&self, running: mpsc::Sender<Held>) -> Result<()> {
        let mut pause = Pause::default();
        let mut waiting: Option<Waiting> = None;
        loop {
            let Some(slots) = self.stopping.run_until_cancelled(self.free_slots()).await else {
                return Ok(());
            };
            let next = match self.take(&mut waiting, slots, &running).await {
                Ok(next) => next,
                Err(error @ Error::Database { .. }) => {
                    tracing::warn!(
                        queue = self.queue.name(),
                        error = error.report(),
                        "the worker could not claim; it tries again"
                    );
                    self.stopping.run_until_cancelled(pause.take()).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match (next, &mut waiting) {
                // Something is due and could not be had: others are at it.
                (Next::Nothing(Some(time)), _) if time.wait.is_zero() => {
                    self.stopping.run_until_cancelled(pause.take()).await;
                }
                (Next::Nothing(time), Some(waiting)) => {
                    pause.reset();
                    if self.stopping.run_until_cancelled(waiting.wait(time)).await == Some(Woken::Closed) {
                        return Err(Error::Closed);
                    }
                }
                _ => pause.reset(),
            }
        }
    }

    /// Claims at most as many jobs as there are slots, and starts them; with nothing left to claim, tells when there
    /// will be.
    async fn take(
        &self,
        waiting: &mut Option<Waiting>,
        mut slots: OwnedSemaphorePermit,
        running: &mpsc::Sender<Held>,
    ) -> Result<Next> {
        let waiting = match waiting {
            Some(waiting) => waiting,
            // Before the first claim, so that no enqueue falls between them.
            None => waiting.insert(Waiting::new(
                self.queue.engine.clone(),
                self.queue.listen().await?,
            )),
        };
        let wanted = slots.num_permits();
        let n = i64::try_from(wanted).expect("the options bound it");
        // A claim that was asked for is waited for, also at the stop: dropped, its jobs would be held by nobody.
        let claim = self.queue.claim_batch(&self.options.worker, n);
        let Some(handles) = self.over.run_until_cancelled(claim).await.transpose()? else {
            return Ok(Next::More);
        };
        let claimed = handles.len();
        for handle in handles {
            let slot = slots.split(1).expect("no more jobs than slots were claimed");
            if running.send((handle, slot)).await.is_err() {
                unreachable!("jobs are received until this sender is dropped")
            }
        }
        drop(slots);
        if claimed > 0 {
            waiting.found();
        }
        if claimed == wanted {
            return Ok(Next::More);
        }
        let next = self.stopping.run_until_cancelled(self.queue.next_ready()).await;
        Ok(match next.transpose()? {
            Some(Some(time)) if claimed > 0 && time.wait.is_zero() => Next::More,
            Some(time) => Next::Nothing(time),
            None => Next::More,
        })
    }

    /// All free slots, as soon as there is one.
    async fn free_slots(&self) -> OwnedSemaphorePermit {
        let acquired = self.slots.clone().acquire_owned().await;
        let mut slots = acquired.expect("the semaphore is never closed");
        let rest = u32::try_from(self.slots.available_permits()).expect("the options bound it");
        if let Ok(rest) = self.slots.clone().try_acquire_many_owned(rest) {
            slots.merge(rest);
        }
        slots
    }

    async fn process(
        &self,
        (handle, slot): Held,
        handler: &impl AsyncFn(&Job) -> Result<(), JobError>,
    ) -> Ending {
        let pace = Pace {
            heartbeats: self.options.heartbeats,
            stopping: &self.stopping,
            over: &self.over,
        };
        let ending = run(&handle, handler, pace).await.unwrap_or_else(|error| {
            tracing::error!(
                queue = self.queue.name(),
                job = handle.job().id,
                error = error.report(),
                "the end of a job could not be stored; it is claimed again when its deadline has passed"
            );
            Ending::Lost
        });
        drop(slot);
        ending
    }
}

/// The next job to run, or `None` after the last.
async fn next(held: &mut mpsc::Receiver<Held>, more: bool) -> Option<Held> {
    if more { held.recv().await } else { pending().await }
}

/// What is left after a claim.
enum Next {
    /// There may be more.
    More,
    /// Nothing can be claimed until then.
    Nothing(Option<crate::NextTime>),
}
