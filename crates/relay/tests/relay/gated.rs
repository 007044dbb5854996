//! A store whose pages and inserts wait for the test, so that each interleaving can be forced.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use esker_events_api::{
    BoxFuture, Error, EventStore, Filters, Observer, Outcome, Page, Position, Query, Stats,
};
use esker_events_memory::MemoryStore;
use esker_nostr::{Event, EventId, PublicKey};
use tokio::sync::Semaphore;

use crate::support::{memory, patiently};

/// A place where work waits until the test lets it pass.
pub(crate) struct Gate {
    closed: AtomicBool,
    arrivals: Semaphore,
    passes: Semaphore,
}

impl Gate {
    fn new() -> Self {
        Self {
            closed: AtomicBool::new(false),
            arrivals: Semaphore::new(0),
            passes: Semaphore::new(0),
        }
    }

    /// From here on, each one waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Lets all pass, those who wait and those who come.
    pub(crate) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
        self.passes.add_permits(1000);
    }

    /// Waits until one more stands before the gate.
    pub(crate) async fn arrived(&self) {
        patiently(self.arrivals.acquire()).await.unwrap().forget();
    }

    /// Lets so many pass.
    pub(crate) fn let_pass(&self, count: usize) {
        self.passes.add_permits(count);
    }

    async fn pass(&self) {
        if self.closed.load(Ordering::SeqCst) {
            self.arrivals.add_permits(1);
            self.passes.acquire().await.unwrap().forget();
        }
    }
}

pub(crate) struct Gated {
    inner: MemoryStore,
    /// Before a page takes its snapshot.
    pub(crate) before_page: Gate,
    /// After a page took its snapshot.
    pub(crate) after_page: Gate,
    /// After events were committed, before that is told.
    pub(crate) after_insert: Gate,
    /// What the next pages and counts fail with.
    pub(crate) failures: Mutex<Vec<Error>>,
    /// Looking up what is stored panics.
    pub(crate) panicking: AtomicBool,
    /// The next batches fail.
    pub(crate) failing_inserts: AtomicBool,
}

impl Gated {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: memory(),
            before_page: Gate::new(),
            after_page: Gate::new(),
            after_insert: Gate::new(),
            failures: Mutex::default(),
            panicking: AtomicBool::new(false),
            failing_inserts: AtomicBool::new(false),
        })
    }

    fn failure(&self) -> Option<Error> {
        self.failures.lock().unwrap().pop()
    }
}

impl EventStore for Gated {
    fn insert_batch(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(async move {
            if self.failing_inserts.load(Ordering::SeqCst) {
                return vec![Outcome::Failed("the disk is full".into()); events.len()];
            }
            let outcomes = self.inner.insert_batch(events).await;
            self.after_insert.pass().await;
            outcomes
        })
    }

    fn page(&self, query: Query) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move {
            self.before_page.pass().await;
            if let Some(error) = self.failure() {
                return Err(error);
            }
            let page = self.inner.page(query).await;
            self.after_page.pass().await;
            page
        })
    }

    fn count(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        match self.failure() {
            Some(error) => Box::pin(async { Err(error) }),
            None => self.inner.count(filters),
        }
    }

    fn contains(&self, ids: Vec<EventId>) -> BoxFuture<'_, Result<Vec<bool>, Error>> {
        assert!(!self.panicking.load(Ordering::SeqCst), "as the test asked");
        self.inner.contains(ids)
    }
    fn snapshot(&self, filters: Filters, max: usize) -> BoxFuture<'_, Result<Vec<Position>, Error>> {
        self.inner.snapshot(filters, max)
    }
    fn delete(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        self.inner.delete(filters)
    }
    fn delete_id(&self, id: EventId) -> BoxFuture<'_, Result<bool, Error>> {
        self.inner.delete_id(id)
    }
    fn delete_expired(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.inner.delete_expired()
    }
    fn authors_missing_outbox(&self) -> BoxFuture<'_, Result<Vec<PublicKey>, Error>> {
        self.inner.authors_missing_outbox()
    }
    fn stats(&self) -> BoxFuture<'_, Result<Stats, Error>> {
        self.inner.stats()
    }
    fn observe(&self, observer: Observer) {
        self.inner.observe(observer);
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
