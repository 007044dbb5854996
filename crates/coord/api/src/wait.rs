//! Waiting for something to do: a wake, a time to come, or the safety interval (CQ-07, CW-05).

use std::{future::pending, sync::Arc};

use futures_util::{FutureExt, select_biased};

use crate::{BoxFuture, Engine, NextTime, WakeReceiver, clock::sleep};

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// There may be something to do.
    Look,
    /// The source of wakes has ended.
    Closed,
}

/// One waiter, with its receiver of wakes.
pub(crate) struct Waiting {
    engine: Arc<dyn Engine>,
    wakes: WakeReceiver,
    /// The last wait ended by the safety interval: what is found now, no wake told of.
    unasked: bool,
}

impl Waiting {
    pub(crate) fn new(engine: Arc<dyn Engine>, wakes: WakeReceiver) -> Self {
        Self {
            engine,
            wakes,
            unasked: false,
        }
    }

    /// Waits for a wake or for `time`, whichever comes first; where wakes can be lost, no longer than the safety
    /// interval.
    pub(crate) async fn wait(&mut self, time: Option<NextTime>) -> Woken {
        let due: BoxFuture<'static, ()> = match time {
            Some(time) => self.engine.sleep_until(time),
            None => Box::pin(pending()),
        };
        let safety: BoxFuture<'static, ()> = match self.engine.safety_interval() {
            Some(interval) => Box::pin(sleep(interval)),
            None => Box::pin(pending()),
        };
        self.unasked = false;
        select_biased! {
            wake = self.wakes.recv().fuse() => match wake {
                Some(_) => Woken::Look,
                None => Woken::Closed,
            },
            () = due.fuse() => Woken::Look,
            () = safety.fuse() => {
                self.unasked = true;
                Woken::Look
            }
        }
    }

    /// Notes that the look after a wait found something.
    pub(crate) fn found(&mut self) {
        if std::mem::take(&mut self.unasked) {
            self.engine.note_lost_wake();
        }
    }
}
