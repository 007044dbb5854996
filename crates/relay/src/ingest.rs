//! From an offered event to its OK: a bounded intake, the checks, the store.
//!
//! Offers of all connections wait in one queue. Threads made for it take some at a time, parse them, apply the
//! policies, ask the store once which it has already, and check the signatures of the rest: a signature costs
//! forty times what the other checks do. What passes is handed to the store, and the thread goes on without
//! waiting for the disk.

mod offer;
mod policy;

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use esker_events_api::{Clock, EventStore, Outcome, Rejection};
use esker_nostr::{Event, EventFields};
use tokio::{runtime::Handle, sync::Semaphore};

pub(crate) use self::offer::Offer;
use crate::{Counters, Error, Limits, counters::Refusal};

/// Offers that a thread takes at once.
const CHUNK: usize = 64;

/// What an offer weighs at least in the intake, in bytes.
const WEIGHT_MIN: usize = 1 << 10;

/// The intake and its threads. They end when it is closed or dropped.
pub(crate) struct Ingest {
    shared: Arc<Shared>,
    /// Bytes of offers that are not answered yet.
    places: Arc<Semaphore>,
    places_max: u32,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    threads: usize,
    limits: Limits,
    clock: Clock,
    store: Arc<dyn EventStore>,
    counters: Arc<Counters>,
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    offers: VecDeque<Offer>,
    closed: bool,
}

impl Ingest {
    /// Starts the threads; the store is asked on the runtime that this is called in.
    pub(crate) fn start(
        limits: &Limits,
        clock: Clock,
        store: Arc<dyn EventStore>,
        counters: Arc<Counters>,
    ) -> Result<Self, Error> {
        let threads = limits.verify_threads();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ready: Condvar::new(),
            threads,
            limits: limits.clone(),
            clock,
            store,
            counters,
            runtime: Handle::current(),
        });
        let places_max = limits.intake_bytes;
        let places = Arc::new(Semaphore::new(places_max as usize));
        let ingest = Self {
            shared,
            places,
            places_max,
        };
        for number in 0..threads {
            let shared = Arc::clone(&ingest.shared);
            thread::Builder::new()
                .name(format!("esker-verify-{number}"))
                .spawn(move || shared.work())
                .map_err(Error::Thread)?;
        }
        Ok(ingest)
    }

    /// Takes an offer; waits while the intake is full.
    pub(crate) async fn offer(&self, mut offer: Offer) {
        let weight = u32::try_from(offer.raw().len().max(WEIGHT_MIN))
            .unwrap_or(u32::MAX)
            .min(self.places_max);
        offer.place = Arc::clone(&self.places).acquire_many_owned(weight).await.ok();
        let mut queue = self.shared.lock();
        if !queue.closed {
            queue.offers.push_back(offer);
            drop(queue);
            self.shared.ready.notify_one();
        }
        // An offer that comes after the end is dropped, which answers it.
    }

    /// Ends the threads once the queue is empty.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.ready.notify_all();
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// What a thread does.
    fn work(&self) {
        while let Some(chunk) = self.next_chunk() {
            // One event must never end the checking of all others; its offers are answered when they drop.
            if catch_unwind(AssertUnwindSafe(|| self.check(chunk))).is_err() {
                tracing::error!("checking events panicked");
            }
        }
    }

    /// Some offers, a fair share of those that wait; `None` at the end.
    fn next_chunk(&self) -> Option<Vec<Offer>> {
        let mut queue = self
            .ready
            .wait_while(self.lock(), |queue| queue.offers.is_empty() && !queue.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let share = queue.offers.len().div_ceil(self.threads).min(CHUNK);
        let chunk: Vec<_> = queue.offers.drain(..share).collect();
        if queue.offers.is_empty() {
            queue.offers.shrink_to(CHUNK);
        }
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Answers what can be answered without the store, and hands it the rest.
    fn check(&self, chunk: Vec<Offer>) {
        let now = self.clock.now();
        let parsed: Vec<_> = chunk
            .into_iter()
            .filter_map(|offer| self.parse(offer, now))
            .collect();
        if parsed.is_empty() {
            return;
        }
        let ids = parsed.iter().map(|(_, event)| event.id()).collect();
        let known = match self.runtime.block_on(self.store.contains(ids)) {
            Ok(known) => known,
            Err(error) => {
                for (offer, event) in parsed {
                    self.counters.events_failed.increment();
                    offer.answer(event.id(), false, &format!("error: {error}"));
                }
                return;
            }
        };
        let mut offers = Vec::with_capacity(parsed.len());
        let mut events = Vec::with_capacity(parsed.len());
        for ((offer, event), known) in parsed.into_iter().zip(known) {
            if known {
                answer(&self.counters, offer, &event, &Outcome::Duplicate);
                continue;
            }
            self.counters.verifications.increment();
            match event.verify() {
                Ok(()) => {
                    let event = Arc::new(event);
                    offers.push((offer, Arc::clone(&event)));
                    events.push(event);
                }
                Err(error) => self.refuse(offer, &event, Refusal::Signature, &format!("invalid: {error}")),
            }
        }
        if !events.is_empty() {
            self.submit(offers, events);
        }
    }

    fn parse(&self, offer: Offer, now: i64) -> Option<(Offer, Event)> {
        let event = match Event::parse(offer.raw()) {
            Ok(event) => event,
            Err(error) => {
                self.counters.refused(Refusal::Malformed).increment();
                offer.refuse_malformed(&format!("invalid: {error}"));
                return None;
            }
        };
        match policy::refusal(&event, offer.raw().len(), &self.limits, now) {
            Some((refusal, reason)) => {
                self.refuse(offer, &event, refusal, &reason);
                None
            }
            None => Some((offer, event)),
        }
    }

    /// The number of batches under way is bounded by the intake, since its places are held until the answer.
    fn submit(&self, offers: Vec<(Offer, Arc<Event>)>, events: Vec<Arc<Event>>) {
        let (store, counters) = (Arc::clone(&self.store), Arc::clone(&self.counters));
        self.runtime.spawn(async move {
            let outcomes = store.insert_batch(events).await;
            for ((offer, event), outcome) in offers.into_iter().zip(&outcomes) {
                answer(&counters, offer, &event, outcome);
            }
        });
    }

    fn refuse(&self, offer: Offer, event: &Event, refusal: Refusal, reason: &str) {
        self.counters.refused(refusal).increment();
        offer.answer(event.id(), false, reason);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(counters: &Counters, offer: Offer, event: &Event, outcome: &Outcome) {
    match outcome {
        Outcome::Stored => &counters.events_stored,
        Outcome::Ephemeral => &counters.events_ephemeral,
        Outcome::Duplicate => &counters.events_duplicate,
        Outcome::Replaced => &counters.events_replaced,
        Outcome::Rejected(Rejection::Expired) => counters.refused(Refusal::Expired),
        Outcome::Rejected(Rejection::Deleted) => counters.refused(Refusal::Deleted),
        Outcome::Rejected(Rejection::Vanished) => counters.refused(Refusal::Vanished),
        Outcome::Rejected(_) => counters.refused(Refusal::Other),
        Outcome::Failed(_) => &counters.events_failed,
    }
    .increment();
    let (accepted, message) = outcome.reply();
    offer.answer(event.id(), accepted, &message);
}
