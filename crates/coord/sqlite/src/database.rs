//! The handle: what callers hold, and what its threads share.

use std::{
    fmt,
    fs::metadata,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use esker_coord_api::{Channel, WakeHub, WakeReceiver};
use tokio::sync::watch;

use crate::{
    Error, HeldTransaction, Options, Schema, Snapshot, Stats, Synchronous, Transaction,
    flusher::{Flusher, log_path},
    held::Line,
    open::{file_path, open_reader, open_writer},
    queue::Queue,
    readers::{ReadTask, Reader, read_task},
    stats::Counters,
    task::task,
    watcher::Watch,
    writer::{Job, Writer},
};

/// A handle on one database file; clones share it. It belongs to the process that opened it: in a fork of that, calls give
/// [`Error::Forked`].
///
/// When the last clone is dropped, what was submitted is still done, and the file closed, in the background.
/// [`close`](Self::close) waits for that.
#[derive(Clone)]
pub struct Database {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    /// Who opened it.
    process: u32,
    /// Ends with the writer, which ends last.
    ended: watch::Receiver<()>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the handle and its threads have in common.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) writes: Queue<Job>,
    pub(crate) reads: Queue<Box<dyn ReadTask>>,
    pub(crate) counters: Arc<Counters>,
    /// The held transaction that has the writer now.
    held: Mutex<Option<Arc<Line>>>,
    /// The file was found replaced, which does not heal.
    pub(crate) replaced: AtomicBool,
    /// Who listens in this process.
    pub(crate) hub: WakeHub,
    /// Marks the wakes of this handle, which its own watcher need not hear.
    pub(crate) origin: i64,
    pub(crate) watch: Watch,
}

impl Database {
    /// Opens or makes the file at `path`, and brings the tables of `schemas` up to date, all in one transaction. Blocks
    /// for as long as that takes; an up-to-date file is not written.
    ///
    /// Many processes may open one new file at once. Refused (CX-09) are: a library older than SQLite 3.51.3, a
    /// network file system, a file that is no database or another program's, tables newer than `schemas` knows.
    pub fn open(path: &Path, options: Options, schemas: &[Schema]) -> Result<Self, Error> {
        options.check()?;
        let path = file_path(path)?;
        let counters = Arc::new(Counters::default());
        let writer = open_writer(&path, &options, schemas, &counters)?;
        let shared = Arc::new(Shared {
            writes: Queue::new(options.write_queue),
            reads: Queue::new(options.read_queue),
            counters,
            held: Mutex::new(None),
            replaced: AtomicBool::new(false),
            hub: WakeHub::new(),
            origin: fastrand::i64(..),
            watch: Watch::default(),
            path,
            options,
        });
        // Ends the threads that run already, should a later one not start.
        let (ending, ended) = watch::channel(());
        let handle = Handle {
            shared: shared.clone(),
            process: process::id(),
            ended,
            writer: Mutex::new(None),
        };

        let mut readers = Vec::with_capacity(shared.options.readers);
        for n in 0..shared.options.readers {
            let reader = Reader::new(shared.clone(), open_reader(&shared.path, &shared.options)?)?;
            readers.push(shared.spawn(format!("esker-reader-{n}"), move || reader.run())?);
        }
        let flusher = match shared.options.synchronous {
            Synchronous::Full => {
                let queue = shared.clone();
                let idle = move || queue.writes.look_again();
                Some(Flusher::start(&shared.path, shared.counters.clone(), idle)?)
            }
            Synchronous::Normal => None,
        };
        let writer = Writer::new(shared.clone(), writer, readers, flusher, ending);
        let thread = shared.spawn("esker-writer".to_owned(), move || writer.run())?;
        *lock(&handle.writer) = Some(thread);
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// Runs `work` on the writer thread, in a savepoint of the next group commit. Resolves after the commit is durable
    /// (see [`Synchronous`]) and after what was left for [after it](Transaction::after_commit).
    ///
    /// An error of `work` undoes what it wrote and nothing else; so does a panic ([`Error::Panicked`]). A failing commit
    /// is everybody's error who shared it. Where many writes wait already, this waits for a place; from then on,
    /// dropping the future does not undo the work, it only loses the answer (CX-10).
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (task, answer) = task(work);
        self.submit(Job::Write(task)).await?;
        answer.await.unwrap_or_else(|_| Err(Error::Lost.into()))
    }

    /// Runs `work` on a reader, in one read transaction, for at most `budget`, counted from its start: past it,
    /// statements are interrupted and the result is [`Error::OverBudget`]. A read whose future was dropped before it
    /// began is not run.
    pub async fn read<T, E, F>(&self, budget: Duration, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.check_process()?;
        let (task, answer) = read_task(budget, work);
        self.shared().reads.push(task).await.map_err(|_| Error::Closed)?;
        answer.await.unwrap_or_else(|_| Err(Error::Lost.into()))
    }

    /// Begins a transaction that takes the writer for its time, in its turn among the writes.
    pub async fn begin(&self) -> Result<HeldTransaction, Error> {
        HeldTransaction::begin(self).await
    }

