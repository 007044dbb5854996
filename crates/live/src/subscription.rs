//! One `REQ` of one connection: the gate where its stored and its live events meet (LIVE-10).

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use esker_events_api::Accepted;
use esker_nostr::RelayMessage;

use crate::{Frame, Outbound, Sink};

/// What a `REQ` gets, each event once, whatever the timing.
///
/// Every event that is dispatched after the subscription is in force is its live part, whatever the query found:
/// a limit cuts what was stored, never what comes. Where the query was later than that, both may have an event. So
/// the offsets of those stored events are remembered that may still be dispatched, and of the two the second is
/// dropped. Offsets are dispatched in ascending order: with each event what is below it is forgotten.
///
/// - until [`stored_done`](Self::stored_done) live events are held;
/// - it sends `EOSE`, then what was held in order, then each as it comes.
///
/// The subscription must be registered with the dispatcher before its query begins. Held events count against
/// the limits of the connection's [`Outbound`].
pub struct Subscription {
    id: Box<str>,
    head: Arc<str>,
    outbound: Arc<Outbound>,
    gate: Mutex<Gate>,
}

struct Gate {
    phase: Phase,
    /// A successor waits to take its place: there are no more stored events, live ones go on.
    superseded: bool,
    /// Whose place it takes once it is in force, and what is called then.
    takes_over: Option<(Arc<Subscription>, InForce)>,
    /// Offsets of stored events that were sent and may be dispatched yet.
    sent: BTreeSet<i64>,
    /// The last offset that was dispatched before the subscription was in force, once it is.
    past: Option<i64>,
    held: Vec<Held>,
}

type InForce = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stored,
    Live,
    Cancelled,
}

struct Held {
    offset: Option<i64>,
    frame: Frame,
}

impl Subscription {
    /// A subscription that waits for its stored events.
    pub fn new(id: &str, outbound: Arc<Outbound>) -> Self {
        Self {
            id: id.into(),
            head: Frame::head(id),
            outbound,
            gate: Mutex::new(Gate {
                phase: Phase::Stored,
                superseded: false,
                takes_over: None,
                sent: BTreeSet::new(),
                past: None,
                held: Vec::new(),
            }),
        }
    }

    /// The id that the client chose.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The connection's buffer.
    pub fn outbound(&self) -> &Arc<Outbound> {
        &self.outbound
    }

    /// Makes it the successor of another of the same id, whose stored part ends here without an `EOSE`. The other's
    /// live events go on until everything that was committed before the successor's registration has been dispatched;
    /// then it gives way, and `then` is called, on the dispatcher's thread: it must be quick. From there on the
    /// successor's query may begin. Cancelling the successor cancels both.
    #[must_use]
    pub fn replacing(self, first: Arc<Self>, then: impl FnOnce() + Send + 'static) -> Self {
        first.lock().superseded = true;
        self.lock().takes_over = Some((first, Box::new(then)));
        self
    }

    /// Sends one page of stored events, each with its offset ([`esker_events_api::Page::offsets`]). `false` when nobody
    /// wants more of them: the query ends.
    pub fn stored(&self, events: impl IntoIterator<Item = (i64, Bytes)>) -> bool {
        let mut gate = self.lock();
        if gate.phase != Phase::Stored || gate.superseded {
            return false;
        }
        let Gate { sent, past, .. } = &mut *gate;
        let pushed = self.outbound.push_all(events.into_iter().map(|(offset, body)| {
            if past.is_none_or(|past| offset > past) {
                sent.insert(offset);
            }
            self.frame(body)
        }));
        if !pushed {
            self.end(&mut gate);
        }
        pushed
    }

    /// All stored events are sent: sends `EOSE`, then what was held, and is live from here on.
    pub fn stored_done(&self) -> bool {
        let mut gate = self.lock();
        if gate.phase != Phase::Stored || gate.superseded {
            return false;
        }
        if !self
            .outbound
            .push(Frame::Text(RelayMessage::Eose(&self.id).to_json()))
        {
            self.end(&mut gate);
            return false;
        }
        gate.phase = Phase::Live;
        self.send_held(&mut gate);
        true
    }

    /// Gives its place to its successor, which is in force: what is held is sent, and nothing after it.
    fn give_way(&self) {
        let mut gate = self.lock();
        self.send_held(&mut gate);
        self.end(&mut gate);
    }

    fn send_held(&self, gate: &mut Gate) {
        let held = std::mem::take(&mut gate.held);
        let (twice, held): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| gate.was_sent(held.offset));
        let (frames, bytes) = measure(twice.into_iter().map(|held| held.frame));
        self.outbound.release(frames, bytes);
        self.outbound.push_held(held.into_iter().map(|held| held.frame));
    }

    /// Ends the subscription: nothing of it is sent after this returns but what is queued already.
    pub fn cancel(&self) {
        self.end(&mut self.lock());
    }

    /// Whether its query is of no more use: it was cancelled or superseded, or its connection ended.
    pub fn is_cancelled(&self) -> bool {
        let gate = self.lock();
        gate.superseded || gate.phase == Phase::Cancelled
    }

    fn end(&self, gate: &mut Gate) {
        self.end_alone(gate);
        // One after the other, since a client may replace faster than the dispatcher comes to it.
        let mut waiting = gate.takes_over.take();
        while let Some((first, _)) = waiting {
            let mut gate = first.lock();
            first.end_alone(&mut gate);
            waiting = gate.takes_over.take();
        }
    }

    fn end_alone(&self, gate: &mut Gate) {
        gate.phase = Phase::Cancelled;
        let (frames, bytes) = measure(std::mem::take(&mut gate.held).into_iter().map(|held| held.frame));
        self.outbound.release(frames, bytes);
    }

    fn frame(&self, body: Bytes) -> Frame {
        Frame::Event {
            head: Arc::clone(&self.head),
            body,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("nothing panics while it holds this lock")
    }
}

impl Gate {
    /// Whether a live event was sent as a stored one already. Offsets come in ascending order, so those below it are
    /// of no more use.
    fn was_sent(&mut self, offset: Option<i64>) -> bool {
        let Some(offset) = offset else { return false };
        if self.sent.is_empty() {
            return false;
        }
        let later = self.sent.split_off(&offset);
        self.sent = later;
        self.sent.remove(&offset)
    }
}

impl Sink for Subscription {
    fn in_force(&self, past: Option<i64>) {
        let takes_over = {
            let mut gate = self.lock();
            gate.past = past;
            if let Some(past) = past {
                gate.sent = gate.sent.split_off(&past.saturating_add(1));
            }
            gate.takes_over.take()
        };
        if let Some((first, then)) = takes_over {
            first.give_way();
            then();
        }
    }

    fn deliver(&self, accepted: &Accepted) {
        let mut gate = self.lock();
        if gate.phase == Phase::Cancelled || (gate.phase == Phase::Live && gate.was_sent(accepted.offset)) {
            return;
        }
        let frame = self.frame(accepted.event.json().clone());
        let taken = if gate.phase == Phase::Live {
            self.outbound.push(frame)
        } else {
            let room = self.outbound.hold(frame.len());
            if room {
                gate.held.push(Held {
                    offset: accepted.offset,
                    frame,
                });
            }
            room
        };
        if !taken {
            self.end(&mut gate);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn measure(frames: impl Iterator<Item = Frame>) -> (usize, usize) {
    frames.fold((0, 0), |(frames, bytes), frame| (frames + 1, bytes + frame.len()))
}
