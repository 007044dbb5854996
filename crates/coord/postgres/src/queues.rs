//! Queues: enqueues, claims and acks that share a commit, and what is done to single jobs (CQ-*).

use std::{collections::BTreeSet, time::Duration};

use esker_coord_api::{
    Channel, Claim, Claimed, DeadPage, Job, LocalName, MOST_SETTLED, Name, NewJob, NextTime,
};
use tokio_postgres::types::Type;

use crate::{
    Error,
    batch::Work,
    database::{Database, Parameter},
    job::{self, NewJobs, dead_columns, live_columns, one},
    shared::Shared,
    streams::BYTES_PER_PLACE,
    text::escape,
};

/// Jobs of one caller.
pub(crate) struct Enqueue {
    pub(crate) queue: Name,
    pub(crate) jobs: Vec<NewJob>,
}

impl Work for Enqueue {
    type Answer = Vec<i64>;

    const IN_FLIGHT: usize = 2;

    fn weight(&self) -> usize {
        let bytes: usize = self.jobs.iter().map(|job| job.payload.as_bytes().len()).sum();
        self.jobs.len() + bytes / BYTES_PER_PLACE
    }

    async fn run(shared: &Shared, works: &[&Self]) -> Result<Vec<Vec<i64>>, Error> {
        let mut jobs = NewJobs::new(shared.database.now());
        for work in works {
            work.jobs.iter().for_each(|job| jobs.push(&work.queue, job));
        }
        let rows = shared.database.write(NewJobs::SQL, &jobs.parameters()).await?;
        let mut ids = one::<Vec<i64>>(&rows)?.into_iter();
        let queues: BTreeSet<&Name> = works.iter().map(|work| &work.queue).collect();
        shared.wake_for(works.len(), queues.into_iter().map(Channel::queue));
        Ok(works
            .iter()
            .map(|work| ids.by_ref().take(work.jobs.len()).collect())
            .collect())
    }
}

/// One caller's wish for jobs.
pub(crate) struct Wish {
    pub(crate) queue: Name,
    pub(crate) worker: LocalName,
    pub(crate) token: i64,
    pub(crate) n: usize,
}

const CLAIM: &str = "SELECT * FROM {schema}.claim($1, $2, $3, $4, $5, $6)";

impl Work for Wish {
    type Answer = Vec<Claimed>;

    /// What is the same for each batch is dear here: a few more in it are worth the wait.
    const IN_FLIGHT: usize = 1;

    fn weight(&self) -> usize {
        self.n
    }

    /// Nothing is written, and so nothing is flushed, where nothing is found.
    async fn run(shared: &Shared, works: &[&Self]) -> Result<Vec<Vec<Claimed>>, Error> {
        // The settling of a queue is shared by those who ask for it.
        let mut order: Vec<usize> = (0..works.len()).collect();
        order.sort_by_key(|place| &works[*place].queue);
        let queues: Vec<&str> = order.iter().map(|place| works[*place].queue.as_str()).collect();
        let workers: Vec<_> = order
            .iter()
            .map(|place| escape(works[*place].worker.as_str()))
            .collect();
        let tokens: Vec<i64> = order.iter().map(|place| works[*place].token).collect();
        let counts: Vec<i64> = order
            .iter()
            .map(|place| i64::try_from(works[*place].n).unwrap_or(i64::MAX))
            .collect();
        let most_settled = i64::try_from(MOST_SETTLED).expect("a bound is small");
        let rows = shared
            .database
            .write(
                CLAIM,
                &[
                    (&shared.database.now(), Type::INT8),
                    (&queues, Type::TEXT_ARRAY),
                    (&workers, Type::TEXT_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&counts, Type::INT8_ARRAY),
                    (&most_settled, Type::INT8),
                ],
            )
            .await?;
        let (mut found, mut died) = (Vec::with_capacity(rows.len()), 0);
        for row in &rows {
            let place: i64 = row.get(1);
            match usize::try_from(row.get::<_, i32>(0)) {
                Ok(request @ 1..) => found.push((request, place, row)),
                _ => died += u64::try_from(place).unwrap_or(0),
            }
        }
        shared.gone.add(found.len() as u64 + died);
        found.sort_unstable_by_key(|(request, place, _)| (*request, *place));
        let mut answers: Vec<Vec<Claimed>> = works.iter().map(|_| Vec::new()).collect();
        for (request, _, row) in found {
            let place = order[request - 1];
            let work = works[place];
            answers[place].push(Claimed {
                job: job::read(row, 2, &work.queue),
                token: work.token,
            });
        }
        Ok(answers)
    }
}

