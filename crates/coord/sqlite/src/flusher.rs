//! Making commits durable, on a thread of its own: callers are answered once their commit is on the disk, and the
//! writer goes on meanwhile.
//!
//! With `synchronous = NORMAL` SQLite commits into the write-ahead log without waiting for the disk, and waits for
//! it only where a checkpoint needs the order. What is added here is one `fdatasync` of the log for all commits that
//! wait for one. A commit is then either in the log before that point, or in the database that a checkpoint has
//! synced: as durable as with `synchronous = FULL`, which does the same in the writer.
//!
//! Opening and closing the log by its path drops no lock (SQLite's locks are on the database and its `-shm`), and
//! nobody unlinks the log while a connection is open.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use crate::{Error, stats::Counters};

/// Commits that may wait for the disk; the writer waits when there are more.
const WAITING: usize = 64;

/// What is done when a commit is on the disk, or when it cannot be told.
type Settled = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The writer's side of the thread.
pub(crate) struct Flusher {
    waiting: Option<SyncSender<Settled>>,
    thread: Option<JoinHandle<()>>,
    /// Commits that wait for the disk.
    unsettled: Arc<AtomicUsize>,
    failed: Arc<OnceLock<Error>>,
}

impl Flusher {
    /// Starts the thread for the log of this database; its file is there, since a connection is open. Each time that
    /// nothing waits for the disk any more, `idle` is called.
    pub(crate) fn start(
        database: &Path,
        counters: Arc<Counters>,
        idle: impl Fn() + Send + 'static,
    ) -> Result<Self, Error> {
        let log = log_path(database);
        let file = File::open(&log).map_err(|error| Error::io(&log, error))?;
        Self::with(&log, counters, idle, move || file.sync_data())
    }

    fn with(
        log: &Path,
        counters: Arc<Counters>,
        idle: impl Fn() + Send + 'static,
        mut sync: impl FnMut() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, Error> {
        let (waiting, arriving) = sync_channel(WAITING);
        let failed = Arc::new(OnceLock::new());
        let unsettled = Arc::new(AtomicUsize::new(0));
        let (shared, left) = (failed.clone(), unsettled.clone());
        let path = log.to_owned();
        let thread = thread::Builder::new()
            .name("esker-flusher".to_owned())
            .spawn(move || {
                let mut flush = || {
                    sync().map_err(|error| Error::Flush {
                        path: path.clone(),
                        cause: Arc::new(error),
                    })
                };
                while let Some(group) = next_group(&arriving) {
                    let settled = group.len();
                    let result = flush_once(&shared, &counters, &mut flush);
                    for answer in group {
                        answer(result.clone());
                    }
                    if left.fetch_sub(settled, SeqCst) == settled {
                        idle();
                    }
                }
            })
            .map_err(|error| Error::io(log, error))?;
        Ok(Self {
            waiting: Some(waiting),
            thread: Some(thread),
            unsettled,
            failed,
        })
    }

    /// Calls `settled` once everything committed so far is on the disk.
    pub(crate) fn settle(&self, settled: impl FnOnce(Result<(), Error>) + Send + 'static) {
        let waiting = self.waiting.as_ref().expect("the sender is taken by drop alone");
        self.unsettled.fetch_add(1, SeqCst);
        // The thread ends after this sender only.
        drop(waiting.send(Box::new(settled)));
    }

    /// Whether a commit waits for the disk.
    pub(crate) fn is_busy(&self) -> bool {
        self.unsettled.load(SeqCst) > 0
    }

    /// The error of a flush, after which nothing more may be committed: what the system still holds of the log, and
    /// what it dropped, cannot be told.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Waits until everything is flushed and answered.
impl Drop for Flusher {
    fn drop(&mut self) {
        self.waiting = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// All that wait, once there is one; `None` at the end.
fn next_group(arriving: &Receiver<Settled>) -> Option<Vec<Settled>> {
    let mut group = vec![arriving.recv().ok()?];
    group.extend(arriving.try_iter());
    Some(group)
}

fn flush_once(
    failed: &OnceLock<Error>,
    counters: &Counters,
    flush: &mut impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(error) = failed.get() {
        return Err(error.clone());
    }
    flush().inspect_err(|error| {
        tracing::error!(%error, "the log could not be flushed; nothing more is written");
        drop(failed.set(error.clone()));
    })?;
    counters.flushes.add();
    Ok(())
}

/// The write-ahead log's path.
pub(crate) fn log_path(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;
    use crate::Outcome;

    fn flusher(sync: impl FnMut() -> io::Result<()> + Send + 'static) -> (Flusher, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        (
            Flusher::with(Path::new("test-wal"), counters.clone(), || (), sync).unwrap(),
            counters,
        )
    }

    #[test]
    fn cx_08_nobody_is_answered_before_the_disk_has_it_and_many_share_one_flush() {
        let gate = Arc::new(Barrier::new(2));
        let at_disk = gate.clone();
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        let (flusher, counters) = flusher(move || {
            // Once to say that a flush has begun, once to be let go.
            at_disk.wait();
            at_disk.wait();
            seen.lock().unwrap().push("flushed");
            Ok(())
        });
        let answer = || {
            let log = log.clone();
            move |result: Result<(), Error>| {
                log.lock()
                    .unwrap()
                    .push(if result.is_ok() { "answered" } else { "failed" });
            }
        };
        flusher.settle(answer());
        gate.wait();
        // These come while the first flush is under way, which may not cover them.
        flusher.settle(answer());
        flusher.settle(answer());
        assert!(log.lock().unwrap().is_empty());
        gate.wait();
        gate.wait();
        assert_eq!(*log.lock().unwrap(), ["flushed", "answered"]);
        gate.wait();
        drop(flusher);
        assert_eq!(
            *log.lock().unwrap(),
            ["flushed", "answered", "flushed", "answered", "answered"]
        );
        assert_eq!(counters.flushes.get(), 2);
    }

    #[test]
    fn cx_08_a_failed_flush_is_everybodys_error_from_then_on() {
        let (flusher, counters) = flusher(|| Err(io::Error::other("the disk is gone")));
        let (sender, answers) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let sender = sender.clone();
            flusher.settle(move |result| sender.send(result).unwrap());
            let error = answers.recv().unwrap().unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        }
        assert!(flusher.check().is_err());
        assert_eq!(counters.flushes.get(), 0);
    }
}
