//! The store itself: one object-safe trait, its options, errors and figures.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use esker_nostr::{Event, EventId, PublicKey};

use crate::{Clock, Filters, Observer, Outcome, Page, Position, Query};

/// A boxed future, so that the trait is object safe and needs no runtime.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an event store is told when it is opened; every engine takes these.
#[derive(Debug, Clone)]
pub struct Options {
    /// The relay URL that vanish requests may name (STORE-D06); without one only `ALL_RELAYS` counts.
    pub relay_url: Option<String>,
    /// Whether an expired event is hidden before the sweep removes it (STORE-W05).
    pub hide_expired: bool,
    /// Whether a kind 5 reaches kind 5 and kind 62 events too (STORE-D05).
    pub revocable_deletions: bool,
    /// Where the time comes from.
    pub clock: Clock,
    /// How long one query may work in all, pauses between pages not counted (STORE-K05).
    pub query_budget: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            relay_url: None,
            hide_expired: false,
            revocable_deletions: false,
            clock: Clock::system(),
            query_budget: Duration::from_secs(5),
        }
    }
}

/// Why the store did not answer. What an event did wrong is an [`Outcome`], not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A query worked longer than its budget (STORE-K05); the text names the filter.
    #[error("the query took longer than {budget:?}: {filter}")]
    OverBudget {
        /// The time it was given.
        budget: Duration,
        /// The filter, as JSON.
        filter: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk is full: nothing was written, reads go on.
    #[error("the disk is full")]
    DiskFull,
    /// The engine failed; the driver's error is the source.
    #[error("{0}")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An event store (STORE-*). Handles are shared as `Arc<dyn EventStore>`.
///
/// Dropping a returned future never undoes what was submitted; it only loses the answer.
pub trait EventStore: Send + Sync + 'static {
    /// Inserts events in one transaction, a savepoint each (STORE-W08); outcomes are in input order.
    /// The events' signatures are the caller's to check.
    fn insert_batch(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Vec<Outcome>>;

    /// Inserts one event; it shares a durable commit with whatever else waits (STORE-W11).
    fn insert(&self, event: Arc<Event>) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.insert_batch(vec![event])
                .await
                .pop()
                .unwrap_or_else(|| Outcome::Failed("the store gave no outcome".into()))
        })
    }

    /// Which of these ids are stored, in input order: the duplicate check before a signature is verified.
    fn contains(&self, ids: Vec<EventId>) -> BoxFuture<'_, Result<Vec<bool>, Error>>;

    /// One page of a query's result; the page carries the query for the next (STORE-F07, F08).
    fn page(&self, query: Query) -> BoxFuture<'_, Result<Page, Error>>;

    /// The whole result of a query, in memory: canonical JSON, newest first.
    fn query(&self, filters: Filters) -> BoxFuture<'_, Result<Vec<Bytes>, Error>> {
        Box::pin(async move {
            let mut events = Vec::new();
            let mut next = Some(Query::new(filters));
            while let Some(query) = next {
                let page = self.page(query).await?;
                events.extend(page.events);
                next = page.next;
            }
            Ok(events)
        })
    }

    /// How many events the query would return, limits included, each once (STORE-C01).
    fn count(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>>;

    /// Position and id of what the query would return, newest first, at most `max + 1` (STORE-N01).
    fn snapshot(&self, filters: Filters, max: usize) -> BoxFuture<'_, Result<Vec<Position>, Error>>;

    /// Removes what the filters match, limits honoured, and tells how many (STORE-D08). What is stored counts,
    /// hidden or not. Removes nothing for a filter with no condition (STORE-F10): see [`Query::may_delete`].
    /// Blocks nothing.
    fn delete(&self, filters: Filters) -> BoxFuture<'_, Result<u64, Error>>;

    /// Removes one event and tells whether it was there (STORE-D08).
    fn delete_id(&self, id: EventId) -> BoxFuture<'_, Result<bool, Error>>;

    /// Removes what has expired by now (STORE-W05) and tells how many.
    fn delete_expired(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// Authors with an event and no kind 10002, gift wraps excluded, in key order (STORE-K03). What is stored
    /// counts, hidden or not.
    fn authors_missing_outbox(&self) -> BoxFuture<'_, Result<Vec<PublicKey>, Error>>;

    /// Figures cheap enough for a dashboard (STORE-K01), of what is stored, hidden or not.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, Error>>;

    /// Calls `observer` after each commit with what it changed, in commit order, one call at a time. It must be
    /// quick: the writer waits for it.
    fn observe(&self, observer: Observer);

    /// Ends the store: what was submitted is done, told to the observers and answered; later calls give
    /// [`Error::Closed`].
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Stored events.
    pub events: u64,
    /// Bytes of their canonical JSON.
    pub json_bytes: u64,
    /// Bytes on disk, where there is one.
    pub disk_bytes: u64,
    /// Per kind, in kind order.
    pub kinds: Vec<KindStats>,
    /// `created_at` of the oldest event.
    pub oldest: Option<i64>,
    /// `created_at` of the newest event.
    pub newest: Option<i64>,
}

/// One kind's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindStats {
    /// The kind.
    pub kind: u16,
    /// Stored events.
    pub events: u64,
    /// Bytes of their canonical JSON.
    pub json_bytes: u64,
}
