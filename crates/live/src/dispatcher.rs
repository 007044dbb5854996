//! The dispatcher: a thread that owns the filter index and hands each committed event to those it matches.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use esker_events_api::{Accepted, Change, Filters, Observer, search};
use esker_nostr::{Canonical, Filter};

use crate::{
    Counters, FilterIndex, Observation, Observed,
    counters::add,
    queue::{Command, Queue, Target},
};

/// Where the events of a registration go.
pub trait Sink: Send + Sync {
    /// Takes an event that one of the registration's filters matches; called once per event, in commit order,
    /// on the dispatcher's thread. It must not wait: everybody's events wait with it.
    fn deliver(&self, accepted: &Accepted);

    /// Told once, on the dispatcher's thread and before any event, that the registration is in force: everything
    /// that was committed before it has been dispatched, up to the offset `past` (`None`: nothing was yet).
    fn in_force(&self, _past: Option<i64>) {}
}

/// What a dispatcher is told when it starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much of committed events may wait for the dispatcher, in bytes of JSON; as much again may be in its
    /// hands. A commit that finds this full waits, and the writer with it ([`Counters::waits`]).
    pub backlog_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backlog_bytes: 32 << 20,
        }
    }
}

/// From commits to sinks, in commit order (LIVE-11).
///
/// Commits, by way of [`Dispatcher::observer`], and registrations go through one queue, first in, first out.
/// The store calls the observer after each commit, in order. So a registration that is made before a query's
/// snapshot is taken stands in the queue before every commit that the snapshot does not see: it is in force
/// for all of them, with nothing to acknowledge and nothing to wait for (LIVE-10).
///
/// The thread takes all that waits at once and holds no lock while it looks up, matches and delivers. Dropping
/// the dispatcher ends it when what is queued is dispatched; later commits are nobody's.
pub struct Dispatcher {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// A registration in force; dropping it ends it. Events that were committed before the drop may still be
/// delivered shortly after it: a sink that must not get them has a gate of its own ([`crate::Subscription::cancel`]).
#[must_use = "dropping it ends the registration"]
pub struct Registration {
    /// `None` once another registration has taken its place.
    slot: Option<u32>,
    queue: Arc<Queue>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.queue.unregister(slot);
        }
    }
}

impl Dispatcher {
    /// Starts the thread. The error is the system's: it gave none.
    pub fn start(options: &Options) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(options.backlog_bytes, Arc::default()));
        let thread = {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name("esker-dispatch".into())
                .spawn(move || run(&queue))?
        };
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// What the store is to call after each commit: [`esker_events_api::EventStore::observe`].
    pub fn observer(&self) -> Observer {
        let queue = Arc::clone(&self.queue);
        Arc::new(move |changes| queue.commit(changes))
    }

    /// Has the events that any of the filters matches delivered to the sink, from here on.
    ///
    /// No filters match nothing. A filter with a search that constrains gets no live events, since what it
    /// would find is not known (RELAY-05).
    pub fn register(&self, filters: Filters, sink: Arc<dyn Sink>) -> Registration {
        self.enter(filters, Target::Sink(sink))
    }

    /// As [`register`](Self::register), in place of another registration: in one step between two commits, so that each
    /// event is dispatched to one of the two.
    pub fn replace(&self, mut replaced: Registration, filters: Filters, sink: Arc<dyn Sink>) -> Registration {
        let instead_of = replaced.slot.take();
        self.enter_instead(filters, Target::Sink(sink), instead_of)
    }

    /// Matching inserts and removals from here on, as a stream that holds at most `capacity` of them; one that
    /// does not keep up is ended (LIVE-15).
    pub fn observe(&self, filters: Filters, capacity: usize) -> Observation {
        Observation::new(capacity, Arc::clone(&self.queue), |outlet| {
            self.enter(filters, Target::Observer(outlet))
        })
    }

    /// Waits until all that was queued before is dispatched.
    pub fn flush(&self) {
        let (done, wait) = mpsc::sync_channel(1);
        self.queue.flush(done);
        // An error is a dispatcher that has stopped: nothing is queued.
        let _ = wait.recv();
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.queue.counters
    }

    fn enter(&self, filters: Filters, target: Target) -> Registration {
        self.enter_instead(filters, target, None)
    }

    fn enter_instead(&self, filters: Filters, target: Target, instead_of: Option<u32>) -> Registration {
        let slot = self.queue.register(live_filters(filters), target, instead_of);
        Registration {
            slot: Some(slot),
            queue: Arc::clone(&self.queue),
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // An error is a panic of the thread, reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The filters that can be decided on a live event.
fn live_filters(filters: Filters) -> Filters {
    let is_live = |filter: &Filter| !filter.search.as_deref().is_some_and(search::constrains);
    if filters.iter().all(is_live) {
        return filters;
    }
    filters.iter().filter(|filter| is_live(filter)).cloned().collect()
}

fn run(queue: &Queue) {
    /// However the thread ends, nobody waits for it.
    struct Abandon<'a>(&'a Queue);
    impl Drop for Abandon<'_> {
        fn drop(&mut self) {
            self.0.abandon();
        }
    }
    let _abandon = Abandon(queue);
    let mut dispatch = Dispatch::new(queue);
    let mut commands = VecDeque::new();
    while queue.drain(&mut commands, &mut dispatch.forgotten) {
        commands.drain(..).for_each(|command| dispatch.apply(command));
        if commands.capacity() > KEPT_CAPACITY {
            commands = VecDeque::new();
        }
    }
}

