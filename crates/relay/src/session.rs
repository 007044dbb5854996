//! What a client may say and what it hears: one connection's messages, without its socket.

mod filters;
mod queries;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use esker_events_api::{Filters, Query};
use esker_live::{Frame, Outbound, Registration, Subscription};
use esker_nostr::{ClientMessage, EventId, Filter, MessageError, RelayMessage, event, message::Subject};
use tokio::sync::{Notify, Semaphore, oneshot};

use self::queries::Job;
use crate::{ingest::Offer, relay::Relay};

/// Characters of an error text: it may quote what the client sent.
const TEXT_CHARS: usize = 300;

/// One connection's side of the protocol.
///
/// [`take`](Self::take) handles one message and waits where the client must be slowed;
/// [`answer_queries`](Self::answer_queries) runs beside it. Answers go to the [`Outbound`].
pub(crate) struct Session {
    relay: Arc<Relay>,
    outbound: Arc<Outbound>,
    /// A permit for each event that may still wait for its OK.
    pending: Arc<Semaphore>,
    state: Mutex<State>,
    /// There is a job.
    work: Notify,
    /// A subscription has ended, perhaps the one that is being answered.
    cut_short: Notify,
}

#[derive(Default)]
struct State {
    open: HashMap<Box<str>, Open>,
    jobs: VecDeque<Job>,
    ended: bool,
}

/// A subscription between its REQ and its end.
struct Open {
    subscription: Arc<Subscription>,
    /// What its filters hold.
    bytes: usize,
    registration: Registration,
}

impl Session {
    pub(crate) fn new(relay: Arc<Relay>, outbound: Arc<Outbound>) -> Self {
        let pending = Semaphore::new(relay.limits.pending_events as usize);
        relay.counters.sessions_open.increment();
        Self {
            relay,
            outbound,
            pending: Arc::new(pending),
            state: Mutex::default(),
            work: Notify::new(),
            cut_short: Notify::new(),
        }
    }

    /// Where the answers go.
    pub(crate) fn outbound(&self) -> &Arc<Outbound> {
        &self.outbound
    }

    /// Handles one text message.
    pub(crate) async fn take(&self, text: &[u8]) {
        self.relay.counters.messages.increment();
        let message = match ClientMessage::parse(text) {
            Ok(ClientMessage::Close(id)) => return self.close(&id),
            Ok(message) => message,
            Err(error) => {
                self.pace().await;
                return self.not_understood(&error);
            }
        };
        self.pace().await;
        match message {
            ClientMessage::Event(raw) => self.event(raw).await,
            ClientMessage::Req { id, filters } => self.req(&id, filters),
            ClientMessage::Count { id, filters } => self.count(&id, filters),
            ClientMessage::Close(id) => self.close(&id),
            ClientMessage::Auth(raw) => self.auth(raw),
            ClientMessage::NegOpen { id, .. } => {
                self.neg_err(&id, "error: this relay does not offer negentropy");
            }
            ClientMessage::NegMsg { id, .. } => self.neg_err(&id, "closed: there is no such session"),
            // There is no session to close, and nothing to say about it.
            ClientMessage::NegClose(_) => {}
            _ => self.notice("error: this message is not served here"),
        }
    }

    /// Handles a binary message: there are none in the protocol.
    pub(crate) async fn refuse_binary(&self) {
        self.relay.counters.messages.increment();
        self.pace().await;
        self.notice("invalid: messages are text frames");
    }

    /// Ends all subscriptions; later ones are refused.
    pub(crate) fn end(&self) {
        let (open, _jobs) = {
            let mut state = self.lock();
            state.ended = true;
            (std::mem::take(&mut state.open), std::mem::take(&mut state.jobs))
        };
        for open in open.into_values() {
            self.ended(&open);
        }
    }

    /// Returns when every event that was taken has its OK.
    pub(crate) async fn settled(&self) {
        // An error is a closed semaphore, and it is never closed.
        let _ = self.pending.acquire_many(self.relay.limits.pending_events).await;
    }

    /// Waits while much of what was said before is not yet taken: who does not listen is not heard. A CLOSE
    /// is, since it asks for less.
    async fn pace(&self) {
        let limits = &self.relay.limits;
        if self.outbound.len() > limits.outbound_frames / 4
            || self.outbound.bytes() > limits.outbound_bytes / 4
        {
            let _ = self.outbound.room().await;
        }
    }

    async fn event(&self, raw: &[u8]) {
        self.relay.counters.events.increment();
        let Ok(pending) = Arc::clone(&self.pending).acquire_owned().await else {
            unreachable!("the semaphore is never closed");
        };
        // A copy of its own: the slice would keep the whole read buffer.
        let offer = Offer::new(Bytes::copy_from_slice(raw), Arc::clone(&self.outbound), pending);
        self.relay.ingest.offer(offer).await;
    }

