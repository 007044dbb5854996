//! Schedules, fired by who holds the lock, in one transaction with their advance (CD-*).

use esker_coord_api::{
    Channel, Firing, FiringRoom, Name, NewJob, NewSchedule, Payload, QueueOptions, Spec, Start,
};
use tokio_postgres::{Row, types::Type};

use crate::{
    Error,
    held::Held,
    job::{NewJobs, one},
    queues::next_time,
    shared::Shared,
};

const NOW: &str = "SELECT {schema}.clock($1)";

const SET: &str = "INSERT INTO {schema}.schedules AS s (name, every_s, next_at, queue, priority, expires_s, \
    max_attempts, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, payload) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (name) DO UPDATE SET \
    every_s = excluded.every_s, \
    next_at = CASE WHEN s.every_s = excluded.every_s THEN s.next_at ELSE excluded.next_at END, \
    queue = excluded.queue, priority = excluded.priority, expires_s = excluded.expires_s, \
    max_attempts = excluded.max_attempts, visibility_timeout_s = excluded.visibility_timeout_s, \
    backoff_base_s = excluded.backoff_base_s, dead_letter_retention_s = excluded.dead_letter_retention_s, \
    payload = excluded.payload";

/// Adds or changes a schedule. Unchanged, it keeps its next boundary.
pub(crate) async fn set(shared: &Shared, schedule: &NewSchedule) -> Result<(), Error> {
    let database = &shared.database;
    let now: i64 = match database.now() {
        Some(now) => now,
        None => one(&database.read(NOW, &[(&None::<i64>, Type::INT8)]).await?)?,
    };
    let (spec, job) = (schedule.spec, &schedule.job);
    database
        .write(
            SET,
            &[
                (&schedule.name.as_str(), Type::TEXT),
                (&spec.seconds(), Type::INT8),
                (&spec.first(now), Type::INT8),
                (&schedule.queue.as_str(), Type::TEXT),
                (&job.priority, Type::INT8),
                (&job.expires, Type::INT8),
                (&job.stamps.max_attempts, Type::INT8),
                (&job.stamps.visibility_timeout_s, Type::INT8),
                (&job.stamps.backoff_base_s, Type::INT8),
                (&job.stamps.dead_letter_retention_s, Type::INT8),
                (&job.payload.as_bytes(), Type::BYTEA),
            ],
        )
        .await?;
    shared.wake([Channel::schedules()]);
    Ok(())
}

const REMOVE: &str = "DELETE FROM {schema}.schedules WHERE name = $1 RETURNING 1";

/// Removes a schedule, and tells whether it was there.
pub(crate) async fn remove(shared: &Shared, name: &Name) -> Result<bool, Error> {
    let rows = shared
        .database
        .write(REMOVE, &[(&name.as_str(), Type::TEXT)])
        .await?;
    if !rows.is_empty() {
        shared.wake([Channel::schedules()]);
    }
    Ok(!rows.is_empty())
}

/// The time, if the lock is held; it then stays so until the commit.
const LEADS: &str = "SELECT c.now_s FROM {schema}.locks l, (SELECT {schema}.clock($1) AS now_s OFFSET 0) c \
    WHERE l.name = $2 AND l.fence = $3 AND l.owner IS NOT NULL AND l.expires_at > c.now_s FOR SHARE OF l";

/// Those that have waited longest, as many as one transaction may fire at most.
const DUE: &str = "SELECT s.name, s.every_s, s.next_at, s.queue, s.priority, s.expires_s, s.max_attempts, \
    s.visibility_timeout_s, s.backoff_base_s, s.dead_letter_retention_s, s.payload FROM {schema}.schedules s \
    WHERE s.next_at <= $1 AND s.name IN (SELECT d.name FROM (SELECT name, octet_length(payload) AS bytes, \
            sum(octet_length(payload)) OVER (ORDER BY next_at, name) AS total FROM {schema}.schedules \
            WHERE next_at <= $1 ORDER BY next_at, name LIMIT $2) d WHERE d.total - d.bytes < $3) \
    ORDER BY s.next_at, s.name FOR UPDATE OF s";

