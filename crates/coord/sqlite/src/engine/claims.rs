//! Claiming: settle what the clock has decided, then take from the ready index in the contract's order (CQ-02, CQ-08).

use esker_coord_api::{Claimed, Job, JobState, LocalName, MOST_SETTLED, Name};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    Error,
    engine::jobs::{self, find_queue, live_jobs, read_live},
};

/// Lapsed claims of one kind: 1 with attempts left, 2 without.
pub(crate) const LAPSED: &str = live_jobs!(
    "INDEXED BY coord_job_flight WHERE queue = ?1 AND flight > 0 AND flight = ?2 AND deadline < ?3 ORDER BY deadline LIMIT ?4"
);
/// Expired jobs that nobody holds.
pub(crate) const EXPIRED: &str = live_jobs!(
    "INDEXED BY coord_job_expiry WHERE queue = ?1 AND flight IN (0, 3) AND expires_at <= ?2 \
     AND (deadline IS NULL OR deadline < ?2) LIMIT ?3"
);
/// Its time has come before, though the clock may have been set back since.
pub(crate) const REOPEN: &str = "UPDATE coord_job SET flight = 3, run_at = min(run_at, ?2) WHERE id = ?1";
pub(crate) const FIRST_PRIORITY: &str = "SELECT priority FROM coord_job INDEXED BY coord_job_ready \
     WHERE queue = ?1 AND flight IN (0, 3) ORDER BY priority DESC LIMIT 1";
pub(crate) const NEXT_PRIORITY: &str = "SELECT priority FROM coord_job INDEXED BY coord_job_ready \
     WHERE queue = ?1 AND flight IN (0, 3) AND priority < ?2 ORDER BY priority DESC LIMIT 1";
/// What is due of one priority. A claim whose deadline is to come again, after the clock was set back, holds.
pub(crate) const DUE: &str = live_jobs!(
    "INDEXED BY coord_job_ready WHERE queue = ?1 AND flight IN (0, 3) AND priority = ?2 AND run_at <= ?3 \
     AND (expires_at IS NULL OR expires_at > ?3) AND (deadline IS NULL OR deadline < ?3) ORDER BY run_at, id LIMIT ?4"
);
pub(crate) const CLAIM: &str = "UPDATE coord_job SET flight = ?2, attempts = ?3, deadline = ?4, claimed_at = ?5, \
     token = ?6, worker = ?7 WHERE id = ?1";

/// When the first job of one priority is ready that has not expired by then.
pub(crate) const FIRST_READY: &str = "SELECT max(run_at, ifnull(deadline + 1, run_at)) FROM coord_job \
     INDEXED BY coord_job_ready WHERE queue = ?1 AND flight IN (0, 3) AND priority = ?2 \
     AND (expires_at IS NULL OR expires_at > max(run_at, ?3)) ORDER BY run_at LIMIT 1";
/// The first deadline of a claim whose job can be claimed after it.
pub(crate) const FIRST_LAPSE: &str = "SELECT deadline FROM coord_job INDEXED BY coord_job_flight \
     WHERE queue = ?1 AND flight > 0 AND flight = 1 AND (expires_at IS NULL OR expires_at > max(deadline + 1, ?2)) \
     ORDER BY deadline LIMIT 1";
/// Whether a claim would settle something.
pub(crate) const UNSETTLED: &str = "SELECT EXISTS (SELECT 1 FROM coord_job INDEXED BY coord_job_flight \
         WHERE queue = ?1 AND flight > 0 AND flight = 1 AND deadline < ?2) \
     OR EXISTS (SELECT 1 FROM coord_job INDEXED BY coord_job_flight \
         WHERE queue = ?1 AND flight > 0 AND flight = 2 AND deadline < ?2) \
     OR EXISTS (SELECT 1 FROM coord_job INDEXED BY coord_job_expiry \
         WHERE queue = ?1 AND flight IN (0, 3) AND expires_at <= ?2)";

