//! What the parts of one store share: the pool, who waits, and the way to its end.

use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use esker_coord_api::{CancellationToken, Channel, WakeHub};
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::sleep,
};
use tokio_postgres::types::Type;

use crate::{Error, Options, channel::mapped, database::Database, stats::Counters, vacuum::Gone};

/// Operations under way at a time; more wait.
const MOST_OPERATIONS: u32 = 1 << 16;

/// How long a notification gathers wakes where several callers share each commit: so many commits come then that one for
/// each would cost as much as they do. The wakes of a caller who is alone are told at once.
const GATHER: Duration = Duration::from_millis(1);

/// Tells other processes, in a transaction of its own that need not be flushed: a wake is a hint.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, $2) \
    FROM unnest($1) AS channel";

pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) runtime: Handle,
    pub(crate) hub: WakeHub,
    pub(crate) stats: Arc<Counters>,
    pub(crate) gone: Gone,
    /// By which this store knows the notifications that it sent itself.
    pub(crate) number: String,
    /// Ends the tasks of the store.
    pub(crate) stop: CancellationToken,
    entries: Arc<Semaphore>,
    untold: Mutex<BTreeSet<Channel>>,
    telling: Notify,
    /// Whether callers shared a commit since the last notification.
    crowded: AtomicBool,
}

impl Shared {
    pub(crate) fn new(database: Database, options: Options, number: String, stats: Arc<Counters>) -> Self {
        Self {
            database,
            options,
            runtime: Handle::current(),
            hub: WakeHub::new(),
            stats,
            gone: Gone::default(),
            number,
            stop: CancellationToken::new(),
            entries: Arc::new(Semaphore::new(MOST_OPERATIONS as usize)),
            untold: Mutex::default(),
            telling: Notify::new(),
            crowded: AtomicBool::new(false),
        }
    }

    /// The right to begin an operation; while it is held, the store is not closed.
    pub(crate) async fn enter(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.check_open()?;
        self.entries
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| Error::Closed)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.stop.is_cancelled() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Wakes who waits, after a commit that so many callers shared (CW-05, CW-06).
    pub(crate) fn wake_for(&self, callers: usize, channels: impl IntoIterator<Item = Channel>) {
        if callers > 1 {
            self.crowded.store(true, Relaxed);
        }
        self.wake(channels);
    }

    /// Wakes who waits, after a commit: in this process at once, in others as soon as they are told (CW-05, CW-06).
    pub(crate) fn wake(&self, channels: impl IntoIterator<Item = Channel>) {
        let mut untold = self.untold();
        for channel in channels {
            self.hub.wake(&channel);
            untold.insert(channel);
        }
        drop(untold);
        self.telling.notify_one();
    }

    /// Tells other processes of wakes, until the store ends. What gathers while a notification is on its way is merged
    /// into the next.
    pub(crate) async fn tell_others(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.telling.notified() => self.tell().await,
                () = self.stop.cancelled() => return,
            }
            if self.crowded.swap(false, Relaxed) {
                tokio::select! {
                    () = sleep(GATHER) => {}
                    // Whoever closes the store tells what is left.
                    () = self.stop.cancelled() => return,
                }
            }
        }
    }

    async fn tell(&self) {
        let channels = mem::take(&mut *self.untold());
        if channels.is_empty() {
            return;
        }
        let schema = self.database.schema();
        let names: Vec<String> = channels
            .iter()
            .map(|channel| mapped(schema, channel.as_str()))
            .collect();
        self.stats.notifications.add();
        let told = self
            .database
            .write(NOTIFY, &[(&names, Type::TEXT_ARRAY), (&self.number, Type::TEXT)])
            .await;
        if let Err(error) = told {
            // They read again at the safety interval.
            tracing::warn!(%error, "other processes were not told of wakes");
        }
    }

    /// Lets what was submitted finish, then ends all.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        // Everybody who entered has left then.
        let everything = self.entries.acquire_many(MOST_OPERATIONS).await;
        self.tell().await;
        self.entries.close();
        drop(everything);
        self.hub.close();
        self.database.close();
    }

    /// What it guards is whole at every moment.
    fn untold(&self) -> MutexGuard<'_, BTreeSet<Channel>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
