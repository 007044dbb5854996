//! A reader's view: one read transaction, under a time budget.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{Error, transaction::execute};

/// A reader's view: one read transaction, so that all its statements see the same commits, those made before its first
/// statement. It cannot write.
pub struct Snapshot<'c> {
    conn: &'c Connection,
    alarm: &'c Alarm,
    budget: Duration,
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(conn: &'c Connection, alarm: &'c Alarm, budget: Duration) -> Self {
        Self { conn, alarm, budget }
    }

    /// The connection, for the caller's own statements. Prepare them with `prepare_cached`. Past the budget they fail,
    /// and the read with [`Error::OverBudget`].
    pub fn sql(&self) -> &Connection {
        self.conn
    }

    /// Ends the read transaction and begins a new one, so that what follows sees the newest commits, and the
    /// write-ahead log is not kept from being started anew. The budget goes on.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.check()?;
        execute(self.conn, "COMMIT")?;
        execute(self.conn, "BEGIN")?;
        Ok(())
    }

    /// Fails once the budget is spent: for loops that are long outside SQL.
    pub fn check(&self) -> Result<(), Error> {
        if self.alarm.is_due() {
            Err(Error::OverBudget(self.budget))
        } else {
            Ok(())
        }
    }

    /// When the budget will be spent; `None` for a budget that the clock cannot reach.
    pub fn deadline(&self) -> Option<Instant> {
        self.alarm.deadline()
    }
}

/// The deadline of the read that runs on a connection, seen by SQLite's progress handler.
pub(crate) struct Alarm {
    origin: Instant,
    /// Nanoseconds from `origin`.
    due: AtomicU64,
    rang: AtomicBool,
}

const NEVER: u64 = u64::MAX;

impl Alarm {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            due: AtomicU64::new(NEVER),
            rang: AtomicBool::new(false),
        }
    }

    pub(crate) fn set(&self, started: Instant, budget: Duration) {
        let due = started
            .saturating_duration_since(self.origin)
            .saturating_add(budget);
        self.rang.store(false, Relaxed);
        self.due
            .store(u64::try_from(due.as_nanos()).unwrap_or(NEVER), Release);
    }

    /// Stops it; gives whether it had gone off.
    pub(crate) fn stop(&self) -> bool {
        self.due.store(NEVER, Release);
        self.rang.swap(false, Relaxed)
    }

    pub(crate) fn is_due(&self) -> bool {
        let due = self.due.load(Acquire);
        if due == NEVER || self.origin.elapsed().as_nanos() < u128::from(due) {
            return false;
        }
        self.rang.store(true, Relaxed);
        true
    }

    fn deadline(&self) -> Option<Instant> {
        match self.due.load(Acquire) {
            NEVER => None,
            due => self.origin.checked_add(Duration::from_nanos(due)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_k05_alarm_goes_off_at_its_time_and_not_when_stopped() {
        let alarm = Alarm::new();
        assert!(!alarm.is_due());
        alarm.set(Instant::now(), Duration::ZERO);
        assert!(alarm.is_due());
        assert!(alarm.stop());
        assert!(!alarm.is_due());
        alarm.set(Instant::now(), Duration::MAX);
        assert!(!alarm.is_due());
        assert_eq!(alarm.deadline(), None);
        assert!(!alarm.stop());
    }
}
