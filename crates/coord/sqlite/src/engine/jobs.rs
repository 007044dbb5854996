//! Job rows: how they are read, written, and moved between the live and the dead.

use esker_coord_api::{
    Claim, Job, JobState, LocalName, MAX_ATTEMPTS, Name, NewJob, Payload, QueueOptions, Settlement,
    is_claimable, settles, spent_error,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;

/// Payloads that are longer than this are kept apart from their job's row.
const INLINE: usize = 1024;

/// A live job, as [`read_live`] reads it.
macro_rules! live_jobs {
    ($rest:literal) => {
        concat!(
            "SELECT id, priority, run_at, attempts, max_attempts, visibility_timeout, backoff_base, retention, \
             created_at, expires_at, boundary, last_error, \
             ifnull(payload, (SELECT payload FROM coord_payload WHERE job = coord_job.id)), \
             worker, claimed_at, deadline FROM coord_job ",
            $rest
        )
    };
}
pub(crate) use live_jobs;

/// A dead job, as [`read_dead`] reads it.
macro_rules! dead_jobs {
    ($rest:literal) => {
        concat!(
            "SELECT id, priority, run_at, attempts, max_attempts, visibility_timeout, backoff_base, retention, \
             created_at, expires_at, boundary, last_error, payload, died_at FROM coord_dead ",
            $rest
        )
    };
}
pub(crate) use dead_jobs;

pub(crate) const FIND_QUEUE: &str = "SELECT id FROM coord_queue WHERE name = ?1";
pub(crate) const ADD_QUEUE: &str = "INSERT INTO coord_queue (name) VALUES (?1)";
pub(crate) const NEXT_IDS: &str = "UPDATE coord_job_id SET last = last + ?1 RETURNING last";
pub(crate) const INSERT: &str = "INSERT INTO coord_job (id, queue, flight, priority, run_at, attempts, max_attempts, \
     visibility_timeout, backoff_base, retention, created_at, expires_at, boundary, payload) \
     VALUES (?1, ?2, 0, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
pub(crate) const INSERT_PAYLOAD: &str = "INSERT INTO coord_payload (job, payload) VALUES (?1, ?2)";
pub(crate) const HAS_PAYLOADS: &str = "SELECT EXISTS (SELECT 1 FROM coord_payload)";
pub(crate) const DELETE: &str = "DELETE FROM coord_job WHERE id = ?1";
pub(crate) const DELETE_PAYLOAD: &str = "DELETE FROM coord_payload WHERE job = ?1";
pub(crate) const LIVE: &str = live_jobs!("WHERE id = ?1 AND queue = ?2");
pub(crate) const HELD: &str =
    live_jobs!("WHERE id = ?1 AND queue = ?2 AND token = ?3 AND worker = ?4 AND deadline >= ?5");
pub(crate) const DEAD: &str = dead_jobs!("WHERE id = ?1 AND queue = ?2");
pub(crate) const BURY: &str = "INSERT INTO coord_dead (id, queue, priority, run_at, attempts, max_attempts, \
     visibility_timeout, backoff_base, retention, created_at, expires_at, boundary, last_error, died_at, kept_until, \
     payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
pub(crate) const DELETE_DEAD: &str = "DELETE FROM coord_dead WHERE id = ?1";
pub(crate) const REVIVE: &str = "INSERT INTO coord_job (id, queue, flight, priority, run_at, attempts, max_attempts, \
     visibility_timeout, backoff_base, retention, created_at, boundary, last_error, payload) \
     VALUES (?1, ?2, 0, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

pub(crate) fn find_queue(conn: &Connection, queue: &Name) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(FIND_QUEUE)?
        .query_one([queue.as_str()], |row| row.get(0))
        .optional()
}

/// Stores jobs with fresh ids, and gives these, in order.
pub(crate) fn insert(conn: &Connection, queue: &Name, jobs: &[NewJob], now: i64) -> Result<Vec<i64>, Error> {
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    let queue = if let Some(queue) = find_queue(conn, queue)? {
        queue
    } else {
        conn.prepare_cached(ADD_QUEUE)?.execute([queue.as_str()])?;
        conn.last_insert_rowid()
    };
    let last: i64 = conn
        .prepare_cached(NEXT_IDS)?
        .query_one([count], |row| row.get(0))?;
    let ids: Vec<i64> = (last - count + 1..=last).collect();
    let mut insert = conn.prepare_cached(INSERT)?;
    for (job, id) in jobs.iter().zip(&ids) {
        insert.execute(params![
            id,
            queue,
            job.priority,
            job.run_at(now),
            job.stamps.max_attempts,
            job.stamps.visibility_timeout_s,
            job.stamps.backoff_base_s,
            job.stamps.dead_letter_retention_s,
            now,
            job.expires_at(now),
            job.boundary,
            inline(conn, *id, &job.payload)?,
        ])?;
    }
    Ok(ids)
}

/// The payload for the job's row; a large one is put apart.
fn inline<'p>(conn: &Connection, id: i64, payload: &'p Payload) -> rusqlite::Result<Option<&'p [u8]>> {
    let bytes = payload.as_bytes();
    if bytes.len() <= INLINE {
        return Ok(Some(bytes));
    }
    conn.prepare_cached(INSERT_PAYLOAD)?.execute(params![id, bytes])?;
    Ok(None)
}

