//! What a store holds, and the handles that share it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use esker_coord_api::{Channel, Clock, LocalName, Name, WakeHub};

use crate::{jobs::Jobs, locks::Locks, schedules::Schedules, streams::Streams};

/// All that was committed. A clone is a snapshot.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) jobs: Jobs,
    pub(crate) streams: Streams,
    pub(crate) locks: Locks,
    pub(crate) schedules: Schedules,
}

/// Kept by one transaction at a time.
type Keep = Arc<tokio::sync::Mutex<()>>;

/// What the handles of one store share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    state: Mutex<State>,
    hubs: Mutex<Hubs>,
    /// One for each consumer that a transaction asked for: who has it keeps the consumer.
    consumers: Mutex<BTreeMap<(Name, LocalName), Keep>>,
}

/// Who listens, by handle.
#[derive(Default)]
struct Hubs {
    last: u64,
    open: BTreeMap<u64, WakeHub>,
}

impl Shared {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            hubs: Mutex::default(),
            consumers: Mutex::default(),
        }
    }

    /// What a transaction takes to keep a consumer of a stream.
    pub(crate) fn consumer(&self, of: (Name, LocalName)) -> Keep {
        lock(&self.consumers).entry(of).or_default().clone()
    }

    /// The state, for one operation at a time: each is atomic.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a handle, by a number of its own.
    pub(crate) fn attach(&self) -> (u64, WakeHub) {
        let mut hubs = lock(&self.hubs);
        hubs.last += 1;
        let (number, hub) = (hubs.last, WakeHub::new());
        hubs.open.insert(number, hub.clone());
        (number, hub)
    }

    /// Ends a handle and its receivers.
    pub(crate) fn detach(&self, number: u64) {
        let hub = lock(&self.hubs).open.remove(&number);
        if let Some(hub) = hub {
            hub.close();
        }
    }

    pub(crate) fn is_attached(&self, number: u64) -> bool {
        lock(&self.hubs).open.contains_key(&number)
    }

    /// Wakes who listens through any handle, after a commit.
    pub(crate) fn wake(&self, channels: &[Channel]) {
        let hubs: Vec<WakeHub> = lock(&self.hubs).open.values().cloned().collect();
        for hub in hubs {
            for channel in channels {
                hub.wake(channel);
            }
        }
    }
}

/// No operation panics half way, so what these mutexes guard is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
