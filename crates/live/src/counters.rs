//! What the live path counts, for metrics and for tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the start; each only grows. Read one with [`AtomicU64::load`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Accepted events that were dispatched.
    pub events: AtomicU64,
    /// Subscriptions that the index named for them (LIVE-03).
    pub candidates: AtomicU64,
    /// Candidates of which a filter matched.
    pub matches: AtomicU64,
    /// Events handed to a sink or an observation.
    pub deliveries: AtomicU64,
    /// Connections closed because their outgoing buffer was full (LIVE-12).
    pub overflows: AtomicU64,
    /// Observations ended because they did not keep up (LIVE-15).
    pub lagged: AtomicU64,
    /// Sinks dropped because they panicked.
    pub panics: AtomicU64,
    /// Commits that had to wait because the dispatcher was behind.
    pub waits: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
