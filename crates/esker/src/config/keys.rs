//! The configuration keys: the one table that help, `esker config` and the reference are made from.

use std::net::ToSocketAddrs as _;

/// One key of the configuration.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name: the section, a dot, and the name in it; or the bare name.
    pub(crate) name: &'static str,
    /// What values it takes.
    pub(crate) kind: Kind,
    /// What it is when nothing sets it.
    pub(crate) default: Default,
    /// What it means, with its unit.
    pub(crate) doc: &'static str,
}

/// What values a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Text that passes a check.
    Text(fn(&str) -> Result<(), String>),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range, inclusive.
    Integer(i64, i64),
    /// `true` or `false`.
    Bool,
}

/// A default value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    /// For texts and choices; an empty text is one that is not set.
    Text(&'static str),
    /// For whole numbers.
    Integer(i64),
    /// For `true` or `false`.
    Bool(bool),
}

const fn text(
    name: &'static str,
    default: &'static str,
    check: fn(&str) -> Result<(), String>,
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind: Kind::Text(check),
        default: Default::Text(default),
        doc,
    }
}

const fn choice(
    name: &'static str,
    default: &'static str,
    choices: &'static [&'static str],
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind: Kind::Choice(choices),
        default: Default::Text(default),
        doc,
    }
}

const fn integer(name: &'static str, default: i64, range: (i64, i64), doc: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Integer(range.0, range.1),
        default: Default::Integer(default),
        doc,
    }
}

const fn bool(name: &'static str, default: bool, doc: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Bool,
        default: Default::Bool(default),
        doc,
    }
}

const U32: i64 = 0xFFFF_FFFF;
const DAY_MS: i64 = 86_400_000;

