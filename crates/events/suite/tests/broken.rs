//! Engines with one fault each: the model test finds every one of them, and shows it in a few steps.

use std::{marker::PhantomData, sync::Arc};

use bytes::Bytes;
use esker_events_api::{
    Address, BoxFuture, Change, Error, EventStore, Filters, Observer, Options, Outcome, Page, Position,
    Query, Stats, admission::position,
};
use esker_events_memory::MemoryStore;
use esker_events_suite::{Engine, block_on, run_model};
use esker_nostr::{Event, EventFields, EventId, Filter, PublicKey};

/// What a faulty engine does otherwise than memory.
trait Fault: Send + Sync + 'static {
    /// What the filters are taken for.
    fn filters(filters: Filters) -> Filters {
        filters
    }
    /// What a query is taken for.
    fn query(query: Query) -> Query {
        query
    }
    /// What a page becomes.
    fn page(page: Page) -> Page {
        page
    }
    /// What happens before an event is inserted; an outcome instead of doing so.
    fn insert(_store: &MemoryStore, _event: &Event) -> Option<Outcome> {
        None
    }
    /// Whether observers hear of a change.
    fn tells(_change: &Change) -> bool {
        true
    }
}

struct Broken<F>(Arc<MemoryStore>, PhantomData<F>);

impl<F: Fault> Engine for Broken<F> {
    const HAS_BUDGET: bool = false;

    async fn open(options: Options) -> Self {
        Self(Arc::new(MemoryStore::open(options)), PhantomData)
    }

    fn store(&self) -> Arc<dyn EventStore> {
        Arc::new(Self(self.0.clone(), PhantomData))
    }
}