/// A batch that was longer than this gives its memory back.
const KEPT_CAPACITY: usize = 1024;

/// What the thread owns.
struct Dispatch<'a> {
    queue: &'a Queue,
    index: FilterIndex<u32>,
    // By slot.
    entries: Vec<Option<Entry>>,
    // Sinks that panicked and observations that lag, found while the index was borrowed.
    failed: Vec<u32>,
    forgotten: Vec<u32>,
    // The last offset that was dispatched.
    past: Option<i64>,
}

struct Entry {
    filters: Filters,
    target: Target,
}

impl<'a> Dispatch<'a> {
    fn new(queue: &'a Queue) -> Self {
        Self {
            queue,
            index: FilterIndex::new(),
            entries: Vec::new(),
            failed: Vec::new(),
            forgotten: Vec::new(),
            past: None,
        }
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Commit(changes) => {
                for change in &changes {
                    match change {
                        Change::Accepted(accepted) => self.inserted(accepted),
                        Change::Removed(json) => self.removed(json),
                    }
                }
            }
            Command::Register {
                slot,
                filters,
                target,
                instead_of,
            } => {
                if let Some(replaced) = instead_of {
                    self.forget(replaced);
                    self.forgotten.push(replaced);
                }
                let place = slot as usize;
                if self.entries.len() <= place {
                    self.entries.resize_with(place + 1, || None);
                }
                self.index.register(&filters, slot);
                if let Target::Sink(sink) = &target
                    && catch_unwind(AssertUnwindSafe(|| sink.in_force(self.past))).is_err()
                {
                    add(&self.queue.counters.panics, 1);
                    self.failed.push(slot);
                }
                self.entries[place] = Some(Entry { filters, target });
                self.forget_failed();
            }
            Command::Unregister(slot) => {
                self.forget(slot);
                self.forgotten.push(slot);
            }
            Command::Flush(done) => {
                // An error is a caller that has gone.
                let _ = done.send(());
            }
        }
    }

    fn inserted(&mut self, accepted: &Accepted) {
        let (mut candidates, mut matches, mut deliveries) = (0, 0, 0);
        let counters = &self.queue.counters;
        let Self {
            index,
            entries,
            failed,
            ..
        } = self;
        index.for_each_candidate(&*accepted.event, |slot| {
            candidates += 1;
            let Some(entry) = &entries[slot as usize] else {
                return;
            };
            // Matching too, so that a fault that one filter meets is that subscription's alone.
            let delivered = catch_unwind(AssertUnwindSafe(|| {
                if !entry
                    .filters
                    .iter()
                    .any(|filter| filter.matches(&*accepted.event))
                {
                    return None;
                }
                matches += 1;
                Some(match &entry.target {
                    Target::Sink(sink) => {
                        sink.deliver(accepted);
                        true
                    }
                    Target::Observer(outlet) => {
                        let given = outlet.give(Observed::Inserted(accepted.clone()));
                        add(&counters.lagged, u64::from(!given));
                        given
                    }
                })
            }));
            match delivered {
                Ok(None) => {}
                Ok(Some(true)) => deliveries += 1,
                Ok(Some(false)) => failed.push(slot),
                Err(_) => {
                    add(&counters.panics, 1);
                    failed.push(slot);
                }
            }
        });
        self.past = accepted.offset.or(self.past);
        add(&counters.events, 1);
        add(&counters.candidates, candidates);
        add(&counters.matches, matches);
        add(&counters.deliveries, deliveries);
        self.forget_failed();
    }

    /// A removal is an observer's matter alone.
    fn removed(&mut self, json: &bytes::Bytes) {
        let event = Canonical::new(json);
        let counters = &self.queue.counters;
        let Self {
            index,
            entries,
            failed,
            ..
        } = self;
        index.for_each_candidate(&event, |slot| {
            let Some(Entry {
                filters,
                target: Target::Observer(outlet),
            }) = &entries[slot as usize]
            else {
                return;
            };
            if filters.iter().any(|filter| filter.matches(&event)) {
                if outlet.give(Observed::Removed(json.clone())) {
                    add(&counters.deliveries, 1);
                } else {
                    add(&counters.lagged, 1);
                    failed.push(slot);
                }
            }
        });
        self.forget_failed();
    }

    fn forget_failed(&mut self) {
        while let Some(slot) = self.failed.pop() {
            self.forget(slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        self.index.unregister(slot);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            *entry = None;
        }
    }
}

#[cfg(test)]
mod tests;
