//! A store under test with its clock and an observer, and the assertions that rule tests are written with.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use esker_events_api::{
    Accepted, Change, Clock, EventStore, Filters, Options, Outcome, PageLimits, Position, Query,
    admission::position, search,
};
use esker_nostr::{Event, EventFields, EventId, Filter};

use crate::{Engine, naive};

/// The time at which a world begins.
pub const NOW: i64 = 1_700_000_000;

/// The relay URL of a world's store.
pub const RELAY: &str = "wss://relay.example";

/// A store that was opened for one test.
pub struct World<E> {
    /// The engine, until the test takes it.
    pub engine: E,
    /// Its store.
    pub store: Arc<dyn EventStore>,
    /// Its clock.
    pub clock: Clock,
    /// What the observer has seen.
    pub log: Arc<Log>,
}

impl<E: Engine> World<E> {
    /// A store with the suite's usual options: a relay URL and a clock that stands at [`NOW`].
    pub async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// The same with other options.
    pub async fn open_with(change: impl FnOnce(&mut Options)) -> Self {
        let clock = Clock::manual(NOW);
        let mut options = Options {
            relay_url: Some(RELAY.into()),
            clock: clock.clone(),
            ..Options::default()
        };
        change(&mut options);
        let engine = E::open(options).await;
        let store = engine.store();
        let log = Log::of(&store);
        Self {
            engine,
            store,
            clock,
            log,
        }
    }

    /// Ends the store and opens it again.
    #[must_use]
    pub async fn reopen(self) -> Self {
        let Self {
            engine, store, clock, ..
        } = self;
        drop(store);
        let engine = engine.reopen().await;
        let store = engine.store();
        let log = Log::of(&store);
        Self {
            engine,
            store,
            clock,
            log,
        }
    }

    /// Offers an event.
    pub async fn offer(&self, event: &Arc<Event>) -> Outcome {
        self.store.insert(event.clone()).await
    }

    /// Offers events one after the other; each must be stored.
    pub async fn put<'a>(&self, events: impl IntoIterator<Item = &'a Arc<Event>>) {
        for event in events {
            assert_eq!(self.offer(event).await, Outcome::Stored, "{}", text(event.json()));
        }
    }

    /// Asserts what a query with these filters finds, in order, by every way there is to ask: whole, page by page,
    /// by count and by snapshot.
    pub async fn finds<'a>(&self, filters: &[&str], expected: impl IntoIterator<Item = &'a Arc<Event>>) {
        self.finds_by(
            &parse(filters),
            &expected.into_iter().cloned().collect::<Vec<_>>(),
        )
        .await;
    }

    /// The same with parsed filters.
    pub async fn finds_by(&self, filters: &Filters, expected: &[Arc<Event>]) {
        let asked = || {
            filters
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let bytes: Vec<Bytes> = expected.iter().map(|event| event.json().clone()).collect();
        same(
            &self.store.query(filters.clone()).await.expect("query"),
            &bytes,
            &asked,
        );
        for size in [1, 2, 7] {
            let limits = PageLimits {
                events: size,
                ..PageLimits::default()
            };
            same(&self.paged(filters, limits).await, &bytes, &asked);
        }
        assert_eq!(
            self.count(filters).await,
            bytes.len() as u64,
            "STORE-C01: count of {}",
            asked()
        );
        let positions: Vec<Position> = expected.iter().map(|event| position(&**event)).collect();
        let snapshot = self
            .store
            .snapshot(filters.clone(), usize::MAX)
            .await
            .expect("snapshot");
        assert_eq!(snapshot, positions, "STORE-N01: snapshot of {}", asked());
    }

    /// Asserts that exactly these of the offered events are found by a filter, and that the live matcher and the
    /// suite's own agree (STORE-F13). The order is checked too; the expected need not be sorted.
    pub async fn matches<'a>(
        &self,
        filter: &str,
        offered: &[Arc<Event>],
        expected: impl IntoIterator<Item = &'a Arc<Event>>,
    ) {
        let filters = parse(&[filter]);
        let mut expected: Vec<_> = expected.into_iter().cloned().collect();
        expected.sort_by_key(|event| position(&**event));
        for event in offered {
            let wanted = expected.iter().any(|expected| expected.id() == event.id());
            let shown = || format!("{filter} on {}", text(event.json()));
            assert_eq!(
                naive::matches(&filters[0], event),
                wanted,
                "the suite's matcher: {}",
                shown()
            );
            assert_eq!(filters[0].matches(&**event), wanted, "STORE-F13: {}", shown());
        }
        self.finds_by(&filters, &expected).await;
    }

    /// A query's result, gathered from pages.
    pub async fn paged(&self, filters: &Filters, limits: PageLimits) -> Vec<Bytes> {
        let mut events = Vec::new();
        let mut next = Some(Query::new(filters.clone()).with_limits(limits));
        let mut as_of = None;
        while let Some(query) = next {
            let page = self.store.page(query).await.expect("a page");
            assert!(
                page.events.len() <= limits.events,
                "a page of {} events",
                page.events.len()
            );
            // A page ends with the event that reaches the bound.
            let before_last = page.events.iter().rev().skip(1).map(Bytes::len).sum::<usize>();
            assert!(
                page.events.len() < 2 || before_last < limits.bytes,
                "{before_last} bytes and one event more"
            );
            assert_eq!(
                *as_of.get_or_insert(page.as_of),
                page.as_of,
                "all pages are of one moment"
            );
            events.extend(page.events);
            next = page.next;
        }
        events
    }

    /// How many events a query would return.
    pub async fn count(&self, filters: &Filters) -> u64 {
        self.store.count(filters.clone()).await.expect("a count")
    }

    /// Deletes by filters and tells how many went.
    pub async fn delete(&self, filters: &[&str]) -> u64 {
        self.store.delete(parse(filters)).await.expect("a deletion")
    }

    /// Whether an event is stored.
    pub async fn contains(&self, event: &Event) -> bool {
        self.store.contains(vec![event.id()]).await.expect("an answer") == [true]
    }

    /// Asserts what the store holds, nothing else, in order.
    pub async fn holds<'a>(&self, expected: impl IntoIterator<Item = &'a Arc<Event>>) {
        self.finds(&["{}"], expected).await;
    }
}