    fn req(&self, id: &str, mut filters: Vec<Filter>) {
        let limits = &self.relay.limits;
        if let Err(reason) = filters::acceptable(&filters, &self.relay.limits) {
            return self.refuse(id, &reason);
        }
        filters::clamp(&mut filters, limits);
        let bytes = filters::bytes(&filters);
        let query = Query::new(filters).with_limits(self.page_limits());
        {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            let replaced = state.open.get(id).map(|open| open.bytes);
            if replaced.is_none() && state.open.len() >= limits.subscriptions {
                drop(state);
                let max = limits.subscriptions;
                return self.refuse(id, &format!("rate-limited: {max} subscriptions are open already"));
            }
            let held = state.open.values().map(|open| open.bytes).sum::<usize>() - replaced.unwrap_or(0);
            if held + bytes > limits.subscription_bytes {
                drop(state);
                return self.refuse(
                    id,
                    "rate-limited: the filters of all subscriptions are too long together",
                );
            }
            let replaced = state.open.remove(id);
            if let Some(replaced) = &replaced {
                state.forget(&replaced.subscription);
                self.relay.counters.subscriptions_open.decrement();
            }
            let (open, ready) = self.register(id, &query.filters, bytes, replaced);
            let subscription = Arc::clone(&open.subscription);
            state.open.insert(id.into(), open);
            state.jobs.push_back(Job::Query {
                subscription,
                query,
                ready,
            });
        }
        self.relay.counters.queries.increment();
        self.relay.counters.subscriptions_open.increment();
        self.work.notify_one();
    }

    /// Registers a subscription, before its query begins (LIVE-10). Where it replaces another, that one goes on until
    /// everything that was committed before has been dispatched to it; then it gives way, and the query may begin.
    /// So there is no gap between the two, and nothing of the first follows the second (RELAY-03).
    fn register(
        &self,
        id: &str,
        filters: &Filters,
        bytes: usize,
        replaced: Option<Open>,
    ) -> (Open, Option<oneshot::Receiver<()>>) {
        let dispatcher = &self.relay.dispatcher;
        let filters = Arc::clone(filters);
        let subscription = Subscription::new(id, Arc::clone(&self.outbound));
        let (subscription, registration, ready) = match replaced {
            None => {
                let subscription = Arc::new(subscription);
                let registration = dispatcher.register(filters, Arc::clone(&subscription) as _);
                (subscription, registration, None)
            }
            Some(replaced) => {
                let (in_force, ready) = oneshot::channel();
                let then = move || {
                    // An error is a connection that has ended.
                    let _ = in_force.send(());
                };
                let subscription = Arc::new(subscription.replacing(replaced.subscription, then));
                self.cut_short.notify_one();
                let sink = Arc::clone(&subscription) as _;
                let registration = dispatcher.replace(replaced.registration, filters, sink);
                (subscription, registration, Some(ready))
            }
        };
        let open = Open {
            subscription,
            bytes,
            registration,
        };
        (open, ready)
    }

    fn count(&self, id: &str, filters: Vec<Filter>) {
        if let Err(reason) = filters::acceptable(&filters, &self.relay.limits) {
            return self.refuse(id, &reason);
        }
        {
            let mut state = self.lock();
            let waiting = state
                .jobs
                .iter()
                .filter(|job| matches!(job, Job::Count { .. }))
                .count();
            if waiting >= self.relay.limits.counts {
                drop(state);
                return self.refuse(id, &format!("rate-limited: {waiting} counts are waiting already"));
            }
            state.jobs.push_back(Job::Count {
                id: id.into(),
                filters: filters.into(),
            });
        }
        self.relay.counters.counts.increment();
        self.work.notify_one();
    }

    fn close(&self, id: &str) {
        let closed = {
            let mut state = self.lock();
            let closed = state.open.remove(id);
            if let Some(closed) = &closed {
                closed.subscription.cancel();
                state.forget(&closed.subscription);
            }
            closed
        };
        if let Some(closed) = closed {
            self.ended(&closed);
        }
    }

    fn auth(&self, raw: &[u8]) {
        match event::peek_id(raw) {
            Some(id) => self.refuse_event(id, "error: this relay asks nobody to authenticate"),
            None => self.notice("invalid: an AUTH message carries an event"),
        }
    }

    fn not_understood(&self, error: &MessageError) {
        match &error.subject {
            Subject::None => self.notice(&error.reason),
            Subject::Event(id) => self.refuse_event(*id, &error.reason),
            Subject::Subscription(id) => self.refuse(id, &error.reason),
            Subject::Negentropy(id) => {
                self.relay.counters.messages_refused.increment();
                self.neg_err(id, &error.reason);
            }
        }
    }

    /// Refuses a REQ or COUNT.
    fn refuse(&self, id: &str, reason: &str) {
        self.relay.counters.messages_refused.increment();
        self.say(&RelayMessage::Closed(id, cut(reason)));
    }

    fn refuse_event(&self, id: EventId, reason: &str) {
        self.relay.counters.messages_refused.increment();
        self.say(&RelayMessage::Ok {
            id,
            accepted: false,
            message: cut(reason),
        });
    }

    fn neg_err(&self, id: &str, reason: &str) {
        self.say(&RelayMessage::NegErr(id, cut(reason)));
    }

    fn notice(&self, text: &str) {
        self.relay.counters.messages_refused.increment();
        self.say(&RelayMessage::Notice(cut(text)));
    }

    fn say(&self, message: &RelayMessage<'_>) {
        self.outbound.push(Frame::Text(message.to_json()));
    }

    /// Books the end of a subscription.
    fn ended(&self, open: &Open) {
        open.subscription.cancel();
        self.cut_short.notify_one();
        self.relay.counters.subscriptions_open.decrement();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
        self.relay.counters.sessions_open.decrement();
    }
}

impl State {
    /// Drops the rest of a subscription's query.
    fn forget(&mut self, ended: &Arc<Subscription>) {
        self.jobs.retain(
            |job| !matches!(job, Job::Query { subscription, .. } if Arc::ptr_eq(subscription, ended)),
        );
    }
}

/// The beginning of a text, whole characters.
pub(crate) fn cut(text: &str) -> &str {
    text.char_indices()
        .nth(TEXT_CHARS)
        .map_or(text, |(end, _)| &text[..end])
}
