//! What the connections of one relay share.

use std::{sync::Arc, time::Instant};

use esker_events_api::{Clock, EventStore};
use esker_live::{Dispatcher, Options};
use tokio::sync::watch;

use crate::{
    Counters, Error, Info, Limits, http::Documents, ingest::Ingest, transport::websocket::DeflatePool,
};

/// How far the relay is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It serves.
    Running,
    /// Connections answer what they have taken, then close.
    Draining,
    /// Whoever is still here goes now.
    Ended,
}

/// One relay: its store, its live subscriptions, its limits and figures.
pub(crate) struct Relay {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) ingest: Ingest,
    pub(crate) limits: Limits,
    pub(crate) documents: Documents,
    pub(crate) counters: Arc<Counters>,
    pub(crate) deflate: Arc<DeflatePool>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) started: Instant,
}

impl Relay {
    /// Starts the dispatcher and the verifying threads; within a runtime, on which the store is asked.
    pub(crate) fn start(
        limits: Limits,
        info: Info,
        clock: Clock,
        store: Arc<dyn EventStore>,
    ) -> Result<Arc<Self>, Error> {
        let dispatcher = Dispatcher::start(&Options::default()).map_err(Error::Thread)?;
        store.observe(dispatcher.observer());
        let counters = Arc::new(Counters::default());
        let ingest = Ingest::start(&limits, clock, Arc::clone(&store), Arc::clone(&counters))?;
        Ok(Arc::new(Self {
            store,
            dispatcher,
            ingest,
            documents: Documents::new(info, &limits),
            limits,
            counters,
            deflate: Arc::default(),
            phase: watch::Sender::new(Phase::Running),
            started: Instant::now(),
        }))
    }

    /// Returns when the relay is as far as this, or further.
    pub(crate) async fn reached(&self, phase: Phase) {
        // An error is a sender that is gone, which `self` keeps.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }
}