/// Filters from JSON.
pub fn parse(filters: &[&str]) -> Filters {
    filters
        .iter()
        .map(|json| Filter::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}")))
        .collect()
}

/// Whether the rule about a store without search closes a filter (STORE-S05).
pub fn searches(filter: &Filter) -> bool {
    filter.search.as_deref().is_some_and(search::constrains)
}

/// Bytes as text, cut where nobody reads on.
pub fn text(json: &[u8]) -> String {
    String::from_utf8_lossy(&json[..json.len().min(600)]).into_owned()
}

fn same(found: &[Bytes], expected: &[Bytes], asked: &dyn Fn() -> String) {
    let lines = |events: &[Bytes]| {
        events
            .iter()
            .map(|json| text(json))
            .collect::<Vec<_>>()
            .join("\n  ")
    };
    assert!(
        found == expected,
        "{}\nfound\n  {}\nexpected\n  {}",
        asked(),
        lines(found),
        lines(expected)
    );
}

/// What an observer has seen.
#[derive(Default)]
pub struct Log {
    changes: Mutex<Vec<Seen>>,
    grown: Condvar,
}

/// One change, in a form that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen {
    /// An event left the store.
    Removed(EventId),
    /// An event was accepted; whether it was stored, and at which offset.
    Accepted(EventId, Option<i64>),
}

impl Log {
    /// A log that observes a store from now on.
    pub fn of(store: &Arc<dyn EventStore>) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let observer = log.clone();
        store.observe(Arc::new(move |changes| observer.extend(changes)));
        log
    }

    fn extend(&self, changes: &[Change]) {
        let mut seen = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(changes.iter().map(|change| match change {
            Change::Accepted(Accepted { offset, event }) => Seen::Accepted(event.id(), *offset),
            Change::Removed(json) => Seen::Removed(naive::id(json)),
        }));
        self.grown.notify_all();
    }

    /// What was seen, once there are `count` changes or more. An observer is called after the commit, which may be
    /// after the answer; if it never is, this gives what there is, for the assertion to fail on.
    pub fn wait(&self, count: usize) -> Vec<Seen> {
        let seen = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = self
            .grown
            .wait_timeout_while(seen, Duration::from_secs(20), |seen| seen.len() < count);
        enough.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}
