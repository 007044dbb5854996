//! An event that somebody sent, and its one answer, given even when whoever held it failed.

use std::sync::Arc;

use bytes::Bytes;
use esker_live::{Frame, Outbound};
use esker_nostr::{EventId, RelayMessage, event};
use tokio::sync::OwnedSemaphorePermit;

use crate::session::cut;

/// An event that somebody sent.
///
/// While it exists it holds a place among its connection's pending events, and its share of the intake. One
/// that is dropped without an answer gets one then: the relay's fault.
pub(crate) struct Offer {
    raw: Bytes,
    outbound: Arc<Outbound>,
    answered: bool,
    _pending: OwnedSemaphorePermit,
    /// Set by the intake.
    pub(super) place: Option<OwnedSemaphorePermit>,
}

impl Offer {
    /// An event as it was sent, and where its answer goes.
    pub(crate) fn new(raw: Bytes, outbound: Arc<Outbound>, pending: OwnedSemaphorePermit) -> Self {
        Self {
            raw,
            outbound,
            answered: false,
            _pending: pending,
            place: None,
        }
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Answers with `OK`.
    pub(super) fn answer(mut self, id: EventId, accepted: bool, message: &str) {
        self.say(&RelayMessage::Ok {
            id,
            accepted,
            message: cut(message),
        });
    }

    /// Answers what is no event: by `OK` if it has an id that can be read, else by `NOTICE` (RELAY-02).
    pub(super) fn refuse_malformed(mut self, reason: &str) {
        self.refuse(reason);
    }

    fn refuse(&mut self, reason: &str) {
        match event::peek_id(&self.raw) {
            Some(id) => self.say(&RelayMessage::Ok {
                id,
                accepted: false,
                message: cut(reason),
            }),
            None => self.say(&RelayMessage::Notice(cut(reason))),
        }
    }

    fn say(&mut self, message: &RelayMessage<'_>) {
        self.answered = true;
        self.outbound.push(Frame::Text(message.to_json()));
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.answered {
            self.refuse("error: the relay could not take this event");
        }
    }
}
