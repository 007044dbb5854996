//! One connection: reads, writes and queries side by side until one of them ends it.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use esker_live::{Closing, Frame, Outbound, OutboundLimits};
use esker_nostr::RelayMessage;
use tokio::time::timeout;

use crate::{
    relay::{Phase, Relay},
    session::Session,
    transport::{Incoming, Sink, Source, SourceError},
};

/// How much is taken from the outgoing buffer for one write.
const BATCH_BYTES: usize = 128 << 10;

/// Serves a connection until it has ended.
///
/// The three directions are one task, so that the end of one is the end of all, and an idle connection costs
/// one small allocation.
pub(crate) async fn run(relay: Arc<Relay>, mut source: impl Source, mut sink: impl Sink) {
    let limits = OutboundLimits {
        bytes: relay.limits.outbound_bytes,
        frames: relay.limits.outbound_frames,
    };
    let outbound = Outbound::new(limits).counting(Arc::clone(relay.dispatcher.counters()));
    let session = Session::new(Arc::clone(&relay), Arc::new(outbound));
    let is_open = tokio::select! {
        is_open = converse(&relay, &session, &mut source, &mut sink) => is_open,
        () = relay.reached(Phase::Ended) => false,
    };
    drop(session);
    if is_open {
        // An error is a peer that does not answer the Close in time; it has had its chance.
        let _ = timeout(relay.limits.close_timeout(), source.exhaust()).await;
    }
}

/// `true` when goodbye was said, `false` when there is nobody to say it to.
async fn converse(relay: &Relay, session: &Session, source: &mut impl Source, sink: &mut impl Sink) -> bool {
    let writing = write(relay, session.outbound(), sink);
    let mut writing = std::pin::pin!(writing);
    tokio::select! {
        heard = read(relay, session, source) => match heard {
            Heard::Nobody => false,
            // What waits is still sent, then the close frame.
            Heard::Enough => writing.await,
        },
        is_open = &mut writing => is_open,
        never = session.answer_queries() => match never {},
    }
}

/// Why reading ended.
enum Heard {
    /// The peer is gone.
    Nobody,
    /// The outgoing buffer was closed; its writer knows the rest.
    Enough,
}

async fn read(relay: &Relay, session: &Session, source: &mut impl Source) -> Heard {
    let outbound = session.outbound();
    let mut draining = std::pin::pin!(relay.reached(Phase::Draining));
    let mut silent_for = Duration::ZERO;
    loop {
        let next = tokio::select! {
            biased;
            () = &mut draining => {
                session.end();
                session.settled().await;
                outbound.close(1001, "the relay is going away");
                return Heard::Enough;
            }
            next = timeout(relay.limits.ping_interval(), source.next()) => next,
        };
        let Ok(next) = next else {
            silent_for += relay.limits.ping_interval();
            if silent_for >= relay.limits.idle_timeout() {
                relay.counters.idle.increment();
                outbound.abort(1008, "nothing was heard for too long");
                return Heard::Enough;
            }
            outbound.push(Frame::Ping(Bytes::new()));
            continue;
        };
        silent_for = Duration::ZERO;
        match next {
            Ok(Incoming::Text(text)) => session.take(&text).await,
            Ok(Incoming::Binary) => session.refuse_binary().await,
            Ok(Incoming::Ping(payload)) => {
                outbound.push(Frame::Pong(payload));
            }
            Ok(Incoming::Pong) => {}
            Ok(Incoming::Close(code)) => {
                // Whoever leaves wants nothing more; the code goes back as RFC 6455 says.
                outbound.abort(code.unwrap_or(1000), "");
                return Heard::Enough;
            }
            Err(SourceError::Gone) => return Heard::Nobody,
            Err(SourceError::Violation { code, reason }) => {
                relay.counters.violations.increment();
                if code == 1009 {
                    let max = relay.limits.message_bytes;
                    let notice = format!("invalid: a message may have at most {max} bytes");
                    outbound.push(Frame::Text(RelayMessage::Notice(&notice).to_json()));
                }
                outbound.close(code, reason);
                return Heard::Enough;
            }
        }
    }
}

/// Sends what waits until the close frame is sent (`true`) or the peer takes nothing more (`false`).
async fn write(relay: &Relay, outbound: &Outbound, sink: &mut impl Sink) -> bool {
    let closing = loop {
        let mut batch = Vec::new();
        match outbound.next(&mut batch, BATCH_BYTES).await {
            Ok(()) => {}
            Err(closing) => break closing,
        }
        relay.counters.frames_sent.add(batch.len() as u64);
        let sending = sink.send(&mut batch);
        let mut sending = std::pin::pin!(sending);
        let sent = tokio::select! {
            sent = &mut sending => sent,
            // What waited behind this was dropped; the frame that is under way still has to be whole before a
            // close frame can follow it.
            () = outbound.aborted() => timeout(relay.limits.close_timeout(), sending)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        if let Err(error) = sent {
            if error.kind() == io::ErrorKind::TimedOut {
                relay.counters.stalled.increment();
            }
            outbound.abort(1008, "nothing was taken for too long");
            return false;
        }
    };
    let Closing { code, reason } = closing;
    matches!(
        timeout(relay.limits.close_timeout(), sink.close(code, &reason)).await,
        Ok(Ok(()))
    )
}
