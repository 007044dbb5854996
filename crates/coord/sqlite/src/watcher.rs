//! The watcher: one thread per handle that hears of other processes' commits and wakes who listens here (CW-06).
//!
//! A change of the write-ahead log rings, `PRAGMA data_version` confirms that there was a commit, and then the wakes that
//! others wrote since the last look are read. Nothing is asked while nothing rings, but for a slow safety poll.
//!
//! SQLite writes the log before the shared index shows the commit, and flushes it in between where the other process asked
//! for that. So a ring may come too early: after each, the watcher looks a few times more, at growing distances.

mod bell;

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{JoinHandle, sleep},
    time::Duration,
};

use esker_coord_api::Channel;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::{
    Error,
    database::Shared,
    open::{open_reader, was_replaced},
};
use bell::{Bell, Heard};

pub(crate) const VERSION: &str = "PRAGMA data_version";
pub(crate) const NEWEST: &str = "SELECT ifnull(max(id), 0) FROM coord_wake";
pub(crate) const SINCE: &str = "SELECT id, origin, channel FROM coord_wake WHERE id > ?1 ORDER BY id";

/// Between the looks after a ring: together as long as a slow disk takes to flush a commit.
const PAUSES: [Duration; 9] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(400),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
];

/// After a look, nothing is heard for this long: what rings meanwhile shares the next look, so that a busy file costs
/// next to nothing.
const REST: Duration = Duration::from_micros(100);

/// The way to the watcher, which starts with the first listener.
#[derive(Default)]
pub(crate) struct Watch {
    stopped: AtomicBool,
    bell: OnceLock<Arc<Bell>>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    handle: JoinHandle<()>,
    started: Started,
}

/// Whether the thread watches: nothing while it starts.
type Started = watch::Receiver<Option<Result<(), Error>>>;

impl Watch {
    /// Starts the thread, unless there is one; resolves when it watches. Whoever gives up meanwhile leaves it to the next.
    pub(crate) async fn start(shared: &Arc<Shared>) -> Result<(), Error> {
        let mut started = shared.watch.thread(shared)?;
        let known = started.wait_for(Option::is_some).await;
        known.map_or(Err(Error::Closed), |known| {
            known.clone().unwrap_or(Err(Error::Closed))
        })?;
        if shared.watch.stopped.load(SeqCst) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// The thread that there is, or a new one where none is or none could start.
    fn thread(&self, shared: &Arc<Shared>) -> Result<Started, Error> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: whoever joins is seen here, or finds the thread.
        if self.stopped.load(SeqCst) {
            return Err(Error::Closed);
        }
        if let Some(there) = thread.take_if(|there| there.failed()) {
            drop(there.handle.join());
        }
        if let Some(there) = &*thread {
            return Ok(there.started.clone());
        }
        let (ready, started) = watch::channel(None);
        let shared_with = shared.clone();
        let work = move || match Watcher::open(shared_with) {
            Ok(watcher) => {
                ready.send_replace(Some(Ok(())));
                watcher.run();
            }
            Err(error) => drop(ready.send_replace(Some(Err(error)))),
        };
        let handle = shared.spawn("esker-watcher".to_owned(), work)?;
        *thread = Some(Thread {
            handle,
            started: started.clone(),
        });
        Ok(started)
    }

    /// Asks the thread to end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        if let Some(bell) = self.bell.get() {
            bell.stop();
        }
    }

    /// Waits for the thread's end, which was asked for.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            drop(thread.handle.join());
        }
    }
}

impl Thread {
    /// Whether it could not start, so that it has ended or is about to.
    fn failed(&self) -> bool {
        let started = self.started.borrow();
        started.as_ref().map_or(self.handle.is_finished(), Result::is_err)
    }
}

struct Watcher {
    shared: Arc<Shared>,
    bell: Arc<Bell>,
    conn: Connection,
    /// SQLite's counter of the commits of other connections, at the last look.
    version: i64,
    /// The newest wake that was read.
    newest: i64,
}

impl Watcher {
    /// Watches from here on: what is committed later rings, or shows in the version.
    fn open(shared: Arc<Shared>) -> Result<Self, Error> {
        let bell = Bell::new(&shared.path, shared.options.inotify);
        let bell = Arc::new(bell.map_err(|error| Error::io(&shared.path, error))?);
        let conn = open_reader(&shared.path, &shared.options)?;
        let version = conn.prepare_cached(VERSION)?.query_one([], |row| row.get(0))?;
        let newest = conn.prepare_cached(NEWEST)?.query_one([], |row| row.get(0))?;
        // A tick that meets a lock is skipped.
        conn.busy_timeout(Duration::ZERO)?;
        drop(shared.watch.bell.set(bell.clone()));
        Ok(Self {
            shared,
            bell,
            conn,
            version,
            newest,
        })
    }

    fn run(mut self) {
        let _guard = EndReceivers(self.shared.clone());
        if let Err(error) = self.watch() {
            tracing::error!(%error, path = %self.shared.path.display(), "the watcher ended; so do all listeners");
        }
    }

    fn watch(&mut self) -> Result<(), Error> {
        let quiet = if self.bell.rings() {
            self.shared.options.safety_poll
        } else {
            self.shared.options.watch_interval
        };
        let mut looks = PAUSES.len();
        while !self.shared.watch.stopped.load(SeqCst) {
            let pause = PAUSES.get(looks).copied();
            let heard = self.bell.wait(pause.unwrap_or(quiet));
            let heard = heard.map_err(|error| Error::io(&self.shared.path, error))?;
            looks = match heard {
                Heard::Log | Heard::File => 0,
                Heard::Nothing => (looks + 1).min(PAUSES.len()),
            };
            if (heard == Heard::File || pause.is_none()) && was_replaced(&self.conn) {
                return Err(self.shared.note_replaced());
            }
            match self.look() {
                Ok(()) => {}
                // The baseline is kept, and the next look finds what this one would have.
                Err(Error::Busy) => looks = looks.min(PAUSES.len() - 1),
                Err(error) => return Err(error),
            }
            if heard == Heard::Log {
                sleep(REST);
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Error> {
        self.shared.counters.watcher_looks.add();
        let version: i64 = self
            .conn
            .prepare_cached(VERSION)?
            .query_one([], |row| row.get(0))?;
        if version == self.version {
            return Ok(());
        }
        self.shared.counters.watcher_reads.add();
        let mut statement = self.conn.prepare_cached(SINCE)?;
        let mut rows = statement.query([self.newest])?;
        let (mut newest, mut missed, mut channels) = (self.newest, false, Vec::new());
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            missed |= id != newest + 1;
            newest = id;
            if row.get::<_, i64>(1)? != self.shared.origin {
                channels.push(Channel::of_text(row.get::<_, String>(2)?));
            }
        }
        (self.newest, self.version) = (newest, version);
        if missed {
            self.shared.hub.wake_all();
        } else {
            for channel in &channels {
                self.shared.hub.wake(channel);
            }
        }
        Ok(())
    }
}

/// However the thread ends, nobody waits in vain (CW-03).
struct EndReceivers(Arc<Shared>);

impl Drop for EndReceivers {
    fn drop(&mut self) {
        self.0.hub.close();
    }
}