/// Claims at most `n` jobs.
pub(crate) fn claim(
    conn: &Connection,
    queue: &Name,
    worker: &LocalName,
    token: i64,
    n: usize,
    now: i64,
) -> Result<Vec<Claimed>, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(Vec::new());
    };
    settle(conn, id, queue, now)?;
    let mut claimed = due(conn, id, queue, n, now)?;
    let mut mark = conn.prepare_cached(CLAIM)?;
    for job in &mut claimed {
        job.state = JobState::Processing;
        job.attempts += 1;
        job.worker = Some(worker.clone());
        job.claimed_at = Some(now);
        let deadline = now.saturating_add(job.stamps.visibility_timeout_s);
        job.claim_expires_at = Some(deadline);
        mark.execute(params![
            job.id,
            jobs::flight(job),
            job.attempts,
            deadline,
            now,
            token,
            worker.as_str()
        ])?;
    }
    Ok(claimed.into_iter().map(|job| Claimed { job, token }).collect())
}

/// Moves to dead what the clock has decided, and puts lapsed jobs with attempts left back into the order of claims; they
/// keep the claim that lapsed until the next.
fn settle(conn: &Connection, queue: i64, name: &Name, now: i64) -> Result<(), Error> {
    for flight in [1, 2] {
        let lapsed = select(conn, LAPSED, params![queue, flight, now, most_settled()], name)?;
        for job in lapsed {
            if !jobs::settle(conn, queue, &job, now, false)? {
                conn.prepare_cached(REOPEN)?.execute([job.id, now])?;
            }
        }
    }
    for job in select(conn, EXPIRED, params![queue, now, most_settled()], name)? {
        jobs::settle(conn, queue, &job, now, false)?;
    }
    Ok(())
}

/// The jobs that come first. Within a priority those that are due come before those that are not, so nothing is met that
/// is not returned; priorities are skipped through, one search each.
fn due(conn: &Connection, queue: i64, name: &Name, n: usize, now: i64) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    let mut priority = first_priority(conn, queue)?;
    while let Some(of) = priority {
        let wanted = i64::try_from(n - found.len()).unwrap_or(i64::MAX);
        found.extend(select(conn, DUE, params![queue, of, now, wanted], name)?);
        if found.len() >= n {
            break;
        }
        priority = next_priority(conn, queue, of)?;
    }
    Ok(found)
}

/// Whether a claim would find or settle something: for a look without the write lock.
pub(crate) fn has_work(conn: &Connection, queue: &Name, now: i64) -> Result<bool, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(false);
    };
    let unsettled = conn
        .prepare_cached(UNSETTLED)?
        .query_one([id, now], |row| row.get(0))?;
    Ok(unsettled || first_ready(conn, id, now)?.is_some_and(|at| at <= now))
}

/// When a claim will next find something (CQ-07).
pub(crate) fn next_ready(conn: &Connection, queue: &Name, now: i64) -> Result<Option<i64>, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(None);
    };
    let lapse: Option<i64> = conn
        .prepare_cached(FIRST_LAPSE)?
        .query_one([id, now], |row| row.get(0))
        .optional()?;
    let lapse = lapse.map(|deadline| deadline.saturating_add(1));
    let ready = first_ready(conn, id, now)?;
    Ok(lapse.into_iter().chain(ready).min().map(|at| at.max(now)))
}

fn first_ready(conn: &Connection, queue: i64, now: i64) -> rusqlite::Result<Option<i64>> {
    let mut first = None;
    let mut priority = first_priority(conn, queue)?;
    while let Some(of) = priority {
        let ready: Option<i64> = conn
            .prepare_cached(FIRST_READY)?
            .query_one(params![queue, of, now], |row| row.get(0))
            .optional()?;
        first = first.into_iter().chain(ready).min();
        if first.is_some_and(|at| at <= now) {
            break;
        }
        priority = next_priority(conn, queue, of)?;
    }
    Ok(first)
}

pub(crate) fn first_priority(conn: &Connection, queue: i64) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(FIRST_PRIORITY)?
        .query_one([queue], |row| row.get(0))
        .optional()
}

pub(crate) fn next_priority(conn: &Connection, queue: i64, below: i64) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(NEXT_PRIORITY)?
        .query_one([queue, below], |row| row.get(0))
        .optional()
}

fn select(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    queue: &Name,
) -> rusqlite::Result<Vec<Job>> {
    let mut statement = conn.prepare_cached(sql)?;
    let jobs = statement.query_map(params, |row| read_live(row, queue))?;
    jobs.collect()
}

fn most_settled() -> i64 {
    i64::try_from(MOST_SETTLED).unwrap_or(i64::MAX)
}