/// Every key, in the order in which they are shown.
pub(crate) const KEYS: &[Key] = &[
    text(
        "store",
        "sqlite:esker.db",
        store,
        "Where everything is kept: `sqlite:PATH`, in which `%20` is a space, or a path as it is. `memory:` keeps events until the process ends; \
         `postgres://HOST/DATABASE` keeps queues, streams, locks and schedules, but no events.",
    ),
    text(
        "listen",
        "127.0.0.1:7447",
        address,
        "The address and port that `serve` listens on; port 0 takes a free one.",
    ),
    text(
        "relay.url",
        "",
        websocket_url,
        "The public URL of the relay, such as `wss://relay.example.com`: vanish requests name it (NIP-62).",
    ),
    text(
        "relay.name",
        "Esker",
        any,
        "The relay's name in its information document (NIP-11).",
    ),
    text(
        "relay.description",
        "A Nostr relay.",
        any,
        "What the relay is for, in a sentence or two.",
    ),
    text(
        "relay.pubkey",
        "",
        public_key,
        "The operator's public key, 64 hexadecimal digits.",
    ),
    text(
        "relay.contact",
        "",
        any,
        "How to reach the operator, such as `mailto:admin@example.com`.",
    ),
    text("relay.icon", "", any, "The URL of a square picture."),
    text("relay.banner", "", any, "The URL of a wide picture."),
    text(
        "relay.posting_policy",
        "",
        any,
        "The URL of the rules for what may be posted.",
    ),
    text(
        "relay.terms_of_service",
        "",
        any,
        "The URL of the terms of service.",
    ),
    text("relay.privacy_policy", "", any, "The URL of the privacy policy."),
    bool(
        "events.hide_expired",
        true,
        "Hide expired events from the second they expire, before they are swept away (NIP-40).",
    ),
    bool(
        "events.revocable_deletions",
        false,
        "Let a deletion request undo another deletion request; NIP-09 says no.",
    ),
    integer(
        "events.query_secs",
        5,
        (1, 3600),
        "How long one query may work in all, in seconds; pauses for a slow reader not counted.",
    ),
    choice(
        "sqlite.durability",
        "full",
        &["full", "normal"],
        "When an event counts as stored: `full` once it is flushed to the disk; `normal` once the system has it, so that a power cut can lose the newest.",
    ),
    integer(
        "sqlite.readers",
        0,
        (0, 256),
        "Threads that read; 0 stands for one per core, two at least.",
    ),
    integer(
        "sqlite.reader_cache_kib",
        64_000,
        (256, 16_000_000),
        "Page cache of each reader, in KiB.",
    ),
    integer(
        "sqlite.writer_cache_kib",
        16_000,
        (256, 16_000_000),
        "Page cache of the writer, in KiB.",
    ),
    integer(
        "sqlite.wal_bytes",
        40 << 20,
        (1 << 20, 1 << 34),
        "Size of the write-ahead log, in bytes, at which it is checkpointed.",
    ),
    bool(
        "sqlite.inotify",
        true,
        "Learn of other processes' commits by inotify; `false` on a file system that does not tell of them, which is then looked at every 2 ms.",
    ),
    integer(
        "sqlite.max_bytes",
        0,
        (0, 1 << 43),
        "Bytes that the file may grow to, then nothing more is stored; 0 stands for no bound.",
    ),
    integer(
        "sqlite.waiting_tag_rows",
        200_000,
        (0, 10_000_000),
        "Rows of the tag index that may wait in memory before they are written, some 60 bytes each.",
    ),
    integer(
        "limits.connections",
        20_000,
        (1, 1_000_000),
        "Connections at one moment; more are turned away with HTTP status 503.",
    ),
    integer(
        "limits.connections_per_ip",
        20_000,
        (1, 1_000_000),
        "Connections of one IP address at one moment; behind a proxy all are of one. More are turned away with HTTP status 429.",
    ),
    integer(
        "limits.message_bytes",
        1 << 20,
        (1 << 10, 1 << 28),
        "Bytes of one message from a client, on the wire and inflated; a longer one ends the connection.",
    ),
    integer(
        "limits.event_bytes",
        1 << 19,
        (1 << 9, 1 << 28),
        "Bytes of one event as it is sent.",
    ),
    integer("limits.event_tags", 10_000, (0, 1_000_000), "Tags of one event."),
    integer(
        "limits.created_at_ahead_secs",
        900,
        (0, U32),
        "How far ahead of the relay's clock an event's time may be, in seconds.",
    ),
    integer(
        "limits.subscriptions",
        300,
        (1, 1_000_000),
        "Subscriptions of one connection at one moment.",
    ),
    integer(
        "limits.counts",
        20,
        (1, 100_000),
        "Counts of one connection that wait at one moment.",
    ),
    integer(
        "limits.filters",
        100,
        (1, 100_000),
        "Filters of one REQ or COUNT.",
    ),
    integer(
        "limits.filter_values",
        20_000,
        (1, 10_000_000),
        "Values in all lists of the filters of one REQ or COUNT together.",
    ),
    integer(
        "limits.subscription_bytes",
        4 << 20,
        (1 << 10, 1 << 30),
        "Bytes of the filters of all subscriptions that one connection has open, as they are held.",
    ),
    integer(
        "limits.limit_max",
        5_000,
        (1, 10_000_000),
        "The largest `limit` of a filter in a REQ; a larger one is clamped.",
    ),
    integer(
        "limits.limit_default",
        500,
        (1, 10_000_000),
        "The `limit` of a filter in a REQ that has none; never of a COUNT.",
    ),
    integer(
        "limits.pending_events",
        1_000,
        (1, 1_000_000),
        "Events of one connection that may wait for their OK; then the relay stops reading from it.",
    ),
    integer(
        "limits.intake_bytes",
        64 << 20,
        (1 << 20, U32),
        "Bytes of all events that wait for their OK, on all connections together; then the relay stops reading events. An event counts as 1 KiB at least.",
    ),
    integer(
        "limits.verify_threads",
        0,
        (0, 256),
        "Threads that check signatures; 0 stands for one per core.",
    ),
    integer(
        "limits.query_slice_ms",
        10,
        (1, 10_000),
        "Working time of one turn of a query, in milliseconds; then it is the turn of others.",
    ),
    integer(
        "limits.outbound_bytes",
        4 << 20,
        (1 << 16, 1 << 30),
        "Bytes that may wait for one connection to take them.",
    ),
    integer(
        "limits.outbound_frames",
        20_000,
        (1, 10_000_000),
        "Frames that may wait for one connection to take them.",
    ),
    integer(
        "limits.stall_timeout_ms",
        30_000,
        (100, DAY_MS),
        "How long a client may take nothing while data waits for it, in milliseconds; then it is disconnected.",
    ),
    integer(
        "limits.ping_interval_ms",
        50_000,
        (100, DAY_MS),
        "After so much silence a client is pinged, in milliseconds.",
    ),
    integer(
        "limits.idle_timeout_ms",
        120_000,
        (100, DAY_MS),
        "After so much silence a client is disconnected, in milliseconds.",
    ),
    integer(
        "limits.request_timeout_ms",
        10_000,
        (100, DAY_MS),
        "How long a client may take to send the head of an HTTP request, in milliseconds.",
    ),
    integer(
        "limits.close_timeout_ms",
        2_000,
        (1, DAY_MS),
        "How long a client may take to answer the relay's Close, in milliseconds.",
    ),
    integer(
        "limits.drain_timeout_ms",
        9_000,
        (1, DAY_MS),
        "How long connections may take to end when the relay does, in milliseconds.",
    ),
    integer(
        "limits.request_head_bytes",
        16 << 10,
        (8 << 10, 1 << 20),
        "Bytes of the head of an HTTP request.",
    ),
    integer(
        "limits.deflate_from_bytes",
        512,
        (0, 1 << 30),
        "Messages of at least so many bytes are compressed for clients that offer it.",
    ),
    integer(
        "limits.expiry_sweep_secs",
        60,
        (1, 86_400),
        "How often expired events are removed, in seconds (NIP-40).",
    ),
    choice(
        "log.format",
        "text",
        &["text", "json"],
        "How logs are written to standard error.",
    ),
    text(
        "log.level",
        "info",
        crate::logging::check,
        "What is logged: `error`, `warn`, `info`, `debug`, `trace`, or levels per module as in `warn,esker_relay=debug`.",
    ),
];