impl<F: Fault> EventStore for Broken<F> {
    fn insert_batch(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::new();
            for event in events {
                outcomes.push(match F::insert(&self.0, &event) {
                    Some(outcome) => outcome,
                    None => self.0.insert(event).await,
                });
            }
            outcomes
        })
    }
    fn contains(&self, ids: Vec<EventId>) -> BoxFuture<'_, Result<Vec<bool>, Error>> {
        self.0.contains(ids)
    }
    fn page(&self, mut query: Query) -> BoxFuture<'_, Result<Page, Error>> {
        let filters = query.filters.clone();
        query.filters = F::filters(filters.clone());
        Box::pin(async move {
            let mut page = F::page(self.0.page(F::query(query)).await?);
            if let Some(next) = &mut page.next {
                next.filters = filters;
            }
            Ok(page)
        })
    }
    fn count(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        self.0.count(F::filters(filters))
    }
    fn snapshot(&self, filters: Filters, max: usize) -> BoxFuture<'_, Result<Vec<Position>, Error>> {
        self.0.snapshot(F::filters(filters), max)
    }
    fn delete(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>> {
        self.0.delete(filters)
    }
    fn delete_id(&self, id: EventId) -> BoxFuture<'_, Result<bool, Error>> {
        self.0.delete_id(id)
    }
    fn delete_expired(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.0.delete_expired()
    }
    fn authors_missing_outbox(&self) -> BoxFuture<'_, Result<Vec<PublicKey>, Error>> {
        self.0.authors_missing_outbox()
    }
    fn stats(&self) -> BoxFuture<'_, Result<Stats, Error>> {
        self.0.stats()
    }
    fn observe(&self, observer: Observer) {
        self.0.observe(Arc::new(move |changes| {
            let told: Vec<Change> = changes
                .iter()
                .filter(|change| F::tells(change))
                .cloned()
                .collect();
            observer(&told);
        }));
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

fn each(filters: &Filters, change: impl Fn(&mut Filter)) -> Filters {
    let mut filters = filters.to_vec();
    filters.iter_mut().for_each(change);
    filters.into()
}

/// Runs the model on a fault until it shows. The history it is shown by has few steps, and reads so.
#[track_caller]
fn found<F: Fault>(words: &str) {
    let failure = block_on(run_model::<Broken<F>>(0..200, 80)).expect_err("the fault stays unseen");
    let text = failure.to_string();
    assert!(failure.steps() <= 8, "{text}");
    assert!(text.contains(words), "{text}");
    assert!(text.contains(&format!("seed {}", failure.seed())), "{text}");
}

struct Faultless;
impl Fault for Faultless {}

#[test]
fn an_engine_without_a_fault_passes() {
    block_on(run_model::<Broken<Faultless>>(0..30, 80)).expect("the wrapper itself is sound");
}

struct WrongTies;
impl Fault for WrongTies {
    fn page(mut page: Page) -> Page {
        let parse = |json: &Bytes| Event::from_canonical(json.clone()).expect("canonical JSON");
        page.events.sort_by(|a, b| {
            let (a, b) = (position(&parse(a)), position(&parse(b)));
            b.created_at.cmp(&a.created_at).then(b.id.cmp(&a.id))
        });
        page
    }
}

#[test]
fn a_wrong_order_at_equal_times_is_found() {
    found::<WrongTies>("query: the engine gives");
}

struct ForgottenD;
impl Fault for ForgottenD {
    fn insert(store: &MemoryStore, event: &Event) -> Option<Outcome> {
        Address::of(event)?;
        let same = Filter {
            kinds: Some([event.kind()].into_iter().collect()),
            authors: Some([event.pubkey()].into_iter().collect()),
            ..Filter::default()
        };
        let stored = block_on(store.snapshot([same.clone()].into(), 9)).expect("an open store");
        if stored.iter().any(|stored| *stored < position(event)) {
            return Some(Outcome::Replaced);
        }
        if !stored.contains(&position(event)) {
            block_on(store.delete([same].into())).expect("an open store");
        }
        None
    }
}

#[test]
fn a_forgotten_d_is_found() {
    found::<ForgottenD>("kind 30");
}

struct ExclusiveUntil;
impl Fault for ExclusiveUntil {
    fn filters(filters: Filters) -> Filters {
        each(&filters, |filter| {
            filter.until = filter.until.map(|until| until.saturating_sub(1));
        })
    }
}

#[test]
fn an_exclusive_until_is_found() {
    found::<ExclusiveUntil>("\"until\":");
}

struct EmptyListIsNone;
impl Fault for EmptyListIsNone {
    fn filters(filters: Filters) -> Filters {
        each(&filters, |filter| {
            filter.kinds = filter.kinds.take().filter(|kinds| !kinds.is_empty());
        })
    }
}

#[test]
fn an_empty_list_taken_for_none_is_found() {
    found::<EmptyListIsNone>("\"kinds\":[]");
}

struct SharedLimit;
impl Fault for SharedLimit {
    fn filters(filters: Filters) -> Filters {
        let limit = filters.iter().filter_map(|filter| filter.limit).min();
        each(&filters, |filter| filter.limit = limit)
    }
}

#[test]
fn a_shared_limit_is_found() {
    found::<SharedLimit>("\"limit\":");
}

struct MovingResult;
impl Fault for MovingResult {
    fn query(query: Query) -> Query {
        Query { as_of: None, ..query }
    }
}

#[test]
fn events_that_slip_into_later_pages_are_found() {
    found::<MovingResult>("of query");
}

struct SilentRemovals;
impl Fault for SilentRemovals {
    fn tells(change: &Change) -> bool {
        !matches!(change, Change::Removed(_))
    }
}

#[test]
fn removals_that_nobody_hears_of_are_found() {
    found::<SilentRemovals>("at the end: observer 0 saw");
}

struct Reviving;
impl Fault for Reviving {
    /// Forgets deletions that came before their target.
    fn insert(store: &MemoryStore, event: &Event) -> Option<Outcome> {
        let named = Filter {
            kinds: Some([5].into_iter().collect()),
            tags: vec![esker_nostr::TagCondition {
                name: 'e',
                values: [event.id().to_string().into_boxed_str()].into_iter().collect(),
            }],
            ..Filter::default()
        };
        block_on(store.delete([named].into())).expect("an open store");
        None
    }
}

#[test]
fn a_forgotten_deletion_is_found() {
    found::<Reviving>("kind 5");
}
