//! Queues: storing jobs, and what becomes of claimed ones (CQ-*).

use esker_coord_api::{Channel, Claim, FAILED, Job, Name, NewJob, spent_error};
use rusqlite::{Connection, params};

use crate::{
    Error, Transaction,
    engine::jobs::{
        DELETE_PAYLOAD, HAS_PAYLOADS, bury, delete, find_dead, find_held, find_live, find_queue, flight,
        insert,
    },
};

pub(crate) const ACK: &str = "DELETE FROM coord_job \
     WHERE id = ?1 AND queue = ?2 AND token = ?3 AND worker = ?4 AND deadline >= ?5";
pub(crate) const PUT_BACK: &str = "UPDATE coord_job SET flight = 0, run_at = ?2, attempts = ?3, last_error = ?4, \
     deadline = NULL, claimed_at = NULL, token = NULL, worker = NULL WHERE id = ?1";
pub(crate) const EXTEND: &str = "UPDATE coord_job SET deadline = ?2, flight = ?3 WHERE id = ?1";

/// Stores jobs and gives their ids (CQ-09).
pub(crate) fn enqueue(
    tx: &mut Transaction<'_>,
    queue: &Name,
    jobs: &[NewJob],
    now: i64,
) -> Result<Vec<i64>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let ids = insert(tx.sql(), queue, jobs, now)?;
    tx.wake(&Channel::queue(queue));
    Ok(ids)
}

/// Deletes the jobs of claims that still hold, and tells for each (CQ-03).
pub(crate) fn ack(conn: &Connection, queue: &Name, claims: &[Claim], now: i64) -> Result<Vec<bool>, Error> {
    let Some(id) = find_queue(conn, queue)? else {
        return Ok(vec![false; claims.len()]);
    };
    // Mostly there is none, which one look tells for all.
    let payloads: bool = conn
        .prepare_cached(HAS_PAYLOADS)?
        .query_one([], |row| row.get(0))?;
    let mut ack = conn.prepare_cached(ACK)?;
    let mut delete_payload = conn.prepare_cached(DELETE_PAYLOAD)?;
    let mut acked = Vec::with_capacity(claims.len());
    for claim in claims {
        let deleted = ack.execute(params![claim.id, id, claim.token, claim.worker.as_str(), now])?;
        if deleted > 0 && payloads {
            delete_payload.execute([claim.id])?;
        }
        acked.push(deleted > 0);
    }
    Ok(acked)
}

/// Puts a job back that is to be tried again, or moves it to dead when its attempts are spent (CQ-03).
pub(crate) fn retry(
    tx: &mut Transaction<'_>,
    queue: &Name,
    claim: &Claim,
    error: Option<&str>,
    delay: i64,
    now: i64,
) -> Result<bool, Error> {
    with_held(tx, queue, claim, now, |tx, id, job| {
        if job.attempts >= job.stamps.max_attempts {
            let error = spent_error(error.map(str::to_owned), job.last_error.clone());
            bury(tx.sql(), id, &job, &error, now)?;
            return Ok(());
        }
        let error = error.or(job.last_error.as_deref());
        put_back(tx, queue, &job, now.saturating_add(delay), job.attempts, error)
    })
}

/// Moves a job to dead that can never succeed (CQ-03).
pub(crate) fn fail(
    tx: &mut Transaction<'_>,
    queue: &Name,
    claim: &Claim,
    error: Option<&str>,
    now: i64,
) -> Result<bool, Error> {
    with_held(tx, queue, claim, now, |tx, id, job| {
        Ok(bury(tx.sql(), id, &job, error.unwrap_or(FAILED), now)?)
    })
}

/// Puts a job back as if it had not been claimed.
pub(crate) fn release(
    tx: &mut Transaction<'_>,
    queue: &Name,
    claim: &Claim,
    now: i64,
) -> Result<bool, Error> {
    with_held(tx, queue, claim, now, |tx, _, job| {
        put_back(
            tx,
            queue,
            &job,
            job.run_at,
            job.attempts - 1,
            job.last_error.as_deref(),
        )
    })
}

/// Sets the deadline of a claim to `extend` seconds from now (CQ-03).
pub(crate) fn heartbeat(
    tx: &mut Transaction<'_>,
    queue: &Name,
    claim: &Claim,
    extend: i64,
    now: i64,
) -> Result<bool, Error> {
    with_held(tx, queue, claim, now, |tx, _, mut job| {
        let deadline = now.saturating_add(extend);
        let before = job.claim_expires_at.replace(deadline);
        tx.sql()
            .prepare_cached(EXTEND)?
            .execute([job.id, deadline, flight(&job)])?;
        // Who waits for the lapse may now wait too long.
        if before.is_some_and(|before| deadline < before) {
            tx.wake(&Channel::queue(queue));
        }
        Ok(())
    })
}

/// Deletes a live job, whoever holds it (CQ-06).
pub(crate) fn cancel(conn: &Connection, queue: &Name, id: i64) -> Result<bool, Error> {
    let Some(of) = find_queue(conn, queue)? else {
        return Ok(false);
    };
    let found = find_live(conn, of, queue, id)?.is_some();
    if found {
        delete(conn, id)?;
    }
    Ok(found)
}

/// A live or dead job of the queue (CQ-05).
pub(crate) fn get_job(conn: &Connection, queue: &Name, id: i64) -> Result<Option<Job>, Error> {
    let Some(of) = find_queue(conn, queue)? else {
        return Ok(None);
    };
    match find_live(conn, of, queue, id)? {
        Some(job) => Ok(Some(job)),
        None => Ok(find_dead(conn, of, queue, id)?),
    }
}

/// Runs `then` on the job of a claim, if that still holds, and tells whether it did.
fn with_held(
    tx: &mut Transaction<'_>,
    queue: &Name,
    claim: &Claim,
    now: i64,
    then: impl FnOnce(&mut Transaction<'_>, i64, Job) -> Result<(), Error>,
) -> Result<bool, Error> {
    let Some(id) = find_queue(tx.sql(), queue)? else {
        return Ok(false);
    };
    match find_held(tx.sql(), id, queue, claim, now)? {
        Some(job) => then(tx, id, job).map(|()| true),
        None => Ok(false),
    }
}

/// Makes a job pending; who waits is woken, because it may be ready before what they wait for.
fn put_back(
    tx: &mut Transaction<'_>,
    queue: &Name,
    job: &Job,
    run_at: i64,
    attempts: i64,
    error: Option<&str>,
) -> Result<(), Error> {
    tx.sql()
        .prepare_cached(PUT_BACK)?
        .execute(params![job.id, run_at, attempts, error])?;
    tx.wake(&Channel::queue(queue));
    Ok(())
}
