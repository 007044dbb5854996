//! Events, a store that is nothing but its order, and what a connection was sent.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use esker_events_api::{Accepted, Change, Filters, Observer};
use esker_live::{Closing, Outbound, OutboundLimits, Sink};
use esker_nostr::{Event, Filter, Keys};

pub(crate) fn event(n: usize) -> Arc<Event> {
    kind_event(1, n)
}

pub(crate) fn kind_event(kind: u16, n: usize) -> Arc<Event> {
    let time = i64::try_from(n).unwrap();
    Arc::new(Keys::from_seed(1).sign(kind, time, &[] as &[Vec<String>], &format!("event {n}")))
}

pub(crate) fn accepted(offset: i64, event: &Arc<Event>) -> Accepted {
    Accepted {
        offset: Some(offset),
        event: Arc::clone(event),
    }
}

pub(crate) fn change(offset: i64, event: &Arc<Event>) -> Change {
    Change::Accepted(accepted(offset, event))
}

pub(crate) fn all() -> Filters {
    [Filter::default()].into()
}

pub(crate) fn kinds(kinds: &[u16]) -> Filters {
    [Filter {
        kinds: Some(kinds.iter().copied().collect()),
        ..Filter::default()
    }]
    .into()
}

pub(crate) fn outbound() -> Arc<Outbound> {
    Arc::new(Outbound::new(OutboundLimits::default()))
}

/// What a future gives without waiting.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// What waits to be sent, as text, without waiting for more; then the close, if there is one.
pub(crate) fn sent(outbound: &Outbound) -> (Vec<String>, Option<Closing>) {
    let mut frames = Vec::new();
    let closing = loop {
        match now(outbound.next(&mut frames, usize::MAX)) {
            Some(Ok(())) => {}
            Some(Err(closing)) => break Some(closing),
            None => break None,
        }
    };
    let text = frames
        .iter()
        .map(|frame| String::from_utf8(frame.parts().concat()).unwrap())
        .collect();
    (text, closing)
}

/// The message that carries an event.
pub(crate) fn message(subscription: &str, event: &Event) -> String {
    let json = std::str::from_utf8(event.json()).unwrap();
    format!(r#"["EVENT","{subscription}",{json}]"#)
}

pub(crate) fn eose(subscription: &str) -> String {
    format!(r#"["EOSE","{subscription}"]"#)
}

/// A sink that keeps the dispatcher's thread until it is told to go on.
pub(crate) struct Brake {
    arrived: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
}

/// The two ends of a brake: an event has arrived at it; let it go on.
pub(crate) struct Pedal {
    pub(crate) arrived: Receiver<()>,
    pub(crate) go_on: SyncSender<()>,
}

pub(crate) fn brake() -> (Arc<Brake>, Pedal) {
    let (arrived_in, arrived) = sync_channel(1000);
    let (go_on, go_on_out) = sync_channel(1000);
    (
        Arc::new(Brake {
            arrived: arrived_in,
            go_on: Mutex::new(go_on_out),
        }),
        Pedal { arrived, go_on },
    )
}

impl Sink for Brake {
    fn deliver(&self, _: &Accepted) {
        self.arrived.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
    }
}

/// A sink that keeps what it gets.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Accepted>>);

impl Sink for Kept {
    fn deliver(&self, accepted: &Accepted) {
        self.0.lock().unwrap().push(accepted.clone());
    }
}

impl Kept {
    pub(crate) fn offsets(&self) -> Vec<Option<i64>> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|accepted| accepted.offset)
            .collect()
    }
}

/// Events in commit order; an observer is told after each commit, before the next.
pub(crate) struct Store {
    order: Mutex<Vec<Bytes>>,
    writer: Mutex<()>,
    observer: Observer,
}

impl Store {
    pub(crate) fn new(observer: Observer) -> Self {
        Self {
            order: Mutex::default(),
            writer: Mutex::new(()),
            observer,
        }
    }

    pub(crate) fn commit(&self, event: &Arc<Event>) {
        let _writer = self.writer.lock().unwrap();
        let offset = {
            let mut order = self.order.lock().unwrap();
            order.push(event.json().clone());
            order.len()
        };
        // A snapshot taken here sees an event that is not dispatched yet.
        (self.observer)(&[change(i64::try_from(offset).unwrap(), event)]);
    }

    /// What is committed, with its offsets.
    pub(crate) fn snapshot(&self) -> Vec<(i64, Bytes)> {
        (1..).zip(self.order.lock().unwrap().iter().cloned()).collect()
    }
}
