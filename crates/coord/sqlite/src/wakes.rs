//! The wakes of one transaction: rows for other processes, written with it, and calls in this one after it (CW-*).

use std::collections::HashSet;

use esker_coord_api::{Channel, WakeHub};
use rusqlite::{Connection, params};

/// Wakes that are kept for watchers of other processes, at least. Who is further behind takes it that all channels were
/// woken.
const KEPT: i64 = 1024;

/// Each time that so many more were written, the oldest go.
const PRUNED_AT_ONCE: i64 = 256;

/// The id is never reused, because the newest row stays.
pub(crate) const INSERT: &str = "INSERT INTO coord_wake (origin, channel) VALUES (?1, ?2)";
pub(crate) const PRUNE: &str = "DELETE FROM coord_wake WHERE id <= ?1";

/// The channels that a transaction wakes, each once.
#[derive(Default)]
pub(crate) struct Wakes {
    order: Vec<Channel>,
    known: HashSet<Channel>,
}

impl Wakes {
    /// What is there already was left by this savepoint or by one around it, and so lasts as long.
    pub(crate) fn push(&mut self, channel: &Channel) {
        if !self.known.contains(channel) {
            self.known.insert(channel.clone());
            self.order.push(channel.clone());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        for channel in self.order.drain(len.min(self.order.len())..) {
            self.known.remove(&channel);
        }
    }

    /// Writes a row for each channel, and deletes old ones, so that the table stays bounded (CW-07).
    pub(crate) fn write(&self, conn: &Connection, origin: i64) -> rusqlite::Result<()> {
        if self.order.is_empty() {
            return Ok(());
        }
        let mut insert = conn.prepare_cached(INSERT)?;
        for channel in &self.order {
            insert.execute(params![origin, channel.as_str()])?;
        }
        let newest = conn.last_insert_rowid();
        let before = newest - i64::try_from(self.order.len()).unwrap_or(i64::MAX);
        if newest / PRUNED_AT_ONCE != before / PRUNED_AT_ONCE {
            conn.prepare_cached(PRUNE)?.execute([newest - KEPT])?;
        }
        Ok(())
    }

    /// Wakes who listens in this process.
    pub(crate) fn tell(&self, hub: &WakeHub) {
        for channel in &self.order {
            hub.wake(channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(n: usize) -> Channel {
        Channel::of_text(n.to_string())
    }

    #[test]
    fn cw_07_the_rows_stay_bounded_and_their_ids_grow() {
        let conn = Connection::open_in_memory().unwrap();
        for migration in crate::SCHEMA.migrations {
            conn.execute_batch(migration).unwrap();
        }
        let mut most = 0;
        for commit in 1..2000 {
            let mut wakes = Wakes::default();
            for n in 0..3 {
                wakes.push(&channel(n));
                wakes.push(&channel(0));
            }
            wakes.write(&conn, 7).unwrap();
            let (rows, newest): (i64, i64) = conn
                .query_row("SELECT count(*), max(id) FROM coord_wake", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .unwrap();
            assert_eq!(newest, commit * 3);
            most = most.max(rows);
            assert!(rows >= KEPT.min(newest));
        }
        assert!(most <= KEPT + PRUNED_AT_ONCE + 3, "{most}");
    }

    #[test]
    fn cw_01_what_is_undone_wakes_nobody_and_can_be_left_again() {
        let mut wakes = Wakes::default();
        wakes.push(&channel(1));
        let mark = wakes.len();
        wakes.push(&channel(1));
        wakes.push(&channel(2));
        wakes.truncate(mark);
        assert_eq!(wakes.order, [channel(1)]);
        wakes.push(&channel(2));
        assert_eq!(wakes.order, [channel(1), channel(2)]);
    }
}
