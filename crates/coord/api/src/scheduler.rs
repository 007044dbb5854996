//! The runner of schedules: one leads, by a lock, and fires what is due (CD-02).

use std::{
    convert::Infallible,
    pin::pin,
    process,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, select_biased};
use tokio_util::sync::CancellationToken;

use crate::{
    Channel, Error, Firing, LocalName, Lock, LockAttempt, Name, NextTime, Result, Store,
    options::renewable,
    pause::Pause,
    wait::{Waiting, Woken},
};

/// How a runner of schedules leads. Values that cannot work are refused by name when it starts (CX-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// For how long a leader that died keeps others from leading, in seconds, at least 2; it renews at a third of it.
    /// Default 15.
    pub ttl_s: i64,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { ttl_s: 15 }
    }
}

impl Store {
    /// Fires the schedules until `stop`; see [`run_schedules_with`](Self::run_schedules_with).
    pub async fn run_schedules(&self, stop: CancellationToken) -> Result<()> {
        self.run_schedules_with(SchedulerOptions::default(), stop).await
    }

    /// Fires the schedules until `stop` (CD-02): enqueues a job for each boundary that comes, and for those that came
    /// while nothing ran, the newest 64 of each schedule (CD-03).
    ///
    /// Any number of runners may compete, in any number of processes: one leads, the others wait, and one of them takes
    /// over as soon as the leader stops, or within the ttl when it died. Run one in each process.
    ///
    /// `Ok` at the stop, the lead given back; [`Error::LeadershipLost`] when the lead was lost, as after a long halt of
    /// the process; [`Error::Database`] when the storage failed. After either, run it again.
    pub async fn run_schedules_with(&self, options: SchedulerOptions, stop: CancellationToken) -> Result<()> {
        renewable("ttl_s", options.ttl_s)?;
        // Before the first look, so that no change falls between them.
        let wakes = self.0.listen(Channel::schedules()).await?;
        let mut waiting = Waiting::new(self.0.clone(), wakes);
        let Some(lock) = self.win(options.ttl_s, &mut waiting, &stop).await? else {
            return Ok(());
        };
        let led = select_biased! {
            () = pin!(stop.cancelled().fuse()) => Ok(()),
            kept = pin!(lock.keep(options.ttl_s).fuse()) => kept.and(Err(Error::LeadershipLost)),
            fired = pin!(self.fire(&lock, &mut waiting).fuse()) => fired.map(|never| match never {}),
        };
        if !matches!(led, Err(Error::LeadershipLost | Error::Closed))
            && let Err(error) = lock.release().await
        {
            tracing::warn!(
                error = error.report(),
                "the lead of the schedules could not be given back; it lapses"
            );
        }
        led
    }

    /// Waits until this runner leads; `None` at the stop.
    async fn win(&self, ttl: i64, waiting: &mut Waiting, stop: &CancellationToken) -> Result<Option<Lock>> {
        let name = Name::scheduler();
        let owner = LocalName::new(&format!("scheduler-{}-{:016x}", process::id(), fastrand::u64(..)))?;
        let mut pause = Pause::default();
        while !stop.is_cancelled() {
            let asked = Instant::now();
            // Waited for also at the stop: dropped, the lock would be held by nobody.
            match self.0.try_lock(name.clone(), owner.clone(), ttl).await? {
                LockAttempt::Held { fence, until } => {
                    return Ok(Some(Lock::new(self.0.clone(), name, fence, asked, until.wait)));
                }
                // It lapses as this is read.
                LockAttempt::Lost(NextTime {
                    wait: Duration::ZERO, ..
                }) => {
                    stop.run_until_cancelled(pause.take()).await;
                }
                LockAttempt::Lost(lapses) => {
                    let woken = stop.run_until_cancelled(waiting.wait(Some(lapses))).await;
                    if woken == Some(Woken::Closed) {
                        return Err(Error::Closed);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Fires what is due, again and again, for as long as the lock is held.
    async fn fire(&self, lock: &Lock, waiting: &mut Waiting) -> Result<Infallible> {
        loop {
            let Firing::Fired { jobs, next } = self.0.fire_schedules(lock.name.clone(), lock.fence()).await?
            else {
                return Err(Error::LeadershipLost);
            };
            if jobs > 0 {
                waiting.found();
                tracing::debug!(jobs, "schedules fired");
            }
            if waiting.wait(next).await == Woken::Closed {
                return Err(Error::Closed);
            }
        }
    }
}
