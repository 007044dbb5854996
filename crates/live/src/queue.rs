//! The one queue into the dispatcher: commits and registrations in the order in which they happened.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
        mpsc::SyncSender,
    },
};

use esker_events_api::{Change, Filters};

use crate::{Counters, Sink, counters::add, observation::Outlet};

pub(crate) enum Command {
    Commit(Vec<Change>),
    Register {
        slot: u32,
        filters: Filters,
        target: Target,
        /// A registration that ends in the same step.
        instead_of: Option<u32>,
    },
    Unregister(u32),
    Flush(SyncSender<()>),
}

/// Who gets the events of a registration.
pub(crate) enum Target {
    Sink(Arc<dyn Sink>),
    Observer(Outlet),
}

/// Commits are bounded in bytes and wait for room; the rest is never refused, since what registers is bounded
/// by the limits of connections, and what leaves must always be able to.
pub(crate) struct Queue {
    state: Mutex<State>,
    ready: Condvar,
    room: Condvar,
    backlog_bytes: usize,
    /// Observations that exist: without one, removals are nobody's.
    observations: AtomicUsize,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    // Of the commits among them.
    bytes: usize,
    stopped: bool,
    // Slots are given out here, so that a registration knows its own at once, and return once the dispatcher
    // has forgotten them.
    slots: u32,
    free: Vec<u32>,
}

impl Queue {
    pub(crate) fn new(backlog_bytes: usize, counters: Arc<Counters>) -> Self {
        Self {
            state: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
            backlog_bytes,
            observations: AtomicUsize::new(0),
            counters,
        }
    }

    /// Takes a commit; waits while more than the backlog would wait.
    pub(crate) fn commit(&self, changes: &[Change]) {
        let removals = self.observations.load(Ordering::SeqCst) > 0;
        let changes: Vec<_> = changes
            .iter()
            .filter(|change| removals || matches!(change, Change::Accepted(_)))
            .cloned()
            .collect();
        if changes.is_empty() {
            return;
        }
        let bytes = changes.iter().map(weight).sum::<usize>();
        let mut state = self.lock();
        let is_full = |state: &mut State| {
            !state.stopped && state.bytes > 0 && state.bytes.saturating_add(bytes) > self.backlog_bytes
        };
        if is_full(&mut state) {
            add(&self.counters.waits, 1);
            state = self.room.wait_while(state, is_full).expect(HELD);
        }
        state.bytes += bytes;
        self.append(state, Command::Commit(changes));
    }

    pub(crate) fn register(&self, filters: Filters, target: Target, instead_of: Option<u32>) -> u32 {
        if matches!(target, Target::Observer(_)) {
            self.observations.fetch_add(1, Ordering::SeqCst);
        }
        let mut state = self.lock();
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots += 1;
            state.slots - 1
        });
        self.append(
            state,
            Command::Register {
                slot,
                filters,
                target,
                instead_of,
            },
        );
        slot
    }

    pub(crate) fn unregister(&self, slot: u32) {
        self.append(self.lock(), Command::Unregister(slot));
    }

    pub(crate) fn observation_ended(&self) {
        self.observations.fetch_sub(1, Ordering::SeqCst);
    }

    /// The answer comes when all before it is dispatched; none when the dispatcher has stopped.
    pub(crate) fn flush(&self, done: SyncSender<()>) {
        self.append(self.lock(), Command::Flush(done));
    }

    /// What is queued is still dispatched, what comes later is not.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.ready.notify_one();
        self.room.notify_all();
    }

    /// The dispatcher is gone, however it went: drops what nobody will take, so that nobody waits for it.
    pub(crate) fn abandon(&self) {
        self.stop();
        let left = std::mem::take(&mut self.lock().commands);
        drop(left);
    }

    /// Waits for commands and takes all; `false` when stopped and empty. `forgotten` slots can be used again.
    pub(crate) fn drain(&self, into: &mut VecDeque<Command>, forgotten: &mut Vec<u32>) -> bool {
        let mut state = self.lock();
        state.free.append(forgotten);
        state = self
            .ready
            .wait_while(state, |state| state.commands.is_empty() && !state.stopped)
            .expect(HELD);
        std::mem::swap(&mut state.commands, into);
        if std::mem::take(&mut state.bytes) > 0 {
            self.room.notify_all();
        }
        !into.is_empty()
    }

    fn append(&self, mut state: MutexGuard<'_, State>, command: Command) {
        if state.stopped {
            // Dropped after the lock: a sink's end may call back.
            drop(state);
            return;
        }
        let wake = state.commands.is_empty();
        state.commands.push_back(command);
        drop(state);
        if wake {
            self.ready.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(HELD)
    }
}

const HELD: &str = "nothing panics while it holds this lock";

/// What a change keeps alive, about.
fn weight(change: &Change) -> usize {
    const FIXED: usize = 256;
    match change {
        Change::Accepted(accepted) => FIXED + accepted.event.json().len(),
        Change::Removed(json) => FIXED + json.len(),
    }
}
