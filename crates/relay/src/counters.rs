//! What the relay counts: plain numbers that only grow, and a few that say how much there is now.

use std::sync::atomic::{AtomicU64, Ordering};

/// One figure.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The figure now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why an event was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// It is not an event, or its id is not its hash.
    Malformed,
    /// Its signature is wrong.
    Signature,
    /// It is too long.
    Size,
    /// It has too many tags.
    Tags,
    /// Its `created_at` is too far ahead.
    Future,
    /// It is of a kind that is never stored.
    Kind,
    /// It had expired on arrival.
    Expired,
    /// Its owner deleted it.
    Deleted,
    /// Its owner has vanished.
    Vanished,
    /// Another reason of the store.
    Other,
}

impl Refusal {
    /// All reasons, in order.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Signature,
        Self::Size,
        Self::Tags,
        Self::Future,
        Self::Kind,
        Self::Expired,
        Self::Deleted,
        Self::Vanished,
        Self::Other,
    ];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Signature => "signature",
            Self::Size => "size",
            Self::Tags => "tags",
            Self::Future => "future",
            Self::Kind => "kind",
            Self::Expired => "expired",
            Self::Deleted => "deleted",
            Self::Vanished => "vanished",
            Self::Other => "other",
        }
    }
}

/// The figures of one relay.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that are open now, of whatever protocol.
    pub connections_open: Counter,
    /// Connections that were accepted.
    pub connections: Counter,
    /// Connections turned away: too many in all.
    pub connections_over_total: Counter,
    /// Connections turned away: too many of one address.
    pub connections_over_ip: Counter,
    /// Times that no connection could be accepted: no descriptors left, most likely.
    pub accept_errors: Counter,
    /// WebSocket connections that are open now.
    pub sessions_open: Counter,
    /// Messages from clients.
    pub messages: Counter,
    /// Messages that were not understood, or refused whole.
    pub messages_refused: Counter,
    /// Connections ended because the client broke the protocol, an over-long message included.
    pub violations: Counter,
    /// Connections ended because the client took nothing for too long.
    pub stalled: Counter,
    /// Connections ended because nothing was heard from the client.
    pub idle: Counter,
    /// Frames sent, pings and pongs among them.
    pub frames_sent: Counter,
    /// Events offered.
    pub events: Counter,
    /// Events stored.
    pub events_stored: Counter,
    /// Ephemeral events accepted.
    pub events_ephemeral: Counter,
    /// Events that were here already.
    pub events_duplicate: Counter,
    /// Events that a newer version beat.
    pub events_replaced: Counter,
    /// Events that the store failed to keep.
    pub events_failed: Counter,
    /// Signatures checked.
    pub verifications: Counter,
    /// Subscriptions that are open now.
    pub subscriptions_open: Counter,
    /// REQs answered or being answered.
    pub queries: Counter,
    /// Pages read for them.
    pub pages: Counter,
    /// COUNTs answered or being answered.
    pub counts: Counter,
    /// Queries and counts that the store did not answer.
    pub queries_failed: Counter,
    /// Events removed because they had expired.
    pub expired: Counter,
    refused: [Counter; Refusal::ALL.len()],
}

impl Counters {
    /// Events refused for this reason.
    pub fn refused(&self, reason: Refusal) -> &Counter {
        &self.refused[reason as usize]
    }

    /// Events refused, for whatever reason.
    pub fn refused_in_all(&self) -> u64 {
        self.refused.iter().map(Counter::get).sum()
    }
}
