//! The store's one clock, in whole unix seconds; tests drive it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Where a store's time comes from. One operation reads it once.
#[derive(Debug, Clone)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands at `now` until it is set: for tests. Clones share it.
    pub fn manual(now: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(now))))
    }

    /// Sets a manual clock; the system's is not settable and stays as it is.
    pub fn set(&self, now: i64) {
        if let Some(clock) = &self.0 {
            clock.store(now, Ordering::SeqCst);
        }
    }

    /// Now, in unix seconds.
    pub fn now(&self) -> i64 {
        match &self.0 {
            Some(clock) => clock.load(Ordering::SeqCst),
            None => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        }
    }
}
