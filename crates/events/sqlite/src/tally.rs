//! How many events and bytes each kind has: counted as events come and go, so that figures are cheap (STORE-K01).

use std::collections::BTreeMap;

use esker_coord_sqlite::{
    Error,
    rusqlite::{Connection, params},
};

/// What one closure's work adds to the figures.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<u16, (i64, i64)>);

impl Tally {
    pub(crate) fn stored(&mut self, kind: u16, bytes: usize) {
        self.add(kind, 1, i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn removed(&mut self, kind: u16, bytes: usize) {
        self.add(kind, -1, -i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Takes in what another tally counted.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (kind, (events, bytes)) in other.0 {
            self.add(kind, events, bytes);
        }
    }

    fn add(&mut self, kind: u16, events: i64, bytes: i64) {
        let entry = self.0.entry(kind).or_default();
        entry.0 += events;
        entry.1 += bytes;
    }

    /// Brings the stored figures up to date.
    pub(crate) fn write(&self, sql: &Connection) -> Result<(), Error> {
        let mut statement = sql.prepare_cached(
            "INSERT INTO kinds (kind, events, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (kind) DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes",
        )?;
        for (kind, (events, bytes)) in &self.0 {
            if (*events, *bytes) != (0, 0) {
                statement.execute(params![kind, events, bytes])?;
            }
        }
        Ok(())
    }
}
