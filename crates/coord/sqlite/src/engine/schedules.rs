//! Schedules: what is due, fired under a lock (CD-*).

use esker_coord_api::{
    CatchUp, Channel, Firing, FiringRoom, Name, NewJob, NewSchedule, NextTime, Payload, QueueOptions, Spec,
    Start,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    Error, Transaction,
    engine::{locks, queues},
};

/// A schedule that is the same keeps its next boundary; a changed one starts anew (CD-03).
pub(crate) const UPSERT: &str = "INSERT INTO coord_schedule (name, every, next, queue, priority, expires, max_attempts, \
     visibility_timeout, backoff_base, retention, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
     ON CONFLICT (name) DO UPDATE SET next = iif(every = excluded.every, next, excluded.next), every = excluded.every, \
     queue = excluded.queue, priority = excluded.priority, expires = excluded.expires, \
     max_attempts = excluded.max_attempts, visibility_timeout = excluded.visibility_timeout, \
     backoff_base = excluded.backoff_base, retention = excluded.retention, payload = excluded.payload";
pub(crate) const REMOVE: &str = "DELETE FROM coord_schedule WHERE name = ?1";
pub(crate) const DUE: &str = "SELECT id, next, name, every, queue, priority, expires, max_attempts, visibility_timeout, \
     backoff_base, retention, payload FROM coord_schedule WHERE next <= ?1 ORDER BY next, id";
pub(crate) const ADVANCE: &str = "UPDATE coord_schedule SET next = ?2 WHERE id = ?1";
pub(crate) const NEXT: &str = "SELECT next FROM coord_schedule ORDER BY next LIMIT 1";

/// Adds or changes a schedule.
pub(crate) fn schedule(tx: &mut Transaction<'_>, schedule: &NewSchedule, now: i64) -> Result<(), Error> {
    let NewSchedule {
        name,
        spec,
        queue,
        job,
    } = schedule;
    tx.sql().prepare_cached(UPSERT)?.execute(params![
        name.as_str(),
        spec.seconds(),
        spec.first(now),
        queue.as_str(),
        job.priority,
        job.expires,
        job.stamps.max_attempts,
        job.stamps.visibility_timeout_s,
        job.stamps.backoff_base_s,
        job.stamps.dead_letter_retention_s,
        job.payload.as_bytes(),
    ])?;
    tx.wake(&Channel::schedules());
    Ok(())
}

/// Removes a schedule, and tells whether it was there.
pub(crate) fn unschedule(tx: &mut Transaction<'_>, name: &Name) -> Result<bool, Error> {
    let removed = tx.sql().prepare_cached(REMOVE)?.execute([name.as_str()])? > 0;
    if removed {
        tx.wake(&Channel::schedules());
    }
    Ok(removed)
}

/// Enqueues what has elapsed and advances the schedules, if the lock still holds under this fence (CD-03).
pub(crate) fn fire(tx: &mut Transaction<'_>, lock: &Name, fence: i64, now: i64) -> Result<Firing, Error> {
    if !locks::holds(tx.sql(), lock, fence, now)? {
        return Ok(Firing::Lost);
    }
    let mut fired = 0;
    for (id, schedule, elapsed) in longest_due(tx.sql(), now)? {
        let jobs: Vec<NewJob> = elapsed
            .fire
            .iter()
            .map(|boundary| schedule.job_at(*boundary))
            .collect();
        queues::enqueue(tx, &schedule.queue, &jobs, now)?;
        tx.sql().prepare_cached(ADVANCE)?.execute([id, elapsed.next])?;
        fired += jobs.len();
    }
    let next = next(tx.sql())?.map(|at| NextTime::seen(at, now));
    Ok(Firing::Fired {
        jobs: u64::try_from(fired).unwrap_or(u64::MAX),
        next,
    })
}

/// What has waited longest, as much as one transaction fires, and what fires of each.
fn longest_due(conn: &Connection, now: i64) -> Result<Vec<(i64, NewSchedule, CatchUp)>, Error> {
    let (mut found, mut room) = (Vec::new(), FiringRoom::default());
    let mut select = conn.prepare_cached(DUE)?;
    let mut rows = select.query([now])?;
    while room.is_left()
        && let Some(row) = rows.next()?
    {
        let (id, next, schedule) = due(row)?;
        let schedule = schedule?;
        let elapsed = schedule.spec.catch_up(next, now);
        room.take(&schedule, &elapsed);
        found.push((id, schedule, elapsed));
    }
    Ok(found)
}

fn next(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(NEXT)?
        .query_one([], |row| row.get(0))
        .optional()
}

fn due(row: &Row<'_>) -> rusqlite::Result<(i64, i64, Result<NewSchedule, Error>)> {
    let job = NewJob {
        payload: Payload::new(row.get::<_, Vec<u8>>(11)?),
        priority: row.get(5)?,
        start: Start::Now,
        expires: row.get(6)?,
        stamps: QueueOptions {
            max_attempts: row.get(7)?,
            visibility_timeout_s: row.get(8)?,
            backoff_base_s: row.get(9)?,
            dead_letter_retention_s: row.get(10)?,
        },
        boundary: None,
    };
    let name = Name::trusted(row.get::<_, String>(2)?);
    let queue = Name::trusted(row.get::<_, String>(4)?);
    let spec = Spec::every(row.get(3)?).map_err(|_| Error::Malformed("the interval of a schedule"));
    let schedule = spec.map(|spec| NewSchedule {
        name,
        spec,
        queue,
        job,
    });
    Ok((row.get(0)?, row.get(1)?, schedule))
}
