//! Locks that lapse, with fences (CL-*).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Engine, Error, Name, Result,
    clock::LONGEST,
    lease::Lease,
    options::{positive, renewable},
};

/// A lock that is held until its ttl lapses. Dropping it changes nothing: give it back with
/// [`release`](Self::release), or let it lapse.
pub struct Lock {
    engine: Arc<dyn Engine>,
    pub(crate) name: Name,
    fence: i64,
    /// When it may lapse at the earliest unless it is renewed, by this process's own time.
    lapses: Mutex<Instant>,
}

impl Lock {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        name: Name,
        fence: i64,
        asked: Instant,
        left: Duration,
    ) -> Self {
        Self {
            engine,
            name,
            fence,
            lapses: Mutex::new(lapse(asked, left)),
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
            *self.lapses.lock().unwrap_or_else(PoisonError::into_inner) = lapse(asked, seconds(ttl));
        }
        Ok(held)
    }

    /// How long before the lock can lapse [`keep`](Self::keep) ends at the latest, if the process runs and each window had this
    /// ttl: for what must have stopped by then. A third of the ttl less one second, because times are whole seconds.
    pub fn margin(ttl: i64) -> Duration {
        whole(seconds(ttl)) / 3
    }

    /// Renews the lock now and then at each third of `ttl` seconds, for as long as it is held. `Ok` when it is lost; an error
    /// when the store failed, or did not answer, for two thirds of the ttl (at first: of what is left of the window that the
    /// lock has), so that there is time to stop before it lapses.
    /// Run it beside what the lock guards, and stop that when this ends. A ttl below 2 is refused.
    pub async fn keep(&self, ttl: i64) -> Result<()> {
        renewable("ttl", ttl)?;
        let third = Self::margin(ttl);
        let lapses = *self.lapses.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: &Error| {
            tracing::warn!(lock = %self.name, error = error.report(), "a lock was not renewed; it is tried again");
        };
        let mut lease = Lease::new(
            give_up(lapses, Instant::now(), third),
            third,
            third.saturating_mul(2),
        )
        .at_once();
        lease.keep(|| self.renew(ttl), failed).await
    }

    /// Gives the lock back, and tells whether it was still held.
    pub async fn release(&self) -> Result<bool> {
        self.engine.release_lock(self.name.clone(), self.fence).await
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

/// Times are whole seconds, so the first of them may be over at once.
fn whole(window: Duration) -> Duration {
    window.saturating_sub(Duration::from_secs(1))
}

/// When a window of this length may be over that was asked for then.
fn lapse(asked: Instant, window: Duration) -> Instant {
    asked + whole(window).min(LONGEST)
}

/// When a lock must be given up that may lapse then: a third of the window before. The window that it has may be shorter
/// than those to come, and well on its way.
fn give_up(lapses: Instant, now: Instant, third: Duration) -> Instant {
    let left = lapses.saturating_duration_since(now);
    lapses.checked_sub(third.min(left / 3)).unwrap_or(lapses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl_02_a_lock_is_given_up_before_the_window_ends_that_it_has() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let third = Lock::margin(31);
        assert_eq!(third, 10 * second);
        for (left, given_up) in [(30, 20), (60, 50), (15, 10), (3, 2), (0, 0)] {
            assert_eq!(
                give_up(now + left * second, now, third),
                now + given_up * second,
                "{left}"
            );
        }
        assert_eq!(lapse(now, seconds(31)), now + 30 * second);
        assert!(lapse(now, seconds(i64::MAX)) > now + 10_000 * second);
    }
}
