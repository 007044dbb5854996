//! Observers in the process: matching inserts and removals, so that a view can be kept up to date (LIVE-15).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use esker_events_api::Accepted;
use tokio::sync::mpsc;

use crate::{dispatcher::Registration, queue::Queue};

/// One change of what an observer's filters match.
#[derive(Clone)]
pub enum Observed {
    /// An event was accepted.
    Inserted(Accepted),
    /// An event left the store: superseded, deleted, vanished or expired. Its canonical JSON, to be read with
    /// [`esker_nostr::Canonical`].
    Removed(Bytes),
}

/// Why an observation gives nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It did not keep up: changes after those it gave are missing. Observe and query anew.
    Lagged,
    /// The dispatcher has stopped.
    Stopped,
}

/// A stream of matching changes, in commit order and without gaps; dropping it ends it.
///
/// To keep a view: observe, then query, then apply every change in order, inserts that the query has
/// already given too. Each step is idempotent, and the last change of an event is what holds.
pub struct Observation {
    receiver: mpsc::Receiver<Observed>,
    lagged: Arc<AtomicBool>,
    ended: Option<Ended>,
    queue: Arc<Queue>,
    _registration: Registration,
}

/// The dispatcher's end of an observation.
pub(crate) struct Outlet {
    sender: mpsc::Sender<Observed>,
    lagged: Arc<AtomicBool>,
}

impl Observation {
    pub(crate) fn new(
        capacity: usize,
        queue: Arc<Queue>,
        register: impl FnOnce(Outlet) -> Registration,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lagged = Arc::new(AtomicBool::new(false));
        let registration = register(Outlet {
            sender,
            lagged: Arc::clone(&lagged),
        });
        Self {
            receiver,
            lagged,
            ended: None,
            queue,
            _registration: registration,
        }
    }

    /// The next change; `None` when no more comes, see [`Observation::ended`]. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<Observed> {
        let observed = self.receiver.recv().await;
        if observed.is_none() {
            let lagged = self.lagged.load(Ordering::SeqCst);
            self.ended = Some(if lagged { Ended::Lagged } else { Ended::Stopped });
        }
        observed
    }

    /// Why [`Observation::recv`] gave `None`; nothing before that.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.queue.observation_ended();
    }
}

impl Outlet {
    /// Gives a change to the observer; `false` when there was no room, which ends it.
    pub(crate) fn give(&self, observed: Observed) -> bool {
        match self.sender.try_send(observed) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lagged.store(true, Ordering::SeqCst);
                false
            }
            // One that was dropped is unregistered by a command on its way.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
        }
    }
}
