//! The store as one operation sees it: a reader's snapshot, or the writer in mid-transaction.

use esker_coord_sqlite::{
    Error,
    rusqlite::{self, Connection, OptionalExtension, Row},
};

use crate::{
    deferred::{Deferred, Gathered},
    keys::Secret,
};

/// What an operation reads from.
pub(crate) struct View<'c> {
    pub(crate) sql: &'c Connection,
    pub(crate) secret: Secret,
    deferred: &'c Deferred,
    /// The newest committed `seq`, where this is a reader's snapshot.
    last: Option<i64>,
    /// Events that expire at this time or before are hidden.
    pub(crate) hidden_until: Option<i64>,
}

impl<'c> View<'c> {
    /// A reader's snapshot.
    pub(crate) fn snapshot(
        sql: &'c Connection,
        deferred: &'c Deferred,
        secret: Secret,
    ) -> Result<Self, Error> {
        let last = newest_offset(sql)?;
        Ok(Self {
            sql,
            secret,
            deferred,
            last: Some(last),
            hidden_until: None,
        })
    }

    /// The writer's own view, uncommitted work included.
    pub(crate) fn writer(sql: &'c Connection, deferred: &'c Deferred, secret: Secret) -> Self {
        Self {
            sql,
            secret,
            deferred,
            last: None,
            hidden_until: None,
        }
    }

    /// Hides what has expired by `now`, if asked to.
    pub(crate) fn hiding_expired(mut self, now: Option<i64>) -> Self {
        self.hidden_until = now;
        self
    }

    /// The newest `seq` that is part of this view.
    pub(crate) fn last(&self) -> i64 {
        self.last.unwrap_or(i64::MAX)
    }

    /// The rows of `tags` that are not in the file yet.
    pub(crate) fn gather(&self, tags: &[i64]) -> Result<Gathered, Error> {
        match self.last {
            Some(last) => self.deferred.gather(self.sql, last, tags),
            None => self
                .deferred
                .gather_uncommitted(self.sql, tags)
                .map(Gathered::Rows),
        }
    }
}

/// A column that holds a blob.
pub(crate) fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], Error> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}

/// The stream's newest offset: the highest `seq` ever used, stored or since removed.
pub(crate) fn newest_offset(sql: &Connection) -> Result<i64, Error> {
    let newest = sql
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(0))
}