/// Deletes a live job and what is apart of it.
pub(crate) fn delete(conn: &Connection, id: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(DELETE)?.execute([id])?;
    conn.prepare_cached(DELETE_PAYLOAD)?.execute([id])?;
    Ok(())
}

/// Moves a live job to the dead letters (CQ-05).
pub(crate) fn bury(conn: &Connection, queue: i64, job: &Job, error: &str, now: i64) -> rusqlite::Result<()> {
    let kept_until = job
        .stamps
        .dead_letter_retention_s
        .map(|retention| now.saturating_add(retention));
    conn.prepare_cached(BURY)?.execute(params![
        job.id,
        queue,
        job.priority,
        job.run_at,
        job.attempts,
        job.stamps.max_attempts,
        job.stamps.visibility_timeout_s,
        job.stamps.backoff_base_s,
        job.stamps.dead_letter_retention_s,
        job.created_at,
        job.expires_at,
        job.boundary,
        error,
        now,
        kept_until,
        job.payload.as_bytes(),
    ])?;
    delete(conn, job.id)
}

/// Moves a live job to dead if the clock has decided so, and tells whether it did.
pub(crate) fn settle(
    conn: &Connection,
    queue: i64,
    job: &Job,
    now: i64,
    sweep: bool,
) -> rusqlite::Result<bool> {
    let error = match settles(job, now, sweep) {
        Settlement::Live => return Ok(false),
        Settlement::Dead(MAX_ATTEMPTS) => spent_error(None, job.last_error.clone()),
        Settlement::Dead(error) => error.to_owned(),
    };
    bury(conn, queue, job, &error, now)?;
    Ok(true)
}

/// Makes a dead job pending, with all its attempts, ready now and without expiry (CI-02).
pub(crate) fn revive(conn: &Connection, queue: i64, job: &Job, now: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(DELETE_DEAD)?.execute([job.id])?;
    conn.prepare_cached(REVIVE)?.execute(params![
        job.id,
        queue,
        job.priority,
        now,
        job.stamps.max_attempts,
        job.stamps.visibility_timeout_s,
        job.stamps.backoff_base_s,
        job.stamps.dead_letter_retention_s,
        job.created_at,
        job.boundary,
        job.last_error,
        inline(conn, job.id, &job.payload)?,
    ])?;
    Ok(())
}

/// What `flight` says of a claimed job: whether it can be claimed again once its deadline has passed.
pub(crate) fn flight(job: &Job) -> i64 {
    let lapses = job.claim_expires_at.map(|deadline| deadline.saturating_add(1));
    if lapses.is_some_and(|time| is_claimable(job, time)) {
        1
    } else {
        2
    }
}

/// A live job of the queue.
pub(crate) fn find_live(
    conn: &Connection,
    queue: i64,
    name: &Name,
    id: i64,
) -> rusqlite::Result<Option<Job>> {
    conn.prepare_cached(LIVE)?
        .query_one([id, queue], |row| read_live(row, name))
        .optional()
}

/// A dead job of the queue.
pub(crate) fn find_dead(
    conn: &Connection,
    queue: i64,
    name: &Name,
    id: i64,
) -> rusqlite::Result<Option<Job>> {
    conn.prepare_cached(DEAD)?
        .query_one([id, queue], |row| read_dead(row, name))
        .optional()
}

/// The job of a claim that still holds (CQ-03).
pub(crate) fn find_held(
    conn: &Connection,
    queue: i64,
    name: &Name,
    claim: &Claim,
    now: i64,
) -> rusqlite::Result<Option<Job>> {
    let held = params![claim.id, queue, claim.token, claim.worker.as_str(), now];
    conn.prepare_cached(HELD)?
        .query_one(held, |row| read_live(row, name))
        .optional()
}

pub(crate) fn read_live(row: &Row<'_>, queue: &Name) -> rusqlite::Result<Job> {
    let worker: Option<String> = row.get(13)?;
    Ok(Job {
        state: match worker {
            Some(_) => JobState::Processing,
            None => JobState::Pending,
        },
        worker: worker.map(LocalName::trusted),
        claimed_at: row.get(14)?,
        claim_expires_at: row.get(15)?,
        ..common(row, queue)?
    })
}

pub(crate) fn read_dead(row: &Row<'_>, queue: &Name) -> rusqlite::Result<Job> {
    Ok(Job {
        died_at: row.get(13)?,
        ..common(row, queue)?
    })
}

fn common(row: &Row<'_>, queue: &Name) -> rusqlite::Result<Job> {
    Ok(Job {
        id: row.get(0)?,
        queue: queue.clone(),
        state: JobState::Dead,
        payload: Payload::new(row.get::<_, Vec<u8>>(12)?),
        priority: row.get(1)?,
        run_at: row.get(2)?,
        attempts: row.get(3)?,
        stamps: QueueOptions {
            max_attempts: row.get(4)?,
            visibility_timeout_s: row.get(5)?,
            backoff_base_s: row.get(6)?,
            dead_letter_retention_s: row.get(7)?,
        },
        worker: None,
        claimed_at: None,
        claim_expires_at: None,
        created_at: row.get(8)?,
        expires_at: row.get(9)?,
        boundary: row.get(10)?,
        last_error: row.get(11)?,
        died_at: None,
    })
}
