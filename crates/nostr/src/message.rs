//! Messages between client and relay (NIP-01, 42, 45, 77): parsing what comes, writing what goes.

use std::borrow::Cow;

use crate::{escape::quoted, event::EventId, filter::Filter};

mod parse;

/// How many characters a subscription id has at most (RELAY-03): 256 bytes at the very most.
pub const MAX_ID_CHARACTERS: usize = 64;

/// How many filters one message may carry.
pub const MAX_FILTERS: usize = 256;

/// What a client sent. Event bodies stay raw: they are parsed where they are checked, not where they arrive.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ClientMessage<'a> {
    /// `["EVENT", <event>]`: the event's bytes, not yet looked at beyond their extent.
    Event(&'a [u8]),
    /// `["REQ", <id>, <filter>, …]`.
    Req {
        /// The subscription id.
        id: Cow<'a, str>,
        /// At least one.
        filters: Vec<Filter>,
    },
    /// `["COUNT", <id>, <filter>, …]` (NIP-45).
    Count {
        /// The query id.
        id: Cow<'a, str>,
        /// At least one.
        filters: Vec<Filter>,
    },
    /// `["CLOSE", <id>]`.
    Close(Cow<'a, str>),
    /// `["AUTH", <event>]` (NIP-42).
    Auth(&'a [u8]),
    /// `["NEG-OPEN", <id>, <filter>, <message>]` (NIP-77).
    NegOpen {
        /// The session id.
        id: Cow<'a, str>,
        /// What is reconciled.
        filter: Box<Filter>,
        /// The first message, hex.
        message: &'a str,
    },
    /// `["NEG-MSG", <id>, <message>]`.
    NegMsg {
        /// The session id.
        id: Cow<'a, str>,
        /// The message, hex.
        message: &'a str,
    },
    /// `["NEG-CLOSE", <id>]`.
    NegClose(Cow<'a, str>),
}

/// Why a message was not understood, and whom the answer names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct MessageError {
    /// The text for people, with its `invalid:` or `unsupported:` prefix.
    pub reason: String,
    /// What the message was about, so that the refusal can carry its id.
    pub subject: Subject,
}

/// What a refused message was about, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that carries an id: answered by NOTICE.
    None,
    /// An EVENT or AUTH with this event: answered by OK (RELAY-02).
    Event(EventId),
    /// A REQ or COUNT with this id, cut to [`MAX_ID_CHARACTERS`]: answered by CLOSED.
    Subscription(String),
    /// A negentropy session with this id, cut likewise: answered by NEG-ERR.
    Negentropy(String),
}

/// What the relay answers; [`RelayMessage::to_json`] writes it. Live and stored events do not pass through
/// here: their body is a shared slice (see [`event_head`]).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayMessage<'a> {
    /// `["OK", <id>, <accepted>, <text>]`.
    Ok {
        /// The event.
        id: EventId,
        /// Whether it is kept or was before.
        accepted: bool,
        /// Empty, or prefix and text.
        message: &'a str,
    },
    /// `["EOSE", <id>]`.
    Eose(&'a str),
    /// `["CLOSED", <id>, <text>]`.
    Closed(&'a str, &'a str),
    /// `["NOTICE", <text>]`.
    Notice(&'a str),
    /// `["COUNT", <id>, {"count": n}]`.
    Count(&'a str, u64),
    /// `["NEG-MSG", <id>, <message>]`, the message in hex.
    NegMsg(&'a str, &'a str),
    /// `["NEG-ERR", <id>, <text>]`.
    NegErr(&'a str, &'a str),
    /// `["AUTH", <challenge>]`.
    Auth(&'a str),
}

impl RelayMessage<'_> {
    /// The message as one line of JSON, whatever characters its texts hold.
    pub fn to_json(&self) -> String {
        match self {
            Self::Ok {
                id,
                accepted,
                message,
            } => format!("[\"OK\",\"{id}\",{accepted},{}]", quoted(message)),
            Self::Eose(id) => format!("[\"EOSE\",{}]", quoted(id)),
            Self::Closed(id, text) => format!("[\"CLOSED\",{},{}]", quoted(id), quoted(text)),
            Self::Notice(text) => format!("[\"NOTICE\",{}]", quoted(text)),
            Self::Count(id, count) => format!("[\"COUNT\",{},{{\"count\":{count}}}]", quoted(id)),
            Self::NegMsg(id, message) => format!("[\"NEG-MSG\",{},{}]", quoted(id), quoted(message)),
            Self::NegErr(id, text) => format!("[\"NEG-ERR\",{},{}]", quoted(id), quoted(text)),
            Self::Auth(challenge) => format!("[\"AUTH\",{}]", quoted(challenge)),
        }
    }
}

/// What stands before the event's canonical JSON in `["EVENT",<id>,<event>]`; `]` follows it.
pub fn event_head(subscription: &str) -> String {
    format!("[\"EVENT\",{},", quoted(subscription))
}

#[cfg(test)]
mod tests;
