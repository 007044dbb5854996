//! Tag rows that are not in the file yet: kept in memory, read beside the file's own, written in slices.
//!
//! A tag index has one row per tag, each on a page of its own, and writing those pages is most of what an
//! insert would cost. So rows wait: the file says for each slice of the key range up to which `seq` it is
//! complete (`slices.rs`), and what is above is derived from the events themselves, which every process can
//! do. This cache holds the derived rows, so that they are derived once. Nothing is lost with it.
//!
//! Every reader sees every committed event, since it checks the cache against its own snapshot: rows that the
//! snapshot needs and the cache no longer has (the slice was flushed meanwhile, an event was removed before its
//! rows were derived) make it take a newer snapshot; rows that the cache does not have yet it derives.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use esker_coord_sqlite::{Error, rusqlite::Connection};
use esker_nostr::Canonical;

use crate::{
    keys::{Key, Secret},
    rows::TagRows,
    slices::{Slices, slice_of},
    view::blob,
};

/// A waiting row of a known tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) kind: u16,
    pub(crate) key: Key,
}

/// The cache of one process.
#[derive(Debug)]
pub(crate) struct Deferred {
    secret: Secret,
    rows: RwLock<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Events up to this `seq` have their rows here or in the file. `None` before the first use.
    derived_to: Option<i64>,
    /// A snapshot older than this may need rows of events that were gone when their rows were derived.
    oldest_snapshot: i64,
    slices: Vec<Slice>,
    count: usize,
}

#[derive(Debug, Default)]
struct Slice {
    /// Rows up to this `seq` were given up, since the file has them.
    given_up_to: i64,
    tags: HashMap<i64, Vec<Row>>,
}

/// What a reader must do before it can answer.
pub(crate) enum Gathered {
    /// The waiting rows of each tag asked for, in no order.
    Rows(Vec<Vec<Row>>),
    /// The snapshot is older than what the cache can serve: take a new one.
    Stale,
}

impl Deferred {
    pub(crate) fn new(secret: Secret) -> Self {
        Self {
            secret,
            rows: RwLock::default(),
        }
    }

    /// How many rows wait, as far as this process knows.
    pub(crate) fn len(&self) -> usize {
        self.read().count
    }

    /// The waiting rows of `tags`, as a reader's snapshot needs them: those of events up to `last`, the
    /// snapshot's newest `seq`.
    pub(crate) fn gather(&self, sql: &Connection, last: i64, tags: &[i64]) -> Result<Gathered, Error> {
        self.derive(sql, last)?;
        let slices = Slices::read(sql)?;
        let rows = self.read();
        if last < rows.oldest_snapshot {
            return Ok(Gathered::Stale);
        }
        let mut found = Vec::with_capacity(tags.len());
        for tag in tags {
            let number = slice_of(*tag);
            let slice = &rows.slices[number];
            if slices.complete_to[number] < slice.given_up_to {
                return Ok(Gathered::Stale);
            }
            found.push(
                slice
                    .tags
                    .get(tag)
                    .map(|rows| rows.iter().filter(|row| row.key.seq <= last).copied().collect())
                    .unwrap_or_default(),
            );
        }
        Ok(Gathered::Rows(found))
    }

    /// The waiting rows of `tags` as the writer sees them in mid-transaction, its own uncommitted events
    /// included. Those stay out of the cache: they may yet be rolled back.
    pub(crate) fn gather_uncommitted(&self, sql: &Connection, tags: &[i64]) -> Result<Vec<Vec<Row>>, Error> {
        let from = match self.read().derived_to {
            Some(derived_to) => derived_to,
            // Nothing is cached before the first reader or flush; the slices say where to begin.
            None => Slices::read(sql)?.least(),
        };
        let uncommitted = derive_rows(sql, from, i64::MAX, self.secret)?;
        let rows = self.read();
        let mut found = pick(&uncommitted, tags);
        if rows.derived_to.is_some() {
            for (found, tag) in found.iter_mut().zip(tags) {
                // The writer sees the newest commit, so the file has whatever this cache gave up.
                found.extend(rows.slices[slice_of(*tag)].tags.get(tag).into_iter().flatten());
            }
        }
        Ok(found)
    }

