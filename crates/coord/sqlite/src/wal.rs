//! Keeping the write-ahead log within its bound.
//!
//! The writer checkpoints, between two commits: a checkpointer beside it never catches up with busy readers, and one
//! that never blocks cannot start the log anew while any reader uses it. First everything is copied to the database
//! without blocking anybody; from then on new readers need the log no more, so starting it anew waits for those alone
//! that were reading already. The log's file is kept and written over, which spares the file system.

use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, wal::CheckpointMode};

use crate::{Error, Options, open::Patience, stats::Counters};

/// Bytes of a page.
pub(crate) const PAGE: u32 = 4096;

/// How long the writer waits for readers while the log is below twice its limit.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// How long it does from there on. Who writes waits too, whatever their patience for other processes.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// When to checkpoint.
pub(crate) struct Checkpoints {
    /// Pages from which the log is to be started anew.
    limit: u64,
    /// Pages from which it is tried next: further than the limit after a reader held it up.
    next: u64,
    busy_timeout: Duration,
}

impl Checkpoints {
    pub(crate) fn new(options: &Options) -> Self {
        let limit = options.wal_limit / u64::from(PAGE);
        Self {
            limit,
            next: limit,
            busy_timeout: options.busy_timeout,
        }
    }

    /// Starts the log anew, if it has grown past its limit and readers allow.
    pub(crate) fn run(&mut self, conn: &Connection, patience: &Patience, counters: &Counters) {
        let pages = counters.wal_pages.get();
        if pages < self.next {
            return;
        }
        let wait = if pages < 2 * self.limit {
            SHORT_WAIT
        } else {
            LONG_WAIT
        };
        patience.set(wait.min(self.busy_timeout));
        let done = conn
            .wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)
            .and_then(|_| conn.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::RESTART));
        patience.set(self.busy_timeout);
        match done.map_err(Error::from) {
            Ok(_) => {
                counters.checkpoints.add();
                counters.wal_pages.set(0);
                self.next = self.limit;
            }
            Err(error) => {
                counters.checkpoints_held_up.add();
                if pages >= 2 * self.limit {
                    tracing::warn!(pages, limit = self.limit, %error, "the write-ahead log cannot be started anew");
                }
                // Not at each commit: trying costs the wait.
                self.next = pages + self.limit.div_ceil(8);
            }
        }
    }

    /// Empties the log, when nothing uses it any more. Waits for nobody: the log may stay.
    pub(crate) fn finish(conn: &Connection, patience: &Patience, counters: &Counters) {
        patience.set(Duration::ZERO);
        match conn.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::TRUNCATE) {
            Ok(_) => {
                counters.checkpoints.add();
                counters.wal_pages.set(0);
            }
            // Another process reads; the log stays for whoever closes last.
            Err(error) => tracing::debug!(%error, "final checkpoint"),
        }
    }
}