/// Advances, and tells the next boundary of all. The statement's own changes are not in what it reads.
const ADVANCE: &str = "WITH due AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS due (name, next_at)), \
    advanced AS (UPDATE {schema}.schedules s SET next_at = due.next_at FROM due WHERE s.name = due.name), \
    times AS (SELECT next_at FROM due UNION ALL \
        SELECT s.next_at FROM {schema}.schedules s WHERE s.name <> ALL ($2)) \
    SELECT min(next_at), {schema}.wait_ms(min(next_at), \
        {schema}.exact_clock($1)) FROM times";

/// Enqueues what has elapsed and advances the schedules.
pub(crate) async fn fire(shared: &Shared, lock: &Name, fence: i64) -> Result<Firing, Error> {
    let database = &shared.database;
    let mut transaction = Held::begin(database, "ISOLATION LEVEL READ COMMITTED").await?;
    let given = database.now();
    let leads = [
        (&given as _, Type::INT8),
        (&lock.as_str() as _, Type::TEXT),
        (&fence as _, Type::INT8),
    ];
    let found = transaction.query(LEADS, &leads).await?;
    let Some(now) = found.first().map(|row| row.get::<_, i64>(0)) else {
        return Ok(Firing::Lost);
    };
    let [jobs, bytes] =
        [FiringRoom::JOBS, FiringRoom::BYTES].map(|bound| i64::try_from(bound).expect("a bound is small"));
    let bounds = [
        (&now as _, Type::INT8),
        (&jobs as _, Type::INT8),
        (&bytes as _, Type::INT8),
    ];
    let due = transaction.query(DUE, &bounds).await?;
    let (mut room, mut due) = (FiringRoom::default(), due.iter().map(read));
    let mut parts = Vec::new();
    while room.is_left()
        && let Some((schedule, next)) = due.next()
    {
        let elapsed = schedule.spec.catch_up(next, now);
        room.take(&schedule, &elapsed);
        parts.push((schedule, elapsed));
    }
    // In the order of their names, as ever; each schedule's own oldest first.
    parts.sort_unstable_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let fired: Vec<(&Name, NewJob)> = parts
        .iter()
        .flat_map(|(schedule, elapsed)| {
            let jobs = elapsed.fire.iter().map(|boundary| schedule.job_at(*boundary));
            jobs.map(|job| (&schedule.queue, job))
        })
        .collect();
    // What one schedule fires may be more than the server takes in a message.
    for some in in_messages(&fired) {
        let mut jobs = NewJobs::new(Some(now));
        for (queue, job) in some {
            jobs.push(queue, job);
        }
        transaction.query(NewJobs::SQL, &jobs.parameters()).await?;
    }
    let names: Vec<&str> = parts.iter().map(|(schedule, _)| schedule.name.as_str()).collect();
    let nexts: Vec<i64> = parts.iter().map(|(_, elapsed)| elapsed.next).collect();
    let advance = [
        (&given as _, Type::INT8),
        (&names as _, Type::TEXT_ARRAY),
        (&nexts as _, Type::INT8_ARRAY),
    ];
    let rows = transaction.commit_with(ADVANCE, &advance).await?;
    shared.wake(fired.iter().map(|(queue, _)| Channel::queue(queue)));
    let next = rows.first().and_then(|row| next_time(row.get(0), row.get(1)));
    Ok(Firing::Fired {
        jobs: fired.len() as u64,
        next,
    })
}

/// Parts of at most so many bytes of payload, but of one job at least.
fn in_messages<'j, 'q>(jobs: &'j [(&'q Name, NewJob)]) -> impl Iterator<Item = &'j [(&'q Name, NewJob)]> {
    let mut bytes = 0;
    jobs.chunk_by(move |(_, job), (_, next)| {
        bytes += job.payload.as_bytes().len();
        let fits = bytes + next.payload.as_bytes().len() <= FiringRoom::BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

fn read(row: &Row) -> (NewSchedule, i64) {
    let schedule = NewSchedule {
        name: Name::trusted(row.get::<_, String>(0)),
        spec: Spec::every(row.get(1)).expect("only intervals that are positive were stored"),
        queue: Name::trusted(row.get::<_, String>(3)),
        job: NewJob {
            payload: Payload::from(row.get::<_, Vec<u8>>(10)),
            priority: row.get(4),
            start: Start::Now,
            expires: row.get(5),
            stamps: QueueOptions {
                max_attempts: row.get(6),
                visibility_timeout_s: row.get(7),
                backoff_base_s: row.get(8),
                dead_letter_retention_s: row.get(9),
            },
            boundary: None,
        },
    };
    (schedule, row.get(2))
}