/// The key of a name.
pub(crate) fn find(name: &str) -> Option<(usize, &'static Key)> {
    KEYS.iter().enumerate().find(|(_, key)| key.name == name)
}

/// The valid name that a mistyped one is nearest to, if any is near: a third of it may be wrong.
pub(crate) fn nearest(name: &str, valid: impl Iterator<Item = String>) -> Option<String> {
    valid
        .map(|candidate| (strsim::damerau_levenshtein(name, &candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 3)
        .map(|(_, candidate)| candidate)
}

impl Key {
    /// The section, empty for keys above all sections, and the name in it.
    pub(crate) fn section_and_name(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("ESKER_{}", self.name.replace('.', "_").to_uppercase())
    }
}

impl Kind {
    /// What may be written, for people.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Text(_) => "text".into(),
            Self::Choice(choices) => choices
                .iter()
                .map(|choice| format!("`{choice}`"))
                .collect::<Vec<_>>()
                .join(" or "),
            Self::Integer(min, i64::MAX) => format!("a whole number from {min}"),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Bool => "`true` or `false`".into(),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for all checks")]
fn any(_value: &str) -> Result<(), String> {
    Ok(())
}

fn store(value: &str) -> Result<(), String> {
    crate::store::location(value).map(|_| ())
}

fn address(value: &str) -> Result<(), String> {
    value
        .to_socket_addrs()
        .map(|_| ())
        .map_err(|_| "it is not an address with a port, such as `127.0.0.1:7447`".into())
}

fn websocket_url(value: &str) -> Result<(), String> {
    let host = value
        .strip_prefix("wss://")
        .or_else(|| value.strip_prefix("ws://"));
    match host {
        _ if value.is_empty() => Ok(()),
        Some(host) if !host.is_empty() && !host.contains(char::is_whitespace) => Ok(()),
        _ => Err("it is not a URL that begins with `wss://` or `ws://`".into()),
    }
}

fn public_key(value: &str) -> Result<(), String> {
    let hex = value
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if value.is_empty() || (value.len() == 64 && hex) {
        Ok(())
    } else {
        Err("it is not 64 lowercase hexadecimal digits".into())
    }
}
