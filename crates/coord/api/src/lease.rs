//! What is held for a time and renewed meanwhile: a lock, or the claim of a job.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, select_biased};

use crate::{Error, Outcome, Result, clock::sleep, pause::Pause};

/// Until when something may be held, by this process's own time.
pub(crate) struct Lease {
    /// When it was asked for, or its last renewal.
    renewed: Instant,
    /// How long it is until the first renewal.
    first: Duration,
    /// How long after one the next one is.
    interval: Duration,
    /// How long after the last one it is given up.
    bound: Duration,
}

impl Lease {
    pub(crate) fn new(asked: Instant, interval: Duration, bound: Duration) -> Self {
        Self {
            renewed: asked,
            first: interval,
            interval,
            bound,
        }
    }

    /// Renews at once: what it was taken for may be over before the interval.
    pub(crate) fn at_once(self) -> Self {
        Self {
            first: Duration::ZERO,
            ..self
        }
    }

    /// Whether it must be given up.
    pub(crate) fn is_over(&self) -> bool {
        self.renewed.elapsed() >= self.bound
    }

    /// Renews again and again, and sooner where that failed. `Ok` when it is lost; the error when it was not
    /// renewed until it must be given up, however long the store takes to answer.
    pub(crate) async fn keep<F: Future<Output = Result<bool>>>(
        &mut self,
        renew: impl Fn() -> F,
        failed: impl Fn(&Error),
    ) -> Result<()> {
        let mut pause = Pause::default();
        let mut wait = self.first;
        loop {
            sleep(wait).await;
            let asked = Instant::now();
            // A process that was halted asks once more all the same.
            let left = self.bound.saturating_sub(self.renewed.elapsed());
            let renewal = select_biased! {
                renewal = pin!(renew().fuse()) => renewal,
                () = pin!(sleep(left.max(self.interval / 2)).fuse()) => return Err(unanswered()),
            };
            match renewal {
                Ok(true) => {
                    self.renewed = asked;
                    pause.reset();
                    wait = self.interval;
                }
                Ok(false) => return Ok(()),
                Err(error @ Error::Database { .. }) if !self.is_over() => {
                    failed(&error);
                    wait = pause.next().min(self.interval);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn unanswered() -> Error {
    Error::database("it did not answer in time", Outcome::Unknown)
}
