//! One connection's outgoing buffer: bounded, so that a reader that stops reading harms itself alone (LIVE-12).

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::{
    Frame,
    counters::{self, Counters},
};

/// What one connection may have waiting to be sent, held live events of its subscriptions included. One frame
/// is always taken when nothing waits, however large.
#[derive(Debug, Clone, Copy)]
pub struct OutboundLimits {
    /// Bytes of payload.
    pub bytes: usize,
    /// Frames.
    pub frames: usize,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            frames: 8192,
        }
    }
}

/// Why a connection ends: what its close frame says (RFC 6455, 7.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// The status code.
    pub code: u16,
    /// The reason, for people; a close frame has room for 123 bytes.
    pub reason: Cow<'static, str>,
}

/// The close of a connection that does not read what it asked for: policy violation.
const SLOW_READER: Closing = Closing {
    code: 1008,
    reason: Cow::Borrowed("slow reader: too much is waiting to be sent"),
};

/// Frames on their way to one connection, in order.
///
/// Producers [`push`](Self::push) and never wait. One writer task takes batches with [`next`](Self::next). Who
/// sends much at once, a query, waits for [`room`](Self::room), so that it is paced by the socket. When the
/// limits are reached the connection is closed with a reason, what waited is dropped, and that is counted.
///
/// An idle one holds no buffer.
pub struct Outbound {
    limits: OutboundLimits,
    counters: Option<Arc<Counters>>,
    state: Mutex<State>,
    // There is a frame, or an end.
    ready: Notify,
    // The buffer is at most a quarter full, or there is an end.
    drained: Notify,
    // What waited was dropped.
    aborted: Notify,
    // Whose turn it is to fill the room.
    turn: Semaphore,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Frame>,
    bytes: usize,
    held: Held,
    closing: Option<Closing>,
    aborted: bool,
}

/// Events that subscriptions hold back until their stored ones are through; they count against the limits.
#[derive(Default)]
struct Held {
    frames: usize,
    bytes: usize,
}

/// The turn to fill an [`Outbound`]; kept until what was made for it has been pushed.
#[must_use = "the turn ends when this is dropped"]
pub struct Room<'a> {
    _turn: SemaphorePermit<'a>,
}

impl Outbound {
    /// An empty buffer.
    pub fn new(limits: OutboundLimits) -> Self {
        Self {
            limits,
            counters: None,
            state: Mutex::default(),
            ready: Notify::new(),
            drained: Notify::new(),
            aborted: Notify::new(),
            turn: Semaphore::new(1),
        }
    }

    /// The same buffer, counting its overflow in [`Counters::overflows`].
    #[must_use]
    pub fn counting(mut self, counters: Arc<Counters>) -> Self {
        self.counters = Some(counters);
        self
    }

    /// Appends a frame. `false` if it will not be sent, because the buffer is closed or this overflowed it.
    pub fn push(&self, frame: Frame) -> bool {
        self.push_all(std::iter::once(frame))
    }

    /// Appends frames, all under one lock. `false` if one will not be sent.
    pub(crate) fn push_all(&self, frames: impl IntoIterator<Item = Frame>) -> bool {
        let mut state = self.lock();
        if state.closing.is_some() {
            return false;
        }
        let was_empty = state.queue.is_empty();
        for frame in frames {
            if !state.fits(&self.limits, frame.len()) {
                return self.overflow(state);
            }
            state.append(frame);
        }
        let wake = was_empty && !state.queue.is_empty();
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        true
    }

    /// Waits for frames and takes some, in order: at least one, and not much more than `max_bytes` of them.
    ///
    /// `Err` when all has been taken and nothing will follow but this close. For the one writer task.
    pub async fn next(&self, into: &mut Vec<Frame>, max_bytes: usize) -> Result<(), Closing> {
        loop {
            if let Some(taken) = self.take(into, max_bytes) {
                return taken;
            }
            self.ready.notified().await;
        }
    }

