//! What carries messages between a peer and its session: a source of what the peer sends, a sink for what it gets.
//!
//! Sessions know these two traits and nothing of sockets or frames; [`websocket`] is the one implementation.

pub(crate) mod websocket;

use std::{future::Future, io};

use bytes::Bytes;
use esker_live::Frame;

/// What came from the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A text message, valid UTF-8, within the size limit.
    Text(Bytes),
    /// A binary message; what it held is dropped.
    Binary,
    /// A ping, to be answered with the same payload.
    Ping(Bytes),
    /// An answer to a ping of ours.
    Pong,
    /// The peer is closing, with this code.
    Close(Option<u16>),
}

/// Why nothing more comes from the peer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// The peer went away without a word.
    #[error("the peer is gone")]
    Gone,
    /// The peer broke the transport's rules; it is told so with this close code.
    #[error("{reason}")]
    Violation {
        /// The close code.
        code: u16,
        /// The reason, for people.
        reason: &'static str,
    },
}

/// What a peer sends.
pub(crate) trait Source: Send {
    /// The next message or control frame. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Incoming, SourceError>> + Send;

    /// Reads and drops whatever still comes, until the peer closes: a socket closed with bytes unread resets
    /// the connection, and the peer may never see our last words.
    fn exhaust(&mut self) -> impl Future<Output = ()> + Send;
}

/// What a peer gets. Each call ends with an error when the peer takes nothing for the stall timeout.
pub(crate) trait Sink: Send {
    /// Sends these frames in order, in as few writes as they fit, and empties the list.
    fn send(&mut self, frames: &mut Vec<Frame>) -> impl Future<Output = io::Result<()>> + Send;
    /// Says goodbye and ends the sending direction.
    fn close(&mut self, code: u16, reason: &str) -> impl Future<Output = io::Result<()>> + Send;
}
