//! Walks over the index tables, newest first, a page of keys at a time.
//!
//! A page is read by a statement that is run to its end, so that one prepared statement serves any number of
//! walks, and no walk holds anything while its keys are used.

use esker_coord_sqlite::{
    Error,
    rusqlite::{self, Connection, Row, params, params_from_iter},
};

use crate::keys::Key;

/// One path through one table: equal leading columns, then newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Path {
    Time,
    Kind(u16),
    Author { author: i64, kind: u16 },
    Tag { tag: i64, kind: u16 },
}

pub(crate) const BY_TIME: &str = "
    SELECT time, place, seq FROM by_time
    WHERE (time, place, seq) < (?1, ?2, ?3) AND time >= ?4
    ORDER BY time DESC, place DESC, seq DESC LIMIT ?5";

pub(crate) const BY_KIND: &str = "
    SELECT time, place, seq FROM by_kind
    WHERE kind = ?6 AND (time, place, seq) < (?1, ?2, ?3) AND time >= ?4
    ORDER BY time DESC, place DESC, seq DESC LIMIT ?5";

pub(crate) const BY_KIND_WITH_AUTHOR: &str = "
    SELECT time, place, seq, author FROM by_kind
    WHERE kind = ?6 AND (time, place, seq) < (?1, ?2, ?3) AND time >= ?4
    ORDER BY time DESC, place DESC, seq DESC LIMIT ?5";

pub(crate) const BY_AUTHOR: &str = "
    SELECT time, place, seq FROM by_author
    WHERE author = ?6 AND kind = ?7 AND (time, place, seq) < (?1, ?2, ?3) AND time >= ?4
    ORDER BY time DESC, place DESC, seq DESC LIMIT ?5";

pub(crate) const BY_TAG: &str = "
    SELECT time, place, seq FROM by_tag
    WHERE tag = ?6 AND kind = ?7 AND (time, place, seq) < (?1, ?2, ?3) AND time >= ?4
    ORDER BY time DESC, place DESC, seq DESC LIMIT ?5";

/// The times a walk is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// Keys below this one.
    pub(crate) below: Key,
    /// Not older than this.
    pub(crate) since: i64,
}

impl Range {
    pub(crate) fn contains(&self, key: Key) -> bool {
        key < self.below && key.time >= self.since
    }
}

/// What the walks of one query have cost: asserted by tests, so that no query shape grows with the store unseen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Statements run.
    pub statements: u64,
    /// Index rows read.
    pub rows: u64,
    /// Events fetched.
    pub events: u64,
}

/// Reads up to `limit` keys of a path within a range, newest first, into `keys`.
pub(crate) fn read_keys(
    sql: &Connection,
    path: Path,
    range: Range,
    limit: usize,
    keys: &mut Vec<Key>,
    cost: &mut Cost,
) -> Result<(), Error> {
    let each = |row: &Row<'_>| {
        keys.push(key(row)?);
        Ok(())
    };
    match path {
        Path::Time => read(sql, BY_TIME, &[], range, limit, cost, each),
        Path::Kind(kind) => read(sql, BY_KIND, &[kind.into()], range, limit, cost, each),
        Path::Author { author, kind } => {
            read(sql, BY_AUTHOR, &[author, kind.into()], range, limit, cost, each)
        }
        Path::Tag { tag, kind } => read(sql, BY_TAG, &[tag, kind.into()], range, limit, cost, each),
    }
}

/// As [`read_keys`] for one kind, with each event's author.
pub(crate) fn read_keys_with_author(
    sql: &Connection,
    kind: u16,
    range: Range,
    limit: usize,
    keys: &mut Vec<(Key, i64)>,
    cost: &mut Cost,
) -> Result<(), Error> {
    read(
        sql,
        BY_KIND_WITH_AUTHOR,
        &[kind.into()],
        range,
        limit,
        cost,
        |row| {
            keys.push((key(row)?, row.get(3)?));
            Ok(())
        },
    )
}

/// Runs one of the walks' statements to its end; `leading` are the values of its leading columns.
fn read(
    sql: &Connection,
    statement: &str,
    leading: &[i64],
    range: Range,
    limit: usize,
    cost: &mut Cost,
    mut each: impl FnMut(&Row<'_>) -> Result<(), rusqlite::Error>,
) -> Result<(), Error> {
    let Key { time, place, seq } = range.below;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let bounds = [time, place, seq, range.since, limit];
    let mut statement = sql.prepare_cached(statement)?;
    let mut rows = statement.query(params_from_iter(bounds.iter().chain(leading)))?;
    cost.statements += 1;
    while let Some(row) = rows.next()? {
        cost.rows += 1;
        each(row)?;
    }
    Ok(())
}

fn key(row: &Row<'_>) -> Result<Key, rusqlite::Error> {
    Ok(Key {
        time: row.get(0)?,
        place: row.get(1)?,
        seq: row.get(2)?,
    })
}

/// Which kinds have rows under an equal leading column: one seek per kind present.
pub(crate) fn kinds_present(sql: &Connection, leading: Leading, cost: &mut Cost) -> Result<Vec<u16>, Error> {
    let (text, value) = match leading {
        Leading::Author(author) => (KINDS_OF_AUTHOR, author),
        Leading::Tag(tag) => (KINDS_OF_TAG, tag),
    };
    let mut statement = sql.prepare_cached(text)?;
    let mut kinds = Vec::new();
    let mut above = -1_i64;
    loop {
        cost.statements += 1;
        let next: Option<u16> = statement.query_row(params![value, above], |row| row.get(0))?;
        let Some(kind) = next else { return Ok(kinds) };
        cost.rows += 1;
        kinds.push(kind);
        above = i64::from(kind);
    }
}

/// The leading column of an index that goes by kind beneath it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leading {
    Author(i64),
    Tag(i64),
}

impl Leading {
    /// The path of one kind.
    pub(crate) fn of_kind(self, kind: u16) -> Path {
        match self {
            Self::Author(author) => Path::Author { author, kind },
            Self::Tag(tag) => Path::Tag { tag, kind },
        }
    }
}

pub(crate) const KINDS_OF_AUTHOR: &str = "SELECT min(kind) FROM by_author WHERE author = ?1 AND kind > ?2";
pub(crate) const KINDS_OF_TAG: &str = "SELECT min(kind) FROM by_tag WHERE tag = ?1 AND kind > ?2";

/// A walk over one path, a page at a time; pages grow, since most walks end early.
#[derive(Debug)]
pub(crate) struct Walk {
    path: Path,
    range: Range,
    page: usize,
    /// The keys of the current page still to come, newest last.
    keys: Vec<Key>,
    ended: bool,
}

const LARGEST_PAGE: usize = 512;

impl Walk {
    pub(crate) fn new(path: Path, range: Range, first_page: usize) -> Self {
        Self {
            path,
            range,
            page: first_page.clamp(1, LARGEST_PAGE),
            keys: Vec::new(),
            ended: false,
        }
    }

    pub(crate) fn next(&mut self, sql: &Connection, cost: &mut Cost) -> Result<Option<Key>, Error> {
        if self.keys.is_empty() && !self.ended {
            read_keys(sql, self.path, self.range, self.page, &mut self.keys, cost)?;
            self.ended = self.keys.len() < self.page;
            if let Some(last) = self.keys.last() {
                self.range.below = *last;
            }
            self.keys.reverse();
            self.page = (self.page * 4).min(LARGEST_PAGE);
        }
        Ok(self.keys.pop())
    }
}
