//! Jobs as rows: how one is read, and how many are written at once.

use esker_coord_api::{Job, JobState, LocalName, Name, NewJob, Payload, QueueOptions, Start};
use tokio_postgres::{Row, types::Type};

use crate::{Error, database::Parameter, text::unescape};

/// What [`read`] reads, of a live job `j`.
macro_rules! live_columns {
    () => {
        "j.id, CASE WHEN j.token IS NULL THEN 0 ELSE 1 END::smallint, j.payload, j.priority, j.run_at, j.attempts, \
         j.max_attempts, j.visibility_timeout_s, j.backoff_base_s, j.dead_letter_retention_s, j.worker, j.claimed_at, \
         j.claim_expires_at, j.created_at, j.expires_at, j.boundary, j.last_error, NULL::bigint"
    };
}

/// What [`read`] reads, of a dead job `d`.
macro_rules! dead_columns {
    () => {
        "d.id, 2::smallint, d.payload, d.priority, d.run_at, d.attempts, d.max_attempts, d.visibility_timeout_s, \
         d.backoff_base_s, d.dead_letter_retention_s, NULL::text, NULL::bigint, NULL::bigint, d.created_at, \
         d.expires_at, d.boundary, d.last_error, d.died_at"
    };
}

pub(crate) use {dead_columns, live_columns};

/// The job in this row, from this column on.
pub(crate) fn read(row: &Row, from: usize, queue: &Name) -> Job {
    let text = |column| row.get::<_, Option<String>>(from + column).map(unescape);
    Job {
        id: row.get(from),
        queue: queue.clone(),
        state: match row.get::<_, i16>(from + 1) {
            0 => JobState::Pending,
            1 => JobState::Processing,
            _ => JobState::Dead,
        },
        payload: Payload::from(row.get::<_, Vec<u8>>(from + 2)),
        priority: row.get(from + 3),
        run_at: row.get(from + 4),
        attempts: row.get(from + 5),
        stamps: QueueOptions {
            max_attempts: row.get(from + 6),
            visibility_timeout_s: row.get(from + 7),
            backoff_base_s: row.get(from + 8),
            dead_letter_retention_s: row.get(from + 9),
        },
        worker: text(10).map(LocalName::trusted),
        claimed_at: row.get(from + 11),
        claim_expires_at: row.get(from + 12),
        created_at: row.get(from + 13),
        expires_at: row.get(from + 14),
        boundary: row.get(from + 15),
        last_error: text(16),
        died_at: row.get(from + 17),
    }
}

/// Jobs on their way into the database, a column each.
#[derive(Default)]
pub(crate) struct NewJobs<'a> {
    now: Option<i64>,
    names: Vec<&'a str>,
    queues: Vec<i32>,
    delays: Vec<Option<i64>>,
    run_ats: Vec<Option<i64>>,
    priorities: Vec<i64>,
    expiries: Vec<Option<i64>>,
    attempts: Vec<i64>,
    visibilities: Vec<i64>,
    backoffs: Vec<i64>,
    retentions: Vec<Option<i64>>,
    boundaries: Vec<Option<i64>>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> NewJobs<'a> {
    pub(crate) const SQL: &'static str =
        "SELECT {schema}.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

    /// None yet; `now` when it is not the database's clock that tells.
    pub(crate) fn new(now: Option<i64>) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, queue: &'a Name, job: &'a NewJob) {
        let name = queue.as_str();
        let place = self
            .names
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| {
                self.names.push(name);
                self.names.len() - 1
            });
        self.queues
            .push(i32::try_from(place + 1).expect("a batch is bounded"));
        let (delay, run_at) = match job.start {
            Start::Now => (None, None),
            Start::After(delay) => (Some(delay), None),
            Start::At(time) => (None, Some(time)),
        };
        self.delays.push(delay);
        self.run_ats.push(run_at);
        self.priorities.push(job.priority);
        self.expiries.push(job.expires);
        self.attempts.push(job.stamps.max_attempts);
        self.visibilities.push(job.stamps.visibility_timeout_s);
        self.backoffs.push(job.stamps.backoff_base_s);
        self.retentions.push(job.stamps.dead_letter_retention_s);
        self.boundaries.push(job.boundary);
        self.payloads.push(job.payload.as_bytes());
    }

    pub(crate) fn parameters(&self) -> [Parameter<'_>; 13] {
        [
            (&self.now, Type::INT8),
            (&self.names, Type::TEXT_ARRAY),
            (&self.queues, Type::INT4_ARRAY),
            (&self.delays, Type::INT8_ARRAY),
            (&self.run_ats, Type::INT8_ARRAY),
            (&self.priorities, Type::INT8_ARRAY),
            (&self.expiries, Type::INT8_ARRAY),
            (&self.attempts, Type::INT8_ARRAY),
            (&self.visibilities, Type::INT8_ARRAY),
            (&self.backoffs, Type::INT8_ARRAY),
            (&self.retentions, Type::INT8_ARRAY),
            (&self.boundaries, Type::INT8_ARRAY),
            (&self.payloads, Type::BYTEA_ARRAY),
        ]
    }
}

/// The value of an answer of one row and one column.
pub(crate) fn one<'r, T: tokio_postgres::types::FromSql<'r>>(rows: &'r [Row]) -> Result<T, Error> {
    let row = rows.first().ok_or(Error::Lost)?;
    row.try_get(0)
        .map_err(|error| Error::of(error, crate::error::Running::Undecided))
}
