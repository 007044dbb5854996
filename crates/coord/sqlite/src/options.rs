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

/// How the file is opened and served. `Options::default()` suits a server. No time may be longer than 2,147,483,647 ms
/// (24 days).
#[derive(Debug, Clone)]
pub struct Options {
    /// When a commit counts as done.
    pub synchronous: Synchronous,
    /// How long a write waits for another process that holds the file, before [`Error::Busy`]. Longer than the
    /// [`idle_transaction`](Self::idle_transaction) of every process, so that no transaction which is held and forgotten
    /// fails others (CT-05). Default 40 s.
    pub busy_timeout: Duration,
    /// Reader threads. Default: one per core, two at least.
    pub readers: usize,
    /// Writes that may wait; more wait for a place, asynchronously. Default 1,024.
    pub write_queue: usize,
    /// Reads that may wait; more wait for a place, asynchronously. Default 1,024.
    pub read_queue: usize,
    /// Closures in one commit. Default 256.
    pub max_batch: usize,
    /// Page cache of the writer, in KiB, less than 2^31. Default 16,000: SQLite looks through all of it after each commit.
    pub writer_cache: u32,
    /// Page cache of each reader, in KiB, less than 2^31. Default 64,000.
    pub reader_cache: u32,
    /// Prepared statements that each connection keeps. Default 256.
    pub statement_cache: usize,
    /// Size of the write-ahead log, in bytes, at which the writer checkpoints and starts it anew. Readers that
    /// linger let it grow to twice this; past that the writer waits for them, each time for 5 s, or for
    /// [`busy_timeout`](Self::busy_timeout) where that is shorter. Default 40 MiB.
    pub wal_limit: u64,
    /// How long a held transaction may do nothing before it is rolled back (CT-05); writers in other processes wait for it
    /// as long as their [`busy_timeout`](Self::busy_timeout). Default 30 s.
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
            busy_timeout: Duration::from_secs(40),
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

    /// Frames of a larger log are more than SQLite counts.
    const LARGEST_LOG: u64 = 1 << 40;

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
        for (option, kib) in [
            ("writer_cache", self.writer_cache),
            ("reader_cache", self.reader_cache),
        ] {
            if i32::try_from(kib).is_err() {
                return Err(Error::InvalidOption {
                    option,
                    reason: "must be 2147483647 KiB or less",
                });
            }
        }
        let least = 16 * u64::from(crate::wal::PAGE);
        if !(least..=Self::LARGEST_LOG).contains(&self.wal_limit) {
            return Err(Error::InvalidOption {
                option: "wal_limit",
                reason: "must be between 65536 and 1099511627776",
            });
        }
        if self.max_pages == Some(0) {
            return Err(Error::InvalidOption {
                option: "max_pages",
                reason: "must be more than zero",
            });
        }
        // A write need not wait for others at all.
        check_span("busy_timeout", self.busy_timeout.max(Duration::from_millis(1)))?;
        check_span("idle_transaction", self.idle_transaction)?;
        check_span("watch_interval", self.watch_interval)?;
        check_span("safety_poll", self.safety_poll)
    }
}

/// Refuses a time that is none, or longer than SQLite can count.
pub(crate) fn check_span(option: &'static str, span: Duration) -> Result<(), Error> {
    if span.is_zero() || i32::try_from(span.as_millis()).is_err() {
        return Err(Error::InvalidOption {
            option,
            reason: "must be more than zero and at most 2147483647 ms",
        });
    }
    Ok(())
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

    type Set<T> = fn(&mut Options) -> &mut T;

    /// Whether an option has to be named, and is, with this value.
    fn refuses<T>(field: Set<T>, value: T, name: &str) {
        let mut options = Options::default();
        *field(&mut options) = value;
        assert_eq!(refused(&options), name);
    }

    #[test]
    fn cx_05_options_that_cannot_work_are_refused_by_name() {
        assert!(Options::default().check().is_ok());
        let counts: [(&str, Set<usize>); 5] = [
            ("readers", |options| &mut options.readers),
            ("write_queue", |options| &mut options.write_queue),
            ("read_queue", |options| &mut options.read_queue),
            ("max_batch", |options| &mut options.max_batch),
            ("statement_cache", |options| &mut options.statement_cache),
        ];
        for (name, field) in counts {
            for value in [0, (1 << 20) + 1, usize::MAX] {
                refuses(field, value, name);
            }
        }
        for value in [0, 1, (1 << 40) + 1, u64::MAX] {
            refuses(|options| &mut options.wal_limit, value, "wal_limit");
        }
        for value in [1 << 31, u32::MAX] {
            refuses(|options| &mut options.writer_cache, value, "writer_cache");
            refuses(|options| &mut options.reader_cache, value, "reader_cache");
        }
        refuses(|options| &mut options.max_pages, Some(0), "max_pages");
    }

    #[test]
    fn ct_05_by_default_a_writer_outwaits_a_transaction_that_was_forgotten() {
        let options = Options::default();
        assert!(options.busy_timeout > options.idle_transaction + Duration::from_secs(5));
    }

    #[test]
    fn cx_05_times_that_cannot_be_waited_for_are_refused_by_name() {
        let longest = Duration::from_millis((1 << 31) - 1);
        let spans: [(&str, Set<Duration>); 4] = [
            ("busy_timeout", |options| &mut options.busy_timeout),
            ("idle_transaction", |options| &mut options.idle_transaction),
            ("watch_interval", |options| &mut options.watch_interval),
            ("safety_poll", |options| &mut options.safety_poll),
        ];
        for (name, field) in spans {
            for value in [longest + Duration::from_millis(1), Duration::MAX] {
                refuses(field, value, name);
            }
            let mut options = Options::default();
            *field(&mut options) = longest;
            assert!(options.check().is_ok(), "{name}");
            if name == "busy_timeout" {
                *field(&mut options) = Duration::ZERO;
                assert!(options.check().is_ok());
            } else {
                refuses(field, Duration::ZERO, name);
            }
        }
    }
}
