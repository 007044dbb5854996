//! The consumers that transactions keep for themselves, and who waits for whom (CS-06).

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use esker_coord_api::{Error, LocalName, Name, Outcome, Result};
use tokio::sync::Notify;

/// A consumer of a stream.
pub(crate) type Consumer = (Name, LocalName);

/// A transaction, and the handle that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Keeper {
    pub(crate) handle: u64,
    number: u64,
}

#[derive(Default)]
pub(crate) struct Keeps {
    table: Mutex<Table>,
    /// Something was given back, or a handle closed.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    last: u64,
    kept: BTreeMap<Consumer, Keeper>,
    waits: BTreeMap<Keeper, Consumer>,
}

enum Attempt {
    Kept,
    Wait,
    /// Who keeps it waits, in the end, for the one that asks.
    Cycle,
}

impl Keeps {
    /// A new transaction of this handle, which keeps nothing.
    pub(crate) fn keeper(&self, handle: u64) -> Keeper {
        let mut table = self.lock();
        table.last += 1;
        Keeper {
            handle,
            number: table.last,
        }
    }

    /// Waits until nobody else keeps the consumer, and keeps it, unless the handle is closed first. Of transactions that
    /// would wait for each other for ever, the last to ask gets an error, as a database's deadlock gives.
    pub(crate) async fn keep(
        &self,
        keeper: Keeper,
        consumer: Consumer,
        is_open: impl Fn() -> bool,
    ) -> Result<()> {
        let _waiting = Waiting(self, keeper);
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before the look, so that nothing falls between them.
            changed.as_mut().enable();
            let attempt = self.lock().attempt(keeper, &consumer);
            match attempt {
                // Whoever closes the handle later finds what it keeps.
                _ if !is_open() => return Err(Error::Closed),
                Attempt::Kept => return Ok(()),
                Attempt::Wait => changed.await,
                Attempt::Cycle => return Err(crosswise()),
            }
        }
    }

    /// Gives back what the transaction keeps.
    pub(crate) fn release(&self, keeper: Keeper) {
        self.release_where(|by| by == keeper);
    }

    /// Gives back what the transactions of a handle keep, and ends their waits.
    pub(crate) fn close(&self, handle: u64) {
        self.release_where(|by| by.handle == handle);
    }

    fn release_where(&self, is: impl Fn(Keeper) -> bool) {
        self.lock().kept.retain(|_, by| !is(*by));
        self.changed.notify_waiters();
    }

    /// What it guards is whole at every moment.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn attempt(&mut self, keeper: Keeper, consumer: &Consumer) -> Attempt {
        let mut next = self.kept.get(consumer);
        if next.is_none_or(|by| *by == keeper) {
            self.kept.insert(consumer.clone(), keeper);
            // At once: who keeps a thing and waits for it too would be followed round and round.
            self.waits.remove(&keeper);
            return Attempt::Kept;
        }
        while let Some(by) = next {
            if *by == keeper {
                return Attempt::Cycle;
            }
            next = self.waits.get(by).and_then(|waits_for| self.kept.get(waits_for));
        }
        self.waits.insert(keeper, consumer.clone());
        Attempt::Wait
    }
}

/// However a wait ends, it is no longer one.
struct Waiting<'k>(&'k Keeps, Keeper);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waits.remove(&self.1);
    }
}

/// Why a transaction was rolled back that would have waited for ever.
pub(crate) fn crosswise() -> Error {
    Error::database(
        "the transaction was rolled back: it and another wait for each other's consumers",
        Outcome::Aborted,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cs_06_who_has_got_what_it_waited_for_waits_no_more() {
        let consumer = (Name::new("s").unwrap(), LocalName::new("c").unwrap());
        let keeps = Keeps::default();
        let [first, second, third] = [(); 3].map(|()| keeps.keeper(1));
        let attempt = |keeper| keeps.lock().attempt(keeper, &consumer);
        assert!(matches!(attempt(first), Attempt::Kept));
        assert!(matches!(attempt(second), Attempt::Wait));
        keeps.release(first);
        assert!(matches!(attempt(second), Attempt::Kept));
        // This one would follow it round and round, if it waited still.
        assert!(matches!(attempt(third), Attempt::Wait));
    }
}
