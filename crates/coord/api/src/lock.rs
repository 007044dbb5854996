//! Locks that lapse, with fences (CL-*).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Engine, Error, Name, Result,
    lease::Lease,
    options::{positive, renewable},
};

/// A lock that is held until its ttl lapses. Dropping it changes nothing: give it back with
/// [`release`](Self::release), or let it lapse.
pub struct Lock {
    engine: Arc<dyn Engine>,
    pub(crate) name: Name,
    fence: i64,
    /// When it was asked for, or renewed last, by this process's own time.
    renewed: Mutex<Instant>,
}

impl Lock {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: Name, fence: i64, asked: Instant) -> Self {
        Self {
            engine,
            name,
            fence,
            renewed: Mutex::new(asked),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// A number that only grows with each fresh acquisition of this name (CL-03). Attach it to writes, so that those of
    /// a holder whose lock has lapsed can be refused.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// A full new window of `ttl` seconds; `false` when the lock is lost, which a renewal never undoes (CL-02). Times are
    /// whole seconds, so that of a ttl as much as the first second may be over at once. A ttl that is not positive is
    /// refused.
    pub async fn renew(&self, ttl: i64) -> Result<bool> {
        positive("ttl", ttl)?;
        let asked = Instant::now();
        let held = self.engine.renew_lock(self.name.clone(), self.fence, ttl).await?;
        if held {
            *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        }
        Ok(held)
    }

    /// How long before the lock can lapse [`keep`](Self::keep) ends at the latest, if the process runs: for what must have
    /// stopped by then. A third of the ttl, less a second of which times are whole.
    pub fn margin(ttl: i64) -> Duration {
        Duration::from_secs(u64::try_from(ttl.saturating_sub(1)).unwrap_or(0)) / 3
    }

    /// Renews the lock now and then at each third of `ttl` seconds, for as long as it is held. `Ok` when it is lost; an error
    /// when the store failed, or did not answer, for two thirds of the ttl, so that there is time to stop before it lapses.
    /// Run it beside what the lock guards, and stop that when this ends. A ttl below 2 is refused.
    pub async fn keep(&self, ttl: i64) -> Result<()> {
        renewable("ttl", ttl)?;
        let (third, renewed) = (
            Self::margin(ttl),
            *self.renewed.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let failed = |error: &Error| {
            tracing::warn!(lock = %self.name, error = error.report(), "a lock was not renewed; it is tried again");
        };
        let mut lease = Lease::new(renewed, third, third.saturating_mul(2)).at_once();
        lease.keep(|| self.renew(ttl), failed).await
    }

    /// Gives the lock back, and tells whether it was still held.
    pub async fn release(&self) -> Result<bool> {
        self.engine.release_lock(self.name.clone(), self.fence).await
    }
}
