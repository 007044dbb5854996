//! What a commit changed, as followers see it: the accepted events in order, and the removals.

use std::sync::Arc;

use bytes::Bytes;
use esker_nostr::Event;

/// An accepted event and its place on the accepted-events stream.
#[derive(Clone)]
pub struct Accepted {
    /// Its offset: strictly increasing in commit order, never reused. `None` for an ephemeral event, which is
    /// not stored and so never part of a query's result.
    pub offset: Option<i64>,
    /// The event.
    pub event: Arc<Event>,
}

/// One change of a commit. What an event removes comes before the event itself, in no particular order, so that
/// whoever keeps a view never holds two versions at one address.
#[derive(Clone)]
pub enum Change {
    /// An event was accepted.
    Accepted(Accepted),
    /// An event left the store: superseded, deleted, vanished or expired. Its canonical JSON; each removal is told once.
    Removed(Bytes),
}

/// Called after each commit with what it changed, in commit order; see [`crate::EventStore::observe`].
pub type Observer = Arc<dyn Fn(&[Change]) + Send + Sync>;