/// One caller's acknowledgements.
pub(crate) struct Ack {
    pub(crate) queue: Name,
    pub(crate) claims: Vec<Claim>,
}

const ACK: &str = "SELECT * FROM {schema}.ack($1, $2, $3, $4, $5)";

impl Work for Ack {
    type Answer = Vec<bool>;

    /// As for claims.
    const IN_FLIGHT: usize = 1;

    fn weight(&self) -> usize {
        self.claims.len()
    }

    async fn run(shared: &Shared, works: &[&Self]) -> Result<Vec<Vec<bool>>, Error> {
        let all = || {
            works
                .iter()
                .flat_map(|work| work.claims.iter().map(|claim| (&work.queue, claim)))
        };
        let queues: Vec<&str> = all().map(|(queue, _)| queue.as_str()).collect();
        let ids: Vec<i64> = all().map(|(_, claim)| claim.id).collect();
        let tokens: Vec<i64> = all().map(|(_, claim)| claim.token).collect();
        let workers: Vec<_> = all().map(|(_, claim)| escape(claim.worker.as_str())).collect();
        let rows = shared
            .database
            .write(
                ACK,
                &[
                    (&shared.database.now(), Type::INT8),
                    (&queues, Type::TEXT_ARRAY),
                    (&ids, Type::INT8_ARRAY),
                    (&tokens, Type::INT8_ARRAY),
                    (&workers, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        shared.gone.add(rows.len() as u64);
        let mut acked = vec![false; ids.len()];
        for row in rows {
            acked[usize::try_from(row.get::<_, i64>(0) - 1).expect("places are counted from 1")] = true;
        }
        let mut acked = acked.into_iter();
        Ok(works
            .iter()
            .map(|work| acked.by_ref().take(work.claims.len()).collect())
            .collect())
    }
}

/// How a claim ends, other than by an acknowledgement.
pub(crate) enum Ending {
    Retry { error: Option<String>, delay: i64 },
    Fail { error: Option<String> },
    Release,
}

const END: &str = "SELECT {schema}.settle_claim($1, $2, $3, $4, $5, $6, $7, $8)";

/// Ends a claim that still holds. Who waits for the queue is woken where the job waits again.
pub(crate) async fn end(shared: &Shared, queue: &Name, claim: &Claim, ending: Ending) -> Result<bool, Error> {
    let (verb, error, delay) = match ending {
        Ending::Retry { error, delay } => ("retry", error, Some(delay)),
        Ending::Fail { error } => ("fail", error, None),
        Ending::Release => ("release", None, None),
    };
    let error = error.as_deref().map(escape);
    let rows = shared
        .database
        .write(
            END,
            &[
                (&shared.database.now(), Type::INT8),
                (&queue.as_str(), Type::TEXT),
                (&claim.id, Type::INT8),
                (&claim.token, Type::INT8),
                (&escape(claim.worker.as_str()), Type::TEXT),
                (&verb, Type::TEXT),
                (&error, Type::TEXT),
                (&delay, Type::INT8),
            ],
        )
        .await?;
    let waits: Option<bool> = one(&rows)?;
    if waits.is_some() {
        shared.gone.add(1);
    }
    if waits == Some(true) {
        shared.wake([Channel::queue(queue)]);
    }
    Ok(waits.is_some())
}

/// Tells whether the claim lapses sooner than before.
const HEARTBEAT: &str = "WITH held AS (SELECT j.id, j.claim_expires_at, c.now_s FROM {schema}.jobs j, \
        (SELECT {schema}.clock($1) AS now_s OFFSET 0) c \
        WHERE j.id = $3 AND j.queue = $2 AND j.token = $4 AND j.worker = $5 AND j.claim_expires_at >= c.now_s \
        FOR UPDATE OF j) \
    UPDATE {schema}.jobs j SET claim_expires_at = {schema}.after(h.now_s, $6), \
        lane = CASE WHEN j.attempts < j.max_attempts THEN 1 ELSE 2 END \
    FROM held h WHERE j.id = h.id RETURNING j.claim_expires_at < h.claim_expires_at";

/// Sets the deadline of a claim that still holds.
pub(crate) async fn heartbeat(
    shared: &Shared,
    queue: &Name,
    claim: &Claim,
    extend: i64,
) -> Result<bool, Error> {
    let rows = shared
        .database
        .write(
            HEARTBEAT,
            &[
                (&shared.database.now(), Type::INT8),
                (&queue.as_str(), Type::TEXT),
                (&claim.id, Type::INT8),
                (&claim.token, Type::INT8),
                (&escape(claim.worker.as_str()), Type::TEXT),
                (&extend, Type::INT8),
            ],
        )
        .await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    shared.gone.add(1);
    // Who waits for the lapse may now wait too long.
    if row.get(0) {
        shared.wake([Channel::queue(queue)]);
    }
    Ok(true)
}

const CANCEL: &str = "DELETE FROM {schema}.jobs WHERE id = $2 AND queue = $1 RETURNING 1";

/// Deletes a live job, whoever holds it.
pub(crate) async fn cancel(shared: &Shared, queue: &Name, id: i64) -> Result<bool, Error> {
    let rows = shared
        .database
        .write(CANCEL, &[(&queue.as_str(), Type::TEXT), (&id, Type::INT8)])
        .await?;
    shared.gone.add(rows.len() as u64);
    Ok(!rows.is_empty())
}

/// A job by queue and id.
pub(crate) const GET: &str = concat!(
    "SELECT ",
    live_columns!(),
    " FROM {schema}.jobs j WHERE j.id = $2 AND j.queue = $1 UNION ALL SELECT ",
    dead_columns!(),
    " FROM {schema}.dead d WHERE d.id = $2 AND d.queue = $1"
);

const SWEEP: &str = "SELECT {schema}.sweep($1, $2)";

/// Does what the clock has decided, for all of the queue.
pub(crate) async fn sweep(shared: &Shared, queue: &Name) -> Result<u64, Error> {
    let parameters = [
        (&shared.database.now() as _, Type::INT8),
        (&queue.as_str() as _, Type::TEXT),
    ];
    let died = count(&shared.database, SWEEP, &parameters).await?;
    shared.gone.add(died);
    Ok(died)
}

const NEXT_READY: &str = "SELECT ready_at, wait_ms FROM {schema}.next_ready($1, $2)";

/// When a claim will next find something.
pub(crate) async fn next_ready(database: &Database, queue: &Name) -> Result<Option<NextTime>, Error> {
    let rows = database
        .read(
            NEXT_READY,
            &[(&database.now(), Type::INT8), (&queue.as_str(), Type::TEXT)],
        )
        .await?;
    Ok(rows.first().and_then(|row| next_time(row.get(0), row.get(1))))
}

/// A time and its distance, as the database tells them.
pub(crate) fn next_time(at: Option<i64>, wait_ms: Option<i64>) -> Option<NextTime> {
    let wait = Duration::from_millis(u64::try_from(wait_ms?).unwrap_or(0));
    Some(NextTime { at: at?, wait })
}

const DEAD: &str = concat!(
    "SELECT ",
    dead_columns!(),
    " FROM {schema}.dead d WHERE d.queue = $1 AND d.id > $2 ORDER BY d.id LIMIT $3"
);

/// Dead jobs, by id.
pub(crate) async fn dead(database: &Database, queue: &Name, page: DeadPage) -> Result<Vec<Job>, Error> {
    let parameters = [
        (&queue.as_str() as _, Type::TEXT),
        (&page.after as _, Type::INT8),
        (&page.limit as _, Type::INT8),
    ];
    let rows = database.read(DEAD, &parameters).await?;
    Ok(rows.iter().map(|row| job::read(row, 0, queue)).collect())
}

const REDRIVE: &str = "SELECT {schema}.redrive($1, $2, $3)";

/// Makes a dead job pending again, or all of the queue.
pub(crate) async fn redrive(shared: &Shared, queue: &Name, id: Option<i64>) -> Result<u64, Error> {
    let parameters = [
        (&shared.database.now() as _, Type::INT8),
        (&queue.as_str() as _, Type::TEXT),
        (&id as _, Type::INT8),
    ];
    let moved = count(&shared.database, REDRIVE, &parameters).await?;
    if moved > 0 {
        shared.wake([Channel::queue(queue)]);
    }
    Ok(moved)
}

const PURGE: &str =
    "WITH gone AS (DELETE FROM {schema}.dead WHERE queue = $1 RETURNING 1) SELECT count(*) FROM gone";

/// Deletes all dead jobs of the queue.
pub(crate) async fn purge(database: &Database, queue: &Name) -> Result<u64, Error> {
    count(database, PURGE, &[(&queue.as_str(), Type::TEXT)]).await
}

/// Runs a statement that tells how many rows it changed.
async fn count(database: &Database, template: &str, parameters: &[Parameter<'_>]) -> Result<u64, Error> {
    let rows = database.write(template, parameters).await?;
    Ok(u64::try_from(one::<i64>(&rows)?).unwrap_or(0))
}