    /// Brings the cache up to `last`, the newest `seq` of a snapshot of committed events.
    pub(crate) fn derive(&self, sql: &Connection, last: i64) -> Result<(), Error> {
        let derived_to = self.read().derived_to;
        if derived_to.is_some_and(|derived_to| derived_to >= last) {
            return Ok(());
        }
        let (from, slices) = match derived_to {
            Some(derived_to) => (derived_to, None),
            None => {
                let slices = Slices::read(sql)?;
                (slices.least(), Some(slices.complete_to))
            }
        };
        let derived = derive_rows(sql, from, last, self.secret)?;
        let complete = i64::try_from(derived.len()).unwrap_or(i64::MAX) == last - from;
        let mut rows = self.write();
        if let (None, Some(slices)) = (rows.derived_to, slices) {
            rows.derived_to = Some(from);
            rows.slices = slices
                .into_iter()
                .map(|given_up_to| Slice {
                    given_up_to,
                    ..Slice::default()
                })
                .collect();
        }
        if rows.derived_to.is_some_and(|derived_to| derived_to < from) {
            // Another reader began with an older snapshot and has not come as far: leave no gap.
            return Ok(());
        }
        if !complete {
            rows.oldest_snapshot = rows.oldest_snapshot.max(last);
        }
        for event in derived {
            rows.add(&event);
        }
        rows.derived_to = rows.derived_to.max(Some(last));
        Ok(())
    }

    /// Takes in the rows of events that this process has just committed: all those with a `seq` above `after`
    /// up to `last`. Where the cache has a gap below (another process wrote in between, or nothing was read
    /// yet), they are left to be derived.
    pub(crate) fn committed(&self, after: i64, last: i64, events: &[TagRows]) {
        let mut rows = self.write();
        if rows
            .derived_to
            .is_none_or(|derived_to| derived_to < after || derived_to >= last)
        {
            return;
        }
        for event in events {
            rows.add(event);
        }
        rows.derived_to = Some(last);
    }

    /// Whether events up to `last` still lack their rows here.
    pub(crate) fn is_behind(&self, last: i64) -> bool {
        self.read().derived_to.is_none_or(|derived_to| derived_to < last)
    }

    /// The rows that wait in a slice above `complete`, and up to which `seq` they are all here.
    pub(crate) fn waiting(&self, slice: usize, complete: i64) -> (i64, Vec<(i64, Row)>) {
        let rows = self.read();
        let Some(derived_to) = rows.derived_to else {
            return (complete, Vec::new());
        };
        let waiting = rows.slices[slice]
            .tags
            .iter()
            .flat_map(|(tag, rows)| rows.iter().map(|row| (*tag, *row)))
            .filter(|(_, row)| row.key.seq > complete)
            .collect();
        (derived_to.max(complete), waiting)
    }

    /// Gives up the rows of a slice up to `seq`: the file has them, durably.
    pub(crate) fn flushed(&self, slice: usize, seq: i64) {
        let mut rows = self.write();
        let Some(flushed) = rows.slices.get_mut(slice) else {
            return;
        };
        flushed.given_up_to = flushed.given_up_to.max(seq);
        let mut given_up = 0;
        flushed.tags.retain(|_, rows| {
            let before = rows.len();
            rows.retain(|row| row.key.seq > seq);
            given_up += before - rows.len();
            !rows.is_empty()
        });
        rows.count -= given_up;
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn add(&mut self, event: &TagRows) {
        if self
            .derived_to
            .is_some_and(|derived_to| event.key.seq <= derived_to)
        {
            return;
        }
        let row = Row {
            kind: event.kind,
            key: event.key,
        };
        for &tag in &event.tags {
            let slice = &mut self.slices[slice_of(tag)];
            if event.key.seq > slice.given_up_to {
                slice.tags.entry(tag).or_default().push(row);
                self.count += 1;
            }
        }
    }
}

/// The rows of the stored events with `from < seq <= last`, one entry per event.
fn derive_rows(sql: &Connection, from: i64, last: i64, secret: Secret) -> Result<Vec<TagRows>, Error> {
    let mut statement =
        sql.prepare_cached("SELECT seq, json FROM events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq")?;
    let mut rows = statement.query([from, last])?;
    let mut derived = Vec::new();
    while let Some(row) = rows.next()? {
        let event = Canonical::new(blob(row, 1)?);
        derived.push(TagRows::of(&event, row.get(0)?, secret));
    }
    Ok(derived)
}

fn pick(events: &[TagRows], tags: &[i64]) -> Vec<Vec<Row>> {
    tags.iter()
        .map(|tag| {
            events
                .iter()
                .filter(|event| event.tags.binary_search(tag).is_ok())
                .map(|event| Row {
                    kind: event.kind,
                    key: event.key,
                })
                .collect()
        })
        .collect()
}
