//! Dead letters: what moves there unasked in a sweep, and what operators do with them (CQ-06, CI-02).

use esker_coord_api::{Channel, DeadPage, Job, Name};
use rusqlite::{Connection, Params, params};

use crate::{
    Error, Transaction,
    engine::jobs::{dead_jobs, find_dead, find_queue, live_jobs, read_dead, read_live, revive, settle},
};

/// Expired jobs, held ones too: of one kind, see the schema.
pub(crate) const SWEEP_EXPIRED: &str =
    live_jobs!("INDEXED BY coord_job_expiry WHERE queue = ?1 AND flight = ?2 AND expires_at <= ?3 LIMIT ?4");
/// Lapsed claims without attempts left.
pub(crate) const SWEEP_SPENT: &str = live_jobs!(
    "INDEXED BY coord_job_flight WHERE queue = ?1 AND flight > 0 AND flight = 2 AND deadline < ?2 LIMIT ?3"
);
pub(crate) const FORGET: &str = "DELETE FROM coord_dead WHERE queue = ?1 AND kept_until <= ?2";
pub(crate) const PAGE: &str = dead_jobs!("WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
pub(crate) const PURGE: &str = "DELETE FROM coord_dead WHERE queue = ?1";

/// Jobs that are in memory at once.
const SLICE: i64 = 256;

/// Moves all that the clock has decided to dead, and deletes dead jobs past their retention; tells how many moved.
pub(crate) fn sweep_expired(conn: &Connection, queue: &Name, now: i64) -> Result<u64, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(0);
    };
    let mut moved = 0;
    for flight in [0, 1, 2, 3] {
        moved += settle_all(
            conn,
            SWEEP_EXPIRED,
            params![id, flight, now, SLICE],
            id,
            queue,
            now,
        )?;
    }
    moved += settle_all(conn, SWEEP_SPENT, params![id, now, SLICE], id, queue, now)?;
    conn.prepare_cached(FORGET)?.execute([id, now])?;
    Ok(moved)
}

/// Dead jobs, by id.
pub(crate) fn page(conn: &Connection, queue: &Name, page: DeadPage) -> Result<Vec<Job>, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(Vec::new());
    };
    Ok(slice(conn, id, queue, page.after, page.limit)?)
}

/// Makes a dead job pending again, and tells whether it was there.
pub(crate) fn redrive(tx: &mut Transaction<'_>, queue: &Name, id: i64, now: i64) -> Result<bool, Error> {
    let Some(of) = find_queue(tx.sql(), queue)? else {
        return Ok(false);
    };
    let Some(job) = find_dead(tx.sql(), of, queue, id)? else {
        return Ok(false);
    };
    revive(tx.sql(), of, &job, now)?;
    tx.wake(&Channel::queue(queue));
    Ok(true)
}

/// Makes all dead jobs pending again, and tells how many.
pub(crate) fn redrive_all(tx: &mut Transaction<'_>, queue: &Name, now: i64) -> Result<u64, Error> {
    let Some(id) = find_queue(tx.sql(), queue)? else {
        return Ok(0);
    };
    let mut redriven = 0;
    loop {
        let jobs = slice(tx.sql(), id, queue, i64::MIN, SLICE)?;
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            revive(tx.sql(), id, &job, now)?;
            redriven += 1;
        }
    }
    if redriven > 0 {
        tx.wake(&Channel::queue(queue));
    }
    Ok(redriven)
}

/// Deletes all dead jobs, and tells how many.
pub(crate) fn purge(conn: &Connection, queue: &Name) -> Result<u64, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(0);
    };
    let purged = conn.prepare_cached(PURGE)?.execute([id])?;
    Ok(u64::try_from(purged).unwrap_or(u64::MAX))
}

fn slice(conn: &Connection, queue: i64, name: &Name, after: i64, limit: i64) -> rusqlite::Result<Vec<Job>> {
    let mut page = conn.prepare_cached(PAGE)?;
    let jobs = page.query_map([queue, after, limit], |row| read_dead(row, name))?;
    jobs.collect()
}

/// Moves what the statement finds, until it finds nothing.
fn settle_all(
    conn: &Connection,
    sql: &str,
    params: impl Params + Copy,
    queue: i64,
    name: &Name,
    now: i64,
) -> Result<u64, Error> {
    let mut moved = 0;
    let mut find = conn.prepare_cached(sql)?;
    loop {
        let jobs: Vec<Job> = find
            .query_map(params, |row| read_live(row, name))?
            .collect::<rusqlite::Result<_>>()?;
        let before = moved;
        for job in jobs {
            moved += u64::from(settle(conn, queue, &job, now, true)?);
        }
        if moved == before {
            return Ok(moved);
        }
    }
}
