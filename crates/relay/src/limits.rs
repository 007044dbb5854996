//! Every bound of the relay, by name: what it is, its unit, its default.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the HTTP server needs.
const REQUEST_HEAD_MIN: u64 = 8 << 10;

/// The bounds of a relay. Reaching one has a defined answer, and is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at one moment. More are turned away with HTTP status 503. Default 20,000.
    pub connections: u32,
    /// Connections of one IP address at one moment; behind a proxy all are of one. More are turned away with
    /// status 429. Default 20,000.
    pub connections_per_ip: u32,
    /// Bytes of one message from a client, on the wire and inflated. A longer one ends the connection with close
    /// code 1009 before it is read. Default 1 MiB.
    pub message_bytes: usize,
    /// Bytes of one event as it is sent. Default 512 KiB.
    pub event_bytes: usize,
    /// Tags of one event. Default 10,000.
    pub event_tags: usize,
    /// How far ahead of the relay's clock an event's `created_at` may be, in seconds. Default 900.
    pub created_at_ahead_secs: u32,
    /// Subscriptions of one connection at one moment. Default 300.
    pub subscriptions: usize,
    /// Counts of one connection that wait at one moment. Default 20.
    pub counts: usize,
    /// Filters of one REQ or COUNT. Default 100.
    pub filters: usize,
    /// Values in all lists of one REQ's or COUNT's filters together. Default 20,000.
    pub filter_values: usize,
    /// The largest `limit` of a filter in a REQ: a larger one is clamped. Default 5,000.
    pub limit_max: u64,
    /// The `limit` of a filter in a REQ that has none; never of a COUNT. Default 500.
    pub limit_default: u64,
    /// Bytes of the filters of all subscriptions that one connection has open, as they are held. Default 4 MiB.
    pub subscription_bytes: usize,
    /// Events of one connection that may wait for their OK; then the relay stops reading from it. Default 1,000.
    pub pending_events: u32,
    /// Bytes of all events that wait for their OK, on all connections together; then the relay stops reading
    /// events. An event counts as 1 KiB at least. Default 64 MiB.
    pub intake_bytes: u32,
    /// Threads that check signatures; 0 stands for one per core. Default 0.
    pub verify_threads: usize,
    /// Working time of one turn of a query, in milliseconds: then it is the turn of others. Default 10.
    pub query_slice_ms: u64,
    /// Bytes that may wait for one connection to take them. Default 4 MiB.
    pub outbound_bytes: usize,
    /// Frames that may wait for one connection to take them. Default 20,000.
    pub outbound_frames: usize,
    /// How long a client may take nothing while data waits for it, in milliseconds; then it is disconnected.
    /// Default 30,000.
    pub stall_timeout_ms: u64,
    /// After so much silence a client is pinged, in milliseconds. Default 50,000.
    pub ping_interval_ms: u64,
    /// After so much silence a client is disconnected, in milliseconds. Default 120,000.
    pub idle_timeout_ms: u64,
    /// How long a client may take to send the head of an HTTP request, in milliseconds. Default 10,000.
    pub request_timeout_ms: u64,
    /// How long a peer may take to answer the relay's Close, in milliseconds. Default 2,000.
    pub close_timeout_ms: u64,
    /// How long connections may take to end when the relay does, in milliseconds. Default 9,000.
    pub drain_timeout_ms: u64,
    /// Bytes of the head of an HTTP request, 8 KiB at least. Default 16 KiB.
    pub request_head_bytes: usize,
    /// Messages of at least so many bytes are deflated for clients that offer it. Default 512.
    pub deflate_from_bytes: usize,
    /// How often expired events are removed (NIP-40), in seconds. Default 60.
    pub expiry_sweep_secs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_ip: 20_000,
            message_bytes: 1 << 20,
            event_bytes: 1 << 19,
            event_tags: 10_000,
            created_at_ahead_secs: 900,
            subscriptions: 300,
            counts: 20,
            filters: 100,
            filter_values: 20_000,
            subscription_bytes: 4 << 20,
            limit_max: 5_000,
            limit_default: 500,
            pending_events: 1_000,
            intake_bytes: 64 << 20,
            verify_threads: 0,
            query_slice_ms: 10,
            outbound_bytes: 4 << 20,
            outbound_frames: 20_000,
            stall_timeout_ms: 30_000,
            ping_interval_ms: 50_000,
            idle_timeout_ms: 120_000,
            request_timeout_ms: 10_000,
            close_timeout_ms: 2_000,
            drain_timeout_ms: 9_000,
            request_head_bytes: 16 << 10,
            deflate_from_bytes: 512,
            expiry_sweep_secs: 60,
        }
    }
}

impl Limits {
    /// The first limit that is too small for a relay to work, and the least that it may be.
    pub(crate) fn too_small(&self) -> Option<(&'static str, u64)> {
        [
            ("message_bytes", 1, self.message_bytes as u64),
            ("pending_events", 1, self.pending_events.into()),
            ("intake_bytes", 1, self.intake_bytes.into()),
            ("outbound_bytes", 1, self.outbound_bytes as u64),
            ("outbound_frames", 1, self.outbound_frames as u64),
            ("stall_timeout_ms", 1, self.stall_timeout_ms),
            ("ping_interval_ms", 1, self.ping_interval_ms),
            ("idle_timeout_ms", 1, self.idle_timeout_ms),
            ("request_timeout_ms", 1, self.request_timeout_ms),
            (
                "request_head_bytes",
                REQUEST_HEAD_MIN,
                self.request_head_bytes as u64,
            ),
            ("expiry_sweep_secs", 1, self.expiry_sweep_secs),
        ]
        .into_iter()
        .find_map(|(name, least, value)| (value < least).then_some((name, least)))
    }

    /// Threads that check signatures.
    pub(crate) fn verify_threads(&self) -> usize {
        match self.verify_threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }

    pub(crate) fn stall_timeout(&self) -> Duration {
        Duration::from_millis(self.stall_timeout_ms)
    }

    pub(crate) fn ping_interval(&self) -> Duration {
        Duration::from_millis(self.ping_interval_ms)
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) fn close_timeout(&self) -> Duration {
        Duration::from_millis(self.close_timeout_ms)
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}
