//! What the store holds (CI-01), from indexes alone.

use esker_coord_api::{
    ConsumerInspection, Inspection, LockInspection, QueueInspection, ScheduleInspection, Spec,
    StreamInspection,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    Error,
    engine::{claims, streams::place},
};

pub(crate) const QUEUES: &str = "SELECT id, name FROM coord_queue ORDER BY name";
/// Of one priority, lapsed claims included: counted from the index alone.
pub(crate) const READY: &str = "SELECT count(*) FROM coord_job INDEXED BY coord_job_ready \
     WHERE queue = ?1 AND flight IN (0, 3) AND priority = ?2 AND run_at <= ?3";
pub(crate) const SCHEDULED: &str = "SELECT count(*) FROM coord_job INDEXED BY coord_job_ready \
     WHERE queue = ?1 AND flight IN (0, 3) AND priority = ?2 AND run_at > ?3";
/// The first of one priority that has no claim, not even a lapsed one.
pub(crate) const OLDEST: &str = "SELECT run_at FROM coord_job INDEXED BY coord_job_ready \
     WHERE queue = ?1 AND flight IN (0, 3) AND priority = ?2 AND run_at <= ?3 AND deadline IS NULL \
     ORDER BY run_at LIMIT 1";
pub(crate) const RUNNING: &str = "SELECT count(*) FROM coord_job INDEXED BY coord_job_flight \
     WHERE queue = ?1 AND flight > 0";
/// Lapsed claims among those counted as ready, and among those as scheduled, as when the clock was set back.
pub(crate) const LAPSED: &str = "SELECT count(*) FILTER (WHERE run_at <= ?2), count(*) FILTER (WHERE run_at > ?2) \
     FROM coord_job INDEXED BY coord_job_flight WHERE queue = ?1 AND flight > 0 AND flight = 3";
pub(crate) const DEAD: &str = "SELECT count(*) FROM coord_dead WHERE queue = ?1";
pub(crate) const STREAMS: &str = "SELECT id, name, last FROM coord_stream WHERE last > 0 ORDER BY name";
pub(crate) const FIRST: &str =
    "SELECT place FROM coord_event WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT 1";
pub(crate) const CONSUMERS: &str =
    "SELECT name, position FROM coord_consumer WHERE stream = ?1 ORDER BY name";
pub(crate) const LOCKS: &str = "SELECT name, owner, fence, expires_at FROM coord_lock INDEXED BY coord_lock_held \
     WHERE owner IS NOT NULL AND expires_at > ?1 ORDER BY name";
pub(crate) const SCHEDULES: &str = "SELECT name, every, queue, next FROM coord_schedule ORDER BY name";

/// What is there now.
pub(crate) fn inspect(conn: &Connection, now: i64) -> Result<Inspection, Error> {
    Ok(Inspection {
        queues: queues(conn, now)?,
        streams: streams(conn)?,
        locks: locks(conn, now)?,
        schedules: schedules(conn)?,
        size_bytes: None,
    })
}

fn queues(conn: &Connection, now: i64) -> Result<Vec<QueueInspection>, Error> {
    let mut all = conn.prepare_cached(QUEUES)?;
    let mut rows = all.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let mut queue = QueueInspection {
            name: row.get(1)?,
            ..QueueInspection::default()
        };
        let mut oldest: Option<i64> = None;
        let mut priority = claims::first_priority(conn, id)?;
        while let Some(of) = priority {
            let due = params![id, of, now];
            queue.ready += count(conn, READY, due)?;
            queue.scheduled += count(conn, SCHEDULED, due)?;
            let since = conn
                .prepare_cached(OLDEST)?
                .query_one(due, |row| row.get(0))
                .optional()?;
            oldest = oldest.into_iter().chain(since).min();
            priority = claims::next_priority(conn, id, of)?;
        }
        let (ready, scheduled): (u64, u64) = conn
            .prepare_cached(LAPSED)?
            .query_one([id, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
        queue.ready -= ready;
        queue.scheduled -= scheduled;
        queue.oldest_ready_s = oldest.map(|since| now.saturating_sub(since));
        queue.running = count(conn, RUNNING, [id])?;
        queue.dead = count(conn, DEAD, [id])?;
        queues.push(queue);
    }
    Ok(queues)
}

fn streams(conn: &Connection) -> Result<Vec<StreamInspection>, Error> {
    let mut all = conn.prepare_cached(STREAMS)?;
    let mut rows = all.query([])?;
    let mut streams = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, last): (i64, i64) = (row.get(0)?, row.get(2)?);
        let first = conn
            .prepare_cached(FIRST)?
            .query_one([place(id, 0), place(id, i64::MAX)], |row| row.get::<_, i64>(0))
            .optional()?;
        let consumers = conn
            .prepare_cached(CONSUMERS)?
            .query_map([id], |row| {
                Ok(ConsumerInspection::new(row.get(0)?, row.get(1)?, last))
            })?
            .collect::<rusqlite::Result<_>>()?;
        streams.push(StreamInspection {
            name: row.get(1)?,
            first: first.map(|found| found - place(id, 0)),
            last,
            consumers,
        });
    }
    Ok(streams)
}

fn locks(conn: &Connection, now: i64) -> Result<Vec<LockInspection>, Error> {
    let mut held = conn.prepare_cached(LOCKS)?;
    let locks = held.query_map([now], |row| {
        Ok(LockInspection {
            name: row.get(0)?,
            owner: row.get(1)?,
            fence: row.get(2)?,
            expires_in_s: row.get::<_, i64>(3)?.saturating_sub(now),
        })
    })?;
    Ok(locks.collect::<rusqlite::Result<_>>()?)
}

fn schedules(conn: &Connection) -> Result<Vec<ScheduleInspection>, Error> {
    let mut all = conn.prepare_cached(SCHEDULES)?;
    let mut rows = all.query([])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        let spec = Spec::every(row.get(1)?).map_err(|_| Error::Malformed("the interval of a schedule"))?;
        schedules.push(ScheduleInspection {
            name: row.get(0)?,
            spec: spec.to_string(),
            queue: row.get(2)?,
            next: row.get(3)?,
        });
    }
    Ok(schedules)
}

fn count(conn: &Connection, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<u64> {
    conn.prepare_cached(sql)?.query_one(params, |row| row.get(0))
}
