//! Locks that lapse, with fences (CL-*).

use esker_coord_api::{Channel, LocalName, LockAttempt, Name, NextTime};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Error, Transaction};

pub(crate) const FIND: &str = "SELECT fence, owner, expires_at FROM coord_lock \
     WHERE name = ?1 AND owner IS NOT NULL AND expires_at > ?2";
pub(crate) const TAKE: &str = "INSERT INTO coord_lock (name, fence, owner, expires_at) VALUES (?1, 1, ?2, ?3) \
     ON CONFLICT DO UPDATE SET fence = fence + 1, owner = excluded.owner, expires_at = excluded.expires_at \
     RETURNING fence";
pub(crate) const RENEW: &str = "UPDATE coord_lock SET expires_at = ?4 \
     WHERE name = ?1 AND fence = ?2 AND owner IS NOT NULL AND expires_at > ?3";
pub(crate) const RELEASE: &str = "UPDATE coord_lock SET owner = NULL \
     WHERE name = ?1 AND fence = ?2 AND owner IS NOT NULL AND expires_at > ?3";

/// The lock as it is held; `None` when it can be taken. For a look without the write lock, and for the taking.
pub(crate) fn look(
    conn: &Connection,
    name: &Name,
    owner: &LocalName,
    now: i64,
) -> Result<Option<LockAttempt>, Error> {
    let held = conn
        .prepare_cached(FIND)?
        .query_one(params![name.as_str(), now], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
        })
        .optional()?;
    Ok(held.map(|(fence, by, until)| {
        let until = NextTime::seen(until, now);
        if by == owner.as_str() {
            LockAttempt::Held { fence, until }
        } else {
            LockAttempt::Lost(until)
        }
    }))
}

/// Takes a lock that is free or lapsed, under a fence greater than every earlier one (CL-03).
pub(crate) fn try_lock(
    conn: &Connection,
    name: &Name,
    owner: &LocalName,
    ttl: i64,
    now: i64,
) -> Result<LockAttempt, Error> {
    if let Some(held) = look(conn, name, owner, now)? {
        return Ok(held);
    }
    let until = now.saturating_add(ttl);
    let taken = params![name.as_str(), owner.as_str(), until];
    let fence = conn.prepare_cached(TAKE)?.query_one(taken, |row| row.get(0))?;
    let until = NextTime::seen(until, now);
    Ok(LockAttempt::Held { fence, until })
}

/// Gives a lock that still holds a full new window.
pub(crate) fn renew(conn: &Connection, name: &Name, fence: i64, ttl: i64, now: i64) -> Result<bool, Error> {
    let until = now.saturating_add(ttl);
    let renewed = conn
        .prepare_cached(RENEW)?
        .execute(params![name.as_str(), fence, now, until])?;
    Ok(renewed > 0)
}

/// Gives back a lock that still holds.
pub(crate) fn release(tx: &mut Transaction<'_>, name: &Name, fence: i64, now: i64) -> Result<bool, Error> {
    let released = tx
        .sql()
        .prepare_cached(RELEASE)?
        .execute(params![name.as_str(), fence, now])?;
    if let Some(channel) = Channel::released(name).filter(|_| released > 0) {
        tx.wake(&channel);
    }
    Ok(released > 0)
}

/// Whether a lock holds under this fence.
pub(crate) fn holds(conn: &Connection, name: &Name, fence: i64, now: i64) -> Result<bool, Error> {
    let held = conn
        .prepare_cached(FIND)?
        .query_one(params![name.as_str(), now], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(held == Some(fence))
}
