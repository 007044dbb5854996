//! The stored part of a session: pages and counts, one at a time, so that connections take turns.

use std::{convert::Infallible, sync::Arc, time::Duration};

use esker_events_api::{Error, Filters, PageLimits, Query};
use esker_live::Subscription;
use esker_nostr::RelayMessage;
use tokio::sync::oneshot;

use super::Session;

/// What waits to be answered from the store.
pub(super) enum Job {
    /// A REQ, as far as it has come.
    Query {
        /// Who gets the events.
        subscription: Arc<Subscription>,
        /// What is asked.
        query: Query,
        /// Comes when the subscription is in force, where the query must wait for that.
        ready: Option<oneshot::Receiver<()>>,
    },
    /// A COUNT.
    Count {
        /// The client's name for it.
        id: Box<str>,
        /// What is counted.
        filters: Filters,
    },
}

impl Session {
    /// Answers what is asked, for ever.
    ///
    /// One page is under way at a time: the queries of a connection take turns with each other, and with
    /// everybody else's at the store's readers (RELAY-04). A page is read when the socket has taken the ones
    /// before it.
    pub(crate) async fn answer_queries(&self) -> Infallible {
        loop {
            let job = self.lock().jobs.pop_front();
            match job {
                None => self.work.notified().await,
                Some(Job::Query {
                    subscription,
                    query,
                    ready,
                }) => tokio::select! {
                    () = self.answer_page(&subscription, query, ready) => {}
                    // A CLOSE ends it at once, wherever it waits.
                    () = self.cancelled(&subscription) => {}
                },
                Some(Job::Count { id, filters }) => self.answer_count(&id, filters).await,
            }
        }
    }

    /// What a page may hold: it must fit beside what else waits for the connection.
    pub(super) fn page_limits(&self) -> PageLimits {
        let limits = &self.relay.limits;
        let default = PageLimits::default();
        PageLimits {
            events: default.events.min(limits.outbound_frames / 2).max(1),
            bytes: default.bytes.min(limits.outbound_bytes / 2).max(1),
            time: Duration::from_millis(limits.query_slice_ms),
        }
    }

    /// Returns when the subscription has been closed or replaced.
    async fn cancelled(&self, subscription: &Subscription) {
        while !subscription.is_cancelled() {
            self.cut_short.notified().await;
        }
    }

    async fn answer_page(
        &self,
        subscription: &Arc<Subscription>,
        query: Query,
        ready: Option<oneshot::Receiver<()>>,
    ) {
        if let Some(ready) = ready {
            // An error is a dispatcher that has stopped: there are no live events to be in force for.
            let _ = ready.await;
        }
        // Without room there will never be any: the connection is closing.
        let Some(_room) = self.outbound.room().await else {
            return;
        };
        self.relay.counters.pages.increment();
        match self.relay.store.page(query).await {
            Ok(page) => {
                if !subscription.stored(page.offsets.into_iter().zip(page.events)) {
                    return;
                }
                match page.next {
                    Some(query) => {
                        let subscription = Arc::clone(subscription);
                        let ready = None;
                        self.lock().jobs.push_back(Job::Query {
                            subscription,
                            query,
                            ready,
                        });
                    }
                    None => {
                        subscription.stored_done();
                    }
                }
            }
            Err(error) => self.query_failed(subscription, &error),
        }
    }

    /// Tells the client that a subscription is over, unless it knows (it has closed or replaced it).
    fn query_failed(&self, subscription: &Arc<Subscription>, error: &Error) {
        let closed = {
            let mut state = self.lock();
            match state.open.get(subscription.id()) {
                Some(open) if Arc::ptr_eq(&open.subscription, subscription) => {
                    state.open.remove(subscription.id())
                }
                _ => None,
            }
        };
        if let Some(closed) = closed {
            self.ended(&closed);
            self.failed(subscription.id(), error);
        }
    }

    async fn answer_count(&self, id: &str, filters: Filters) {
        self.pace().await;
        match self.relay.store.count(filters).await {
            Ok(count) => self.say(&RelayMessage::Count(id, count)),
            Err(error) => self.failed(id, &error),
        }
    }

    fn failed(&self, id: &str, error: &Error) {
        self.relay.counters.queries_failed.increment();
        match error {
            Error::OverBudget { .. } => tracing::debug!(%error, "a query was too dear"),
            error => tracing::warn!(%error, "a query failed"),
        }
        self.say(&RelayMessage::Closed(id, super::cut(&format!("error: {error}"))));
    }
}
