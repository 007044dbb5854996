//! Locks that lapse, with fences (CL-*).

use std::sync::Arc;

use crate::{Engine, Name, Result, options::positive};

/// A lock that is held until its ttl lapses. Dropping it changes nothing: give it back with
/// [`release`](Self::release), or let it lapse.
pub struct Lock {
    engine: Arc<dyn Engine>,
    pub(crate) name: Name,
    fence: i64,
}

impl Lock {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: Name, fence: i64) -> Self {
        Self { engine, name, fence }
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
        self.engine.renew_lock(self.name.clone(), self.fence, ttl).await
    }

    /// Gives the lock back, and tells whether it was still held.
    pub async fn release(&self) -> Result<bool> {
        self.engine.release_lock(self.name.clone(), self.fence).await
    }
}
