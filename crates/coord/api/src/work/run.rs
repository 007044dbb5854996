//! One claimed job: its handler, the heartbeats beside it, and its end.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    time::Duration,
};

use futures_util::{FutureExt as _, select_biased};
use tokio_util::sync::CancellationToken;

use super::{JobError, error::Fate};
use crate::{Error, Job, JobHandle, Outcome, Result, clock::LONGEST, lease::Lease, pause::Pause};

/// What a worker's jobs share.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'w> {
    /// How many times within its visibility timeout a claim is renewed.
    pub(crate) heartbeats: u32,
    /// No handler begins any more.
    pub(crate) stopping: &'w CancellationToken,
    /// No handler goes on any more, and nothing is tried twice.
    pub(crate) over: &'w CancellationToken,
}

/// What became of a claimed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done and deleted.
    Acked,
    /// Put back.
    Retried { panicked: bool },
    /// Dead.
    Failed { panicked: bool },
    /// Given back.
    Released,
    /// The claim had ended.
    Lost,
}

/// What is to become of a claimed job.
enum Verdict {
    Ack,
    Retry {
        error: Option<String>,
        delay: Option<i64>,
        panicked: bool,
    },
    Fail(Option<String>),
    Release,
}

/// Runs the handler, renewing the claim, and stores its verdict. An error is what kept the verdict from being stored.
pub(crate) async fn run(
    handle: &JobHandle,
    handler: impl AsyncFnOnce(&Job) -> Result<(), JobError>,
    pace: Pace<'_>,
) -> Result<Ending> {
    let mut lease = lease(handle, pace.heartbeats);
    let verdict = if pace.stopping.is_cancelled() {
        Some(Verdict::Release)
    } else if !lease.is_over() {
        let mut work = Box::pin(AssertUnwindSafe(async { handler(handle.job()).await }).catch_unwind());
        let mut over = pin!(pace.over.cancelled().fuse());
        let verdict = select_biased! {
            done = work.as_mut().fuse() => Some(Verdict::of(done)),
            () = pin!(keep(handle, &mut lease).fuse()) => None,
            () = over => Some(Verdict::Release),
        };
        // The handler is gone before its job is given back; what it drops is its own, and may panic too.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
            let job = handle.job();
            tracing::error!(queue = %job.queue, job = job.id, panic = message(&*panic), "dropping a handler panicked");
        }
        verdict
    } else {
        None
    };
    let Some(verdict) = verdict else {
        return Ok(Ending::Lost);
    };
    let held = settle(handle, &verdict, &lease, pace.over).await?;
    Ok(if held {
        verdict.ending(handle.job())
    } else {
        Ending::Lost
    })
}

/// For how long the claim may be held: no longer than this can the store hold it for us.
fn lease(handle: &JobHandle, heartbeats: u32) -> Lease {
    let timeout = u64::try_from(handle.job().stamps.visibility_timeout_s).unwrap_or(0);
    let timeout = Duration::from_secs(timeout);
    // The store counts whole seconds, and the last one still holds.
    let bound = timeout.saturating_add(Duration::from_secs(1)).min(LONGEST);
    Lease::new(handle.asked + bound, timeout / heartbeats, bound)
}

/// Renews the claim again and again; resolves when it is lost.
async fn keep(handle: &JobHandle, lease: &mut Lease) {
    let job = handle.job();
    let timeout = job.stamps.visibility_timeout_s;
    let failed = |error: &Error| {
        tracing::warn!(queue = %job.queue, job = job.id, error = error.report(), "a heartbeat failed; it is tried again");
    };
    let lost = lease.keep(|| handle.heartbeat(timeout), failed).await;
    let error = lost.err().map(|error| error.report());
    tracing::warn!(queue = %job.queue, job = job.id, error, "the claim is lost; its handler is dropped");
}

/// Stores the verdict, and tells whether the claim still held. Tries again while it may hold.
async fn settle(
    handle: &JobHandle,
    verdict: &Verdict,
    lease: &Lease,
    over: &CancellationToken,
) -> Result<bool> {
    let job = handle.job();
    let mut pause = Pause::default();
    let mut unknown = false;
    loop {
        let error = match verdict.store(handle).await {
            // What lost its answer was done, if the claim is gone now.
            Ok(held) => return Ok(held || unknown),
            Err(error) => error,
        };
        let again = matches!(error, Error::Database { .. }) && !lease.is_over() && !over.is_cancelled();
        if !again {
            return Err(error);
        }
        unknown |= error.outcome() == Outcome::Unknown;
        tracing::warn!(queue = %job.queue, job = job.id, error = error.report(), "the end of a job could not be stored; it is tried again");
        over.run_until_cancelled(pause.take()).await;
    }
}

impl Verdict {
    fn of(done: Result<Result<(), JobError>, Box<dyn Any + Send>>) -> Self {
        match done {
            Ok(Ok(())) => Self::Ack,
            Ok(Err(JobError { text: error, fate })) => match fate {
                Fate::Retry(delay) => Self::Retry {
                    error,
                    delay,
                    panicked: false,
                },
                Fate::Fail => Self::Fail(error),
                Fate::Release => Self::Release,
            },
            Err(panic) => Self::Retry {
                error: Some(format!("panicked: {}", message(&*panic))),
                delay: None,
                panicked: true,
            },
        }
    }

    async fn store(&self, handle: &JobHandle) -> Result<bool> {
        match self {
            Self::Ack => handle.ack().await,
            Self::Retry { error, delay, .. } => handle.retry(error.as_deref(), *delay).await,
            Self::Fail(error) => handle.fail(error.as_deref()).await,
            Self::Release => handle.release().await,
        }
    }

    fn ending(&self, job: &Job) -> Ending {
        match self {
            Self::Ack => Ending::Acked,
            &Self::Retry { panicked, .. } if job.attempts >= job.stamps.max_attempts => {
                Ending::Failed { panicked }
            }
            &Self::Retry { panicked, .. } => Ending::Retried { panicked },
            Self::Fail(_) => Ending::Failed { panicked: false },
            Self::Release => Ending::Released,
        }
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a value that is no text",
    }
}
