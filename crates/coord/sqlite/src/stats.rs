//! Counters of one database handle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the handle has done since it was opened, and what waits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Transactions committed: group commits and held ones.
    pub commits: u64,
    /// Times that the log was flushed to the disk; several commits may share one.
    pub flushes: u64,
    /// Transactions of which nothing was kept: failed commits, those that SQLite gave up, held ones dropped.
    pub rollbacks: u64,
    /// Closures that the writer has run.
    pub closures: u64,
    /// Closures whose savepoint was rolled back: those that gave an error or panicked.
    pub undone: u64,
    /// Times that the write-ahead log was copied back and started anew.
    pub checkpoints: u64,
    /// Times that lingering readers kept the log from being started anew.
    pub checkpoints_held_up: u64,
    /// Pages in the write-ahead log after the last commit.
    pub wal_pages: u64,
    /// Reads that were run.
    pub reads: u64,
    /// Reads that ran out of their time budget.
    pub reads_over_budget: u64,
    /// Reads that were not run, because their caller had gone.
    pub reads_skipped: u64,
    /// Looks of the watcher for commits of other processes.
    pub watcher_looks: u64,
    /// Times that the watcher found that there were commits, and read the wakes.
    pub watcher_reads: u64,
    /// Writes that wait for the writer.
    pub writes_waiting: usize,
    /// Reads that wait for a reader.
    pub reads_waiting: usize,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: Counter,
    pub(crate) flushes: Counter,
    pub(crate) rollbacks: Counter,
    pub(crate) closures: Counter,
    pub(crate) undone: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoints_held_up: Counter,
    pub(crate) wal_pages: Counter,
    pub(crate) reads: Counter,
    pub(crate) reads_over_budget: Counter,
    pub(crate) reads_skipped: Counter,
    pub(crate) watcher_looks: Counter,
    pub(crate) watcher_reads: Counter,
}

/// A number that orders nothing.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    pub(crate) fn stats(&self, writes_waiting: usize, reads_waiting: usize) -> Stats {
        Stats {
            commits: self.commits.get(),
            flushes: self.flushes.get(),
            rollbacks: self.rollbacks.get(),
            closures: self.closures.get(),
            undone: self.undone.get(),
            checkpoints: self.checkpoints.get(),
            checkpoints_held_up: self.checkpoints_held_up.get(),
            wal_pages: self.wal_pages.get(),
            reads: self.reads.get(),
            reads_over_budget: self.reads_over_budget.get(),
            reads_skipped: self.reads_skipped.get(),
            watcher_looks: self.watcher_looks.get(),
            watcher_reads: self.watcher_reads.get(),
            writes_waiting,
            reads_waiting,
        }
    }
}
