//! What a store holds, and the handles that share it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use esker_coord_api::{Channel, Clock, WakeHub};

use crate::{jobs::Jobs, keeps::Keeps, locks::Locks, schedules::Schedules, streams::Streams};

/// All that was committed. A clone is a snapshot.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) jobs: Jobs,
    pub(crate) streams: Streams,
    pub(crate) locks: Locks,
    pub(crate) schedules: Schedules,
}

/// What the handles of one store share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    state: Mutex<State>,
    hubs: Mutex<Hubs>,
    pub(crate) keeps: Keeps,
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
            keeps: Keeps::default(),
        }
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

    /// Ends a handle, its receivers and its transactions.
    pub(crate) fn detach(&self, number: u64) {
        let hub = lock(&self.hubs).open.remove(&number);
        if let Some(hub) = hub {
            hub.close();
            self.keeps.close(number);
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
