//! Counters of one store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the store has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Statements that were sent, commits and what opens the store not counted.
    pub statements: u64,
    /// Batches of publishes, enqueues, claims and acks: each is one statement and one commit.
    pub batches: u64,
    /// Statements that told other processes of wakes (CW-05).
    pub notifications: u64,
    /// Vacuums of the table of live jobs, after as many of them had gone (CQ-08).
    pub vacuums: u64,
    /// Times that reading again without a wake found something (CW-05).
    pub lost_wakes: u64,
    /// Times that the listening connection was lost and made anew (CW-08).
    pub reconnects: u64,
    /// Times that everybody was woken because no notifications arrive (CW-08).
    pub polls: u64,
    /// Channels that are listened to.
    pub channels: usize,
    /// Whether the indexes that only maintenance and inspections need are there. They are built while the store works,
    /// after it was opened; until then those read more.
    pub indexes_ready: bool,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) statements: Counter,
    pub(crate) batches: Counter,
    pub(crate) notifications: Counter,
    pub(crate) vacuums: Counter,
    pub(crate) lost_wakes: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) polls: Counter,
    pub(crate) indexes_ready: AtomicBool,
}

/// A number that orders nothing.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    pub(crate) fn stats(&self, channels: usize) -> Stats {
        Stats {
            statements: self.statements.get(),
            batches: self.batches.get(),
            notifications: self.notifications.get(),
            vacuums: self.vacuums.get(),
            lost_wakes: self.lost_wakes.get(),
            reconnects: self.reconnects.get(),
            polls: self.polls.get(),
            channels,
            indexes_ready: self.indexes_ready.load(Relaxed),
        }
    }
}
