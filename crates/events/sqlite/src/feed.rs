//! A feed of many authors: walking a kind by time and picking their events out, while that is cheaper than a
//! walk per author.

use std::collections::HashSet;

use esker_coord_sqlite::{Error, rusqlite::Connection};

use crate::{
    keys::Key,
    source::{Cost, Path, Range, read_keys_with_author},
};

/// One filter's feed.
#[derive(Debug)]
pub(crate) struct Feed {
    kinds: Vec<u16>,
    authors: HashSet<i64>,
    range: Range,
    slots: Vec<Slot>,
    wanted: u64,
    scanned: u64,
    picked: u64,
}

/// One kind's walk.
#[derive(Debug)]
struct Slot {
    below: Key,
    /// Picked keys still to come, newest last.
    keys: Vec<Key>,
    ended: bool,
}

/// What the next step of a feed gave.
pub(crate) enum Refill {
    Key(Key),
    Ended,
    /// Walks per author are expected to be cheaper from here on.
    TooDear,
}

/// Rows read at a time.
const PAGE: usize = 128;
/// How many rows of a walk cost as much as beginning a walk of one author.
const ROWS_PER_WALK: u64 = 16;

impl Feed {
    pub(crate) fn new(kinds: Vec<u16>, authors: Vec<i64>, range: Range, wanted: u64) -> Self {
        let slots = kinds
            .iter()
            .map(|_| Slot {
                below: range.below,
                keys: Vec::new(),
                ended: false,
            })
            .collect();
        Self {
            kinds,
            authors: authors.into_iter().collect(),
            range,
            slots,
            wanted,
            scanned: 0,
            picked: 0,
        }
    }

    pub(crate) fn range(&self) -> Range {
        self.range
    }

    /// The walks that give the same events.
    pub(crate) fn walks(&self) -> Vec<Path> {
        let kinds = &self.kinds;
        self.authors
            .iter()
            .flat_map(|author| {
                kinds.iter().map(|kind| Path::Author {
                    author: *author,
                    kind: *kind,
                })
            })
            .collect()
    }

    /// The next key of one kind.
    pub(crate) fn next(&mut self, sql: &Connection, slot: usize, cost: &mut Cost) -> Result<Refill, Error> {
        let mut page = Vec::new();
        loop {
            let Slot { below, keys, ended } = &mut self.slots[slot];
            if let Some(key) = keys.pop() {
                return Ok(Refill::Key(key));
            }
            if *ended {
                return Ok(Refill::Ended);
            }
            if self.scanned > 0
                && too_dear(
                    self.scanned,
                    self.picked,
                    self.wanted,
                    self.authors.len(),
                    self.kinds.len(),
                )
            {
                return Ok(Refill::TooDear);
            }
            page.clear();
            let range = Range {
                below: *below,
                since: self.range.since,
            };
            read_keys_with_author(sql, self.kinds[slot], range, PAGE, &mut page, cost)?;
            *ended = page.len() < PAGE;
            if let Some((last, _)) = page.last() {
                *below = *last;
            }
            keys.extend(
                page.iter()
                    .rev()
                    .filter(|(_, author)| self.authors.contains(author))
                    .map(|(key, _)| *key),
            );
            self.scanned += page.len() as u64;
            self.picked += keys.len() as u64;
        }
    }
}

/// Whether what is still to be scanned, at the rate seen so far, costs more than a walk per author and kind.
fn too_dear(scanned: u64, picked: u64, wanted: u64, authors: usize, kinds: usize) -> bool {
    let walks = (authors as u64)
        .saturating_mul(kinds as u64)
        .saturating_mul(ROWS_PER_WALK);
    let at_this_rate = wanted
        .saturating_sub(picked)
        .saturating_mul(scanned)
        .checked_div(picked);
    // Nothing picked yet says nothing about what is to come, but the walks' worth of rows is all it may cost.
    let to_scan = at_this_rate.unwrap_or(scanned);
    to_scan > walks
}

#[cfg(test)]
mod tests {
    use super::too_dear;

    #[test]
    fn a_feed_goes_on_while_it_is_the_cheaper_way() {
        // Every third row is picked: 500 events cost 1,500 rows, 300 walks would cost 4,800.
        assert!(!too_dear(128, 43, 500, 300, 1));
        // Nothing picked after more rows than the walks cost.
        assert!(!too_dear(128, 0, 500, 8, 1));
        assert!(too_dear(256, 0, 500, 8, 1));
        // One in a hundred.
        assert!(too_dear(1000, 10, 500, 100, 1));
    }
}
