//! Counts that need no event: everything, and kinds within times, straight from an index (STORE-C01).

use std::sync::Arc;

use esker_coord_sqlite::{
    Error,
    rusqlite::{Connection, params},
};
use esker_events_api::{Filters, Query};
use esker_nostr::Filter;

pub(crate) const COUNT_ALL: &str = "SELECT coalesce(sum(events), 0) FROM kinds";
pub(crate) const COUNT_TIME: &str = "SELECT count(*) FROM by_time WHERE time BETWEEN ?1 AND ?2";
pub(crate) const COUNT_KIND: &str = "SELECT count(*) FROM by_kind WHERE kind = ?3 AND time BETWEEN ?1 AND ?2";
const COUNT_KIND_ALL: &str = "SELECT coalesce(sum(events), 0) FROM kinds WHERE kind = ?1";
const HIDDEN: &str = "SELECT EXISTS (SELECT 1 FROM by_expiry WHERE expires <= ?1)";

/// The filter, if it is the only one and asks for kinds and times only: its count is an index's.
pub(crate) fn plain(filters: &Filters) -> Option<&Filter> {
    let [filter] = &filters[..] else { return None };
    let plain = filter.ids.is_none()
        && filter.authors.is_none()
        && filter.tags.is_empty()
        && filter.tags_all.is_empty()
        && Query::new(Arc::clone(filters)).is_open(0);
    plain.then_some(filter)
}

/// A [`plain`] filter's count. `hiding` is the time by which expired events are hidden; while one waits for the
/// sweep, an index cannot tell.
pub(crate) fn fast_count(
    sql: &Connection,
    filter: &Filter,
    hiding: Option<i64>,
) -> Result<Option<u64>, Error> {
    if let Some(now) = hiding
        && sql.prepare_cached(HIDDEN)?.query_row([now], |row| row.get(0))?
    {
        return Ok(None);
    }
    let (since, until) = (filter.since.unwrap_or(i64::MIN), filter.until.unwrap_or(i64::MAX));
    let timeless = filter.since.is_none() && filter.until.is_none();
    let mut count = 0;
    match &filter.kinds {
        None if timeless => count = sql.prepare_cached(COUNT_ALL)?.query_row([], |row| row.get(0))?,
        None => {
            count = sql
                .prepare_cached(COUNT_TIME)?
                .query_row([since, until], |row| row.get(0))?;
        }
        Some(kinds) if timeless => {
            let mut statement = sql.prepare_cached(COUNT_KIND_ALL)?;
            for kind in kinds.iter() {
                count += statement.query_row([kind], |row| row.get::<_, u64>(0))?;
            }
        }
        Some(kinds) => {
            let mut statement = sql.prepare_cached(COUNT_KIND)?;
            for kind in kinds.iter() {
                count += statement.query_row(params![since, until, kind], |row| row.get::<_, u64>(0))?;
            }
        }
    }
    Ok(Some(filter.limit.map_or(count, |limit| count.min(limit))))
}