    /// Waits for this producer's turn and for a buffer that is at most a quarter full; `None` once it is
    /// closed. Turns are given in the order in which they were asked for.
    ///
    /// So a query that asks before each page is paced by its socket, the queries of a connection take turns,
    /// and a page of at most half the limits leaves a quarter of them to live events.
    pub async fn room(&self) -> Option<Room<'_>> {
        let turn = self.turn.acquire().await.ok()?;
        loop {
            {
                let state = self.lock();
                if state.closing.is_some() {
                    return None;
                }
                if state.has_room(&self.limits) {
                    return Some(Room { _turn: turn });
                }
            }
            self.drained.notified().await;
        }
    }

    /// Ends the connection in order: what waits is still sent, then the close frame. The first close counts.
    pub fn close(&self, code: u16, reason: impl Into<Cow<'static, str>>) {
        let mut state = self.lock();
        state.closing.get_or_insert_with(|| Closing {
            code,
            reason: reason.into(),
        });
        self.announce_end(state);
    }

    /// Ends the connection at once: what waits is dropped. Also for a connection that broke.
    pub fn abort(&self, code: u16, reason: impl Into<Cow<'static, str>>) {
        self.end_at_once(
            self.lock(),
            Closing {
                code,
                reason: reason.into(),
            },
        );
    }

    /// Returns when what waited was dropped, by overflow or [`abort`](Self::abort): for a writer that hangs
    /// in its socket.
    pub async fn aborted(&self) {
        loop {
            let notified = self.aborted.notified();
            if self.lock().aborted {
                return;
            }
            notified.await;
        }
    }

    /// Whether nothing more is taken.
    pub fn is_closed(&self) -> bool {
        self.lock().closing.is_some()
    }

    /// Why nothing more is taken, if so.
    pub fn closing(&self) -> Option<Closing> {
        self.lock().closing.clone()
    }

    /// Frames that wait, held ones not counted.
    pub fn len(&self) -> usize {
        self.lock().queue.len()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Payload bytes that wait, held ones not counted.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Reserves the place of one held event; `false` as [`push`](Self::push).
    pub(crate) fn hold(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        if state.closing.is_some() {
            return false;
        }
        if !state.fits(&self.limits, bytes) {
            return self.overflow(state);
        }
        state.held.frames += 1;
        state.held.bytes += bytes;
        true
    }

    /// Gives up the places of held events.
    pub(crate) fn release(&self, frames: usize, bytes: usize) {
        let mut state = self.lock();
        state.held.frames -= frames;
        state.held.bytes -= bytes;
    }

    /// Appends held events in the places they have.
    pub(crate) fn push_held(&self, frames: impl IntoIterator<Item = Frame>) {
        let mut state = self.lock();
        for frame in frames {
            state.held.frames -= 1;
            state.held.bytes -= frame.len();
            if state.closing.is_none() {
                state.append(frame);
            }
        }
        drop(state);
        self.ready.notify_one();
    }

    fn take(&self, into: &mut Vec<Frame>, max_bytes: usize) -> Option<Result<(), Closing>> {
        let mut state = self.lock();
        if state.queue.is_empty() {
            return state.closing.clone().map(Err);
        }
        let mut taken = 0;
        while taken == 0 || taken < max_bytes {
            let Some(frame) = state.queue.pop_front() else {
                break;
            };
            // An empty frame, such as a ping without payload, counts too: the loop must end.
            taken += frame.len().max(1);
            state.bytes -= frame.len();
            into.push(frame);
        }
        if state.queue.is_empty() && state.queue.capacity() > KEPT_CAPACITY {
            state.queue = VecDeque::new();
        }
        let room = state.has_room(&self.limits);
        drop(state);
        if room {
            self.drained.notify_one();
        }
        Some(Ok(()))
    }

    fn overflow(&self, state: MutexGuard<'_, State>) -> bool {
        if let Some(counters) = &self.counters {
            counters::add(&counters.overflows, 1);
        }
        self.end_at_once(state, SLOW_READER);
        false
    }

    fn end_at_once(&self, mut state: MutexGuard<'_, State>, closing: Closing) {
        state.closing.get_or_insert(closing);
        state.aborted = true;
        state.bytes = 0;
        let dropped = std::mem::take(&mut state.queue);
        self.announce_end(state);
        self.aborted.notify_waiters();
        drop(dropped);
    }

    fn announce_end(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.turn.close();
        self.drained.notify_one();
        self.ready.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds this lock")
    }
}

/// A queue that was longer than this gives its memory back when it has been emptied.
const KEPT_CAPACITY: usize = 16;

impl State {
    fn fits(&self, limits: &OutboundLimits, bytes: usize) -> bool {
        let frames = self.queue.len() + self.held.frames;
        frames == 0 || (frames < limits.frames && self.bytes + self.held.bytes + bytes <= limits.bytes)
    }

    fn has_room(&self, limits: &OutboundLimits) -> bool {
        self.queue.len() <= limits.frames / 4 && self.bytes <= limits.bytes / 4
    }

    fn append(&mut self, frame: Frame) {
        self.bytes += frame.len();
        self.queue.push_back(frame);
    }
}

#[cfg(test)]
mod tests;
