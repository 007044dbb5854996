//! What goes out on a connection: text and control frames, an event's body shared by all who get it.

use std::sync::Arc;

use bytes::Bytes;
use esker_nostr::message::event_head;

/// One frame to send. A close frame is none of these: see [`crate::Closing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// `["EVENT",<id>,<event>]` in the parts of [`Frame::parts`]: the subscription's short head, and the
    /// event's canonical JSON, which all its receivers share (LIVE-11).
    Event {
        /// What [`event_head`] gave, once per subscription.
        head: Arc<str>,
        /// The event's canonical JSON.
        body: Bytes,
    },
    /// Any other text message.
    Text(String),
    /// A ping with this payload.
    Ping(Bytes),
    /// A pong with this payload.
    Pong(Bytes),
}

impl Frame {
    /// The head that all events of a subscription share.
    pub fn head(subscription: &str) -> Arc<str> {
        event_head(subscription).into()
    }

    /// The payload in order, not copied: head, body and tail of an event, one part of anything else.
    pub fn parts(&self) -> [&[u8]; 3] {
        match self {
            Self::Event { head, body } => [head.as_bytes(), body, b"]"],
            Self::Text(text) => [text.as_bytes(), b"", b""],
            Self::Ping(payload) | Self::Pong(payload) => [payload, b"", b""],
        }
    }

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
