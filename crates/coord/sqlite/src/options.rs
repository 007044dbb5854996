//! How the file is opened and served: every bound of the handle, with its default.

use std::{num::NonZero, thread, time::Duration};

use crate::Error;

/// When a commit is on the disk (CX-08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// A write is answered after its commit was flushed to the disk: neither a crash nor a power cut loses it.
    /// Readers, and what was left for [after the commit](crate::Transaction::after_commit), may see it before.
    #[default]
    Full,
    /// A write is answered when its commit is with the operating system. A crash of the process loses nothing; a
    /// power cut or a crash of the system can lose the newest commits, those since the last checkpoint at worst
    /// ([`Options::wal_limit`] bytes of them), though it never damages the file.
    Normal,
}

/// How the file is opened and served. `Options::default()` suits a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// When a commit counts as done.
    pub synchronous: Synchronous,
    /// How long a write waits for another process that holds the file, before [`Error::Busy`]. Default 5 s.
    pub busy_timeout: Duration,
    /// Reader threads. Default: one per core, two at least.
    pub readers: usize,
    /// Writes that may wait; more wait for a place, asynchronously. Default 1,024.
    pub write_queue: usize,
    /// Reads that may wait; more wait for a place, asynchronously. Default 1,024.
    pub read_queue: usize,
    /// Closures in one commit. Default 256.
    pub max_batch: usize,
    /// Page cache of the writer, in KiB. Default 16,000: SQLite looks through all of it after each commit.
    pub writer_cache: u32,
    /// Page cache of each reader, in KiB. Default 64,000.
    pub reader_cache: u32,
    /// Prepared statements that each connection keeps. Default 256.
    pub statement_cache: usize,
    /// Size of the write-ahead log, in bytes, at which the writer checkpoints and starts it anew. Readers that
    /// linger let it grow to twice this; past that the writer waits for them, each time for as long as
    /// [`busy_timeout`](Self::busy_timeout). Default 40 MiB.
    pub wal_limit: u64,
    /// How long a held transaction may do nothing before it is rolled back (CT-05). Default 30 s.
    pub idle_transaction: Duration,
    /// Whether the watcher is told of changes of the file by inotify, where there is it. Turn it off on a file system that
    /// does not tell, such as one that another virtual machine writes to. Default `true`.
    pub inotify: bool,
    /// How often the watcher looks for other processes' wakes where it is not told: see [`inotify`](Self::inotify); also on
    /// systems other than Linux, and when the user's inotify instances are used up. Default 2 ms.
    pub watch_interval: Duration,
    /// How often the watcher looks without having been told. It is told of all; should it not be, this is what a wake is
    /// late by. Default 1 s.
    pub safety_poll: Duration,
    /// Pages of 4 KiB that the file may grow to; past that, writes fail with [`Error::DiskFull`]. Default: no bound.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            readers: thread::available_parallelism().map_or(2, NonZero::get).max(2),
            write_queue: 1024,
            read_queue: 1024,
            max_batch: 256,
            writer_cache: 16_000,
            reader_cache: 64_000,
            statement_cache: 256,
            wal_limit: 40 << 20,
            idle_transaction: Duration::from_secs(30),
            inotify: true,
            watch_interval: Duration::from_millis(2),
            safety_poll: Duration::from_secs(1),
            max_pages: None,
        }
    }
}

impl Options {
    /// Most entries that a queue, a batch or a pool may have.
    const MOST: usize = 1 << 20;

    pub(crate) fn check(&self) -> Result<(), Error> {
        let counts = [
            ("readers", self.readers),
            ("write_queue", self.write_queue),
            ("read_queue", self.read_queue),
            ("max_batch", self.max_batch),
            ("statement_cache", self.statement_cache),
        ];
        for (option, value) in counts {
            if !(1..=Self::MOST).contains(&value) {
                return Err(Error::InvalidOption {
                    option,
                    reason: "must be between 1 and 1048576",
                });
            }
        }
        if self.wal_limit < 16 * u64::from(crate::wal::PAGE) {
            return Err(Error::InvalidOption {
                option: "wal_limit",
                reason: "must be 65536 or more",
            });
        }
        let spans = [
            ("idle_transaction", self.idle_transaction),
            ("watch_interval", self.watch_interval),
            ("safety_poll", self.safety_poll),
        ];
        for (option, span) in spans {
            if span.is_zero() {
                return Err(Error::InvalidOption {
                    option,
                    reason: "must be more than zero",
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &Options) -> &'static str {
        match options.check() {
            Err(Error::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foundation_options_that_cannot_work_are_refused_by_name() {
        assert!(Options::default().check().is_ok());
        assert_eq!(
            refused(&Options {
                readers: 0,
                ..Options::default()
            }),
            "readers"
        );
        assert_eq!(
            refused(&Options {
                write_queue: usize::MAX,
                ..Options::default()
            }),
            "write_queue"
        );
        assert_eq!(
            refused(&Options {
                max_batch: 0,
                ..Options::default()
            }),
            "max_batch"
        );
        assert_eq!(
            refused(&Options {
                wal_limit: 1,
                ..Options::default()
            }),
            "wal_limit"
        );
        assert_eq!(
            refused(&Options {
                idle_transaction: Duration::ZERO,
                ..Options::default()
            }),
            "idle_transaction"
        );
    }
}