    /// Listens to the channel from the moment that this resolves: to this process's wakes and to those of others, which
    /// one thread for the whole handle watches from the first listener on (CW-06). When the handle is closed, the file
    /// replaced or the thread dead, the receiver ends (CW-03).
    ///
    /// The file must have the tables of [`SCHEMA`](crate::SCHEMA).
    pub async fn listen(&self, channel: Channel) -> Result<WakeReceiver, Error> {
        self.check_process()?;
        let shared = &self.handle.shared;
        if shared.replaced.load(Relaxed) {
            return Err(shared.note_replaced());
        }
        // Before the watcher takes its baseline, so that nothing falls between them.
        let receiver = shared.hub.listen(channel);
        Watch::start(shared).await?;
        Ok(receiver)
    }

    /// Ends the handle, for all its clones: new work is refused ([`Error::Closed`]), a held transaction is rolled back,
    /// what was submitted is done and answered; then the log is emptied and the file closed. Resolves when all that is
    /// done, for every caller.
    pub async fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        self.shared().close();
        let mut ended = self.handle.ended.clone();
        while ended.changed().await.is_ok() {}
        let writer = lock(&self.handle.writer).take();
        if let Some(writer) = writer {
            // It has said its last word; this waits for the thread's own end, which takes no time.
            drop(writer.join());
        }
    }

    /// Whether all later work is refused: the handle was closed, the file was replaced or removed, or this is a fork of the
    /// process that opened it.
    pub fn is_closed(&self) -> bool {
        let shared = self.shared();
        shared.writes.is_closed() || shared.replaced.load(Relaxed) || self.check_process().is_err()
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.handle.check_process()
    }

    /// Counters since the open, and what waits now.
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        shared.counters.stats(shared.writes.len(), shared.reads.len())
    }

    /// The file's absolute path.
    pub fn path(&self) -> &Path {
        &self.shared().path
    }

    /// Bytes on the disk: the file and its write-ahead log.
    pub fn disk_bytes(&self) -> u64 {
        let size = |file: &Path| metadata(file).map_or(0, |file| file.len());
        size(self.path()) + size(&log_path(self.path()))
    }

    pub(crate) async fn submit(&self, job: Job) -> Result<(), Error> {
        self.check_process()?;
        self.shared().writes.push(job).await.map_err(|_| Error::Closed)
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// A fork of the process has neither the threads nor the locks, and shares with it what stops the watcher.
    fn check_process(&self) -> Result<(), Error> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            self.shared.close();
        }
    }
}

impl Shared {
    /// Takes no more work; threads end when they have done what there is.
    pub(crate) fn close(&self) {
        self.writes.close();
        self.reads.close();
        self.hub.close();
        self.watch.stop();
        if let Some(held) = &*lock(&self.held) {
            held.commands.close();
        }
    }

    /// Notes the held transaction that gets the writer, unless the database is closed.
    pub(crate) fn hold(&self, line: &Arc<Line>) -> bool {
        let mut held = lock(&self.held);
        // Under the lock: whoever closes either is seen here, or sees the line.
        if self.writes.is_closed() {
            return false;
        }
        *held = Some(line.clone());
        true
    }

    pub(crate) fn release(&self) {
        *lock(&self.held) = None;
    }

    /// Remembers that the file was replaced, and gives the error.
    pub(crate) fn note_replaced(&self) -> Error {
        if !self.replaced.swap(true, Relaxed) {
            tracing::error!(path = %self.path.display(), "the database file was replaced or removed");
            self.hub.close();
        }
        Error::Replaced(self.path.clone())
    }

    pub(crate) fn spawn(
        &self,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, Error> {
        Builder::new()
            .name(name)
            .spawn(work)
            .map_err(|e| Error::io(&self.path, e))
    }
}

/// What these mutexes guard is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cx_09_a_fork_is_refused_what_its_parent_opened_and_disturbs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coord.db");
        let mut database = Database::open(&path, Options::default(), &[crate::SCHEMA]).unwrap();
        // As a fork finds it.
        Arc::get_mut(&mut database.handle).unwrap().process += 1;
        let written = database.write(|_| Ok::<_, Error>(())).await;
        assert!(matches!(written, Err(Error::Forked)));
        let read = database
            .read(Duration::from_secs(1), |_| Ok::<_, Error>(()))
            .await;
        assert!(matches!(read, Err(Error::Forked)));
        assert!(matches!(database.begin().await, Err(Error::Forked)));
        let channel = Channel::schedules();
        assert!(matches!(database.listen(channel).await, Err(Error::Forked)));
        assert!(database.is_closed());
        database.close().await;
        let shared = database.handle.shared.clone();
        drop(database);
        assert!(!shared.writes.is_closed());
        shared.close();
    }

    #[tokio::test]
    async fn cx_09_a_fork_is_refused_a_transaction_that_its_parent_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coord.db");
        let database = Database::open(&path, Options::default(), &[crate::SCHEMA]).unwrap();
        let mut held = database.begin().await.unwrap();
        drop(database);
        // As a fork finds it.
        Arc::get_mut(&mut held.database.handle).unwrap().process += 1;
        let shared = held.database.handle.shared.clone();
        assert!(matches!(
            held.run(|_| Ok::<_, Error>(())).await,
            Err(Error::Forked)
        ));
        assert!(matches!(held.commit().await, Err(Error::Forked)));
        shared.close();
    }
}
