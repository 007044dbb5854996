//! What is asked of the store now and then: its secret, figures, what has expired, who lacks a relay list.

use esker_coord_sqlite::{
    Error, Snapshot,
    rusqlite::{Connection, OptionalExtension, params},
};
use esker_events_api::{KindStats, Stats};
use esker_nostr::{Canonical, EventFields, PublicKey, kind};

use crate::{keys::Secret, remove::fetch};

/// Events removed in one transaction of an expiry sweep: others write in between.
pub(crate) const SWEEP: usize = 500;

/// The secret that keys the file's hashes.
pub(crate) fn secret(snapshot: &mut Snapshot<'_>) -> Result<Secret, Error> {
    let secret: [u8; 16] = snapshot
        .sql()
        .query_row("SELECT secret FROM event_store", [], |row| row.get(0))?;
    let (halves, _) = secret.as_chunks::<8>();
    Ok(Secret(
        u64::from_be_bytes(halves[0]),
        u64::from_be_bytes(halves[1]),
    ))
}

/// Up to `limit` events that have expired by `now`, the longest expired first.
pub(crate) fn expired(sql: &Connection, now: i64, limit: usize) -> Result<Vec<i64>, Error> {
    let mut statement =
        sql.prepare_cached("SELECT seq FROM by_expiry WHERE expires <= ?1 ORDER BY expires, seq LIMIT ?2")?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let seqs = statement
        .query_map(params![now, limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(seqs)
}

/// Events and bytes by kind, and the ends of time.
pub(crate) fn stats(sql: &Connection) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    let mut statement =
        sql.prepare_cached("SELECT kind, events, bytes FROM kinds WHERE events > 0 ORDER BY kind")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let kind = KindStats {
            kind: row.get(0)?,
            events: row.get(1)?,
            json_bytes: row.get(2)?,
        };
        stats.events += kind.events;
        stats.json_bytes += kind.json_bytes;
        stats.kinds.push(kind);
    }
    stats.oldest = sql
        .prepare_cached("SELECT min(time) FROM by_time")?
        .query_row([], |row| row.get(0))?;
    stats.newest = sql
        .prepare_cached("SELECT max(time) FROM by_time")?
        .query_row([], |row| row.get(0))?;
    Ok(stats)
}

/// Authors with an event that is no gift wrap and without a relay list, in key order (STORE-K03): one seek per
/// author and two more, by the first 64 bits of the key.
pub(crate) fn authors_missing_outbox(sql: &Connection) -> Result<Vec<PublicKey>, Error> {
    let mut next_author = sql.prepare_cached("SELECT min(author) FROM by_author WHERE author > ?1")?;
    let mut has_list =
        sql.prepare_cached("SELECT EXISTS (SELECT 1 FROM by_author WHERE author = ?1 AND kind = ?2)")?;
    let mut some_event =
        sql.prepare_cached("SELECT seq FROM by_author WHERE author = ?1 AND kind <> ?2 LIMIT 1")?;
    let mut missing = Vec::new();
    let mut author = sql.query_row("SELECT min(author) FROM by_author", [], |row| {
        row.get::<_, Option<i64>>(0)
    })?;
    while let Some(current) = author {
        if !has_list.query_row(params![current, kind::RELAY_LIST], |row| row.get::<_, bool>(0))?
            && let Some(seq) = some_event
                .query_row(params![current, kind::GIFT_WRAP], |row| row.get(0))
                .optional()?
            && let Some(json) = fetch(sql, seq)?
        {
            missing.push(Canonical::new(&json).pubkey());
        }
        author = next_author.query_row([current], |row| row.get(0))?;
    }
    missing.sort_unstable();
    Ok(missing)
}
