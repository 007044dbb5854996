//! What a claim costs depends on what it returns, not on what waits (CQ-08): counted in steps of SQLite's machine.

use esker_coord_api::{EnqueueOptions, LocalName, MOST_SETTLED, Name, NewJob, Payload, QueueOptions};
use rusqlite::{Connection, StatementStatus};

use crate::{
    SCHEMA,
    engine::{claims, dead, jobs, queues},
};

const NOW: i64 = 1_000_000;

struct Backlog {
    conn: Connection,
    queue: Name,
    worker: LocalName,
}

impl Backlog {
    fn new() -> Self {
        let conn = Connection::open_in_memory().unwrap();
        conn.set_prepared_statement_cache_capacity(256);
        for migration in SCHEMA.migrations {
            conn.execute_batch(migration).unwrap();
        }
        Self {
            conn,
            queue: Name::new("jobs").unwrap(),
            worker: LocalName::new("worker").unwrap(),
        }
    }

    fn enqueue(&self, count: usize, options: EnqueueOptions) {
        let job = NewJob::new(Payload::new("x"), QueueOptions::default(), options).unwrap();
        jobs::insert(&self.conn, &self.queue, &vec![job; count], NOW).unwrap();
    }

    fn claim(&self, n: usize) -> usize {
        let claimed = claims::claim(&self.conn, &self.queue, &self.worker, 1, n, NOW).unwrap();
        claimed.len()
    }

    /// Steps that these statements took since they were asked last.
    fn steps(&self, statements: &[&str]) -> i32 {
        self.counts(statements, StatementStatus::VmStep).iter().sum()
    }

    /// What SQLite counted of each statement since it was asked last.
    fn counts(&self, statements: &[&str], what: StatementStatus) -> Vec<i32> {
        let count = |sql: &&str| self.conn.prepare_cached(sql).unwrap().reset_status(what);
        statements.iter().map(count).collect()
    }

    /// Steps of a claim of eight, of a look for work, and of one for the next time.
    fn cost(&self) -> [i32; 3] {
        let claim = [
            jobs::FIND_QUEUE,
            claims::LAPSED,
            claims::EXPIRED,
            claims::FIRST_PRIORITY,
            claims::NEXT_PRIORITY,
            claims::DUE,
            claims::CLAIM,
        ];
        let look = [
            jobs::FIND_QUEUE,
            claims::UNSETTLED,
            claims::FIRST_PRIORITY,
            claims::NEXT_PRIORITY,
            claims::FIRST_READY,
            claims::FIRST_LAPSE,
        ];
        // Prepared beforehand, so that no cost hides in the first use.
        self.steps(&claim);
        assert_eq!(self.claim(8), 8);
        let claimed = self.steps(&claim);
        self.steps(&look);
        assert!(claims::has_work(&self.conn, &self.queue, NOW).unwrap());
        let looked = self.steps(&look);
        assert_eq!(
            claims::next_ready(&self.conn, &self.queue, NOW).unwrap(),
            Some(NOW)
        );
        [claimed, looked, self.steps(&look)]
    }
}

/// Makes a backlog of so many jobs.
type Fill = fn(&Backlog, usize);

const KINDS: [(&str, Fill); 6] = [
    ("ready", |backlog, count| {
        backlog.enqueue(count, EnqueueOptions::default());
    }),
    ("delayed, of a higher priority", |backlog, count| {
        let options = EnqueueOptions {
            delay: Some(1),
            priority: 9,
            ..EnqueueOptions::default()
        };
        backlog.enqueue(count, options);
    }),
    ("in flight", |backlog, count| {
        backlog.enqueue(count, EnqueueOptions::default());
        assert_eq!(backlog.claim(count), count);
    }),
    ("in flight and expired", |backlog, count| {
        let options = EnqueueOptions {
            expires: Some(1),
            ..EnqueueOptions::default()
        };
        backlog.enqueue(count, options);
        assert_eq!(backlog.claim(count), count);
        let expire = "UPDATE coord_job SET expires_at = ?1 WHERE flight = 2";
        assert_eq!(backlog.conn.execute(expire, [NOW - 1]).unwrap(), count);
    }),
    ("in flight for the last time", |backlog, count| {
        let options = EnqueueOptions {
            max_attempts: Some(1),
            ..EnqueueOptions::default()
        };
        backlog.enqueue(count, options);
        assert_eq!(backlog.claim(count), count);
    }),
    ("dead", |backlog, count| {
        let options = EnqueueOptions {
            expires: Some(0),
            ..EnqueueOptions::default()
        };
        backlog.enqueue(count, options);
        let swept = dead::sweep_expired(&backlog.conn, &backlog.queue, NOW).unwrap();
        assert_eq!(swept, count as u64);
    }),
];

#[test]
fn cq_08_a_claim_costs_the_same_whatever_waits() {
    for (kind, fill) in KINDS {
        let [few, many] = [1000, 100_000].map(|count| {
            let backlog = Backlog::new();
            fill(&backlog, count);
            backlog.enqueue(16, EnqueueOptions::default());
            backlog.cost()
        });
        assert_eq!(few, many, "{kind}");
    }
}

#[test]
fn cq_08_a_claim_and_its_acks_run_one_statement_for_each_job_and_a_few_more() {
    let backlog = Backlog::new();
    backlog.enqueue(16, EnqueueOptions::default());
    let statements = [
        jobs::FIND_QUEUE,
        claims::LAPSED,
        claims::EXPIRED,
        claims::FIRST_PRIORITY,
        claims::NEXT_PRIORITY,
        claims::DUE,
        claims::CLAIM,
        jobs::HAS_PAYLOADS,
        queues::ACK,
        jobs::DELETE_PAYLOAD,
    ];
    backlog.counts(&statements, StatementStatus::Run);
    let claimed = claims::claim(&backlog.conn, &backlog.queue, &backlog.worker, 1, 8, NOW).unwrap();
    let runs = backlog.counts(&statements, StatementStatus::Run);
    assert_eq!(runs, [1, 2, 1, 1, 0, 1, 8, 0, 0, 0]);
    let claims: Vec<_> = claimed
        .iter()
        .map(|claimed| esker_coord_api::Claim {
            id: claimed.job.id,
            worker: backlog.worker.clone(),
            token: 1,
        })
        .collect();
    let acked = queues::ack(&backlog.conn, &backlog.queue, &claims, NOW).unwrap();
    assert_eq!(acked, [true; 8]);
    let runs = backlog.counts(&statements, StatementStatus::Run);
    assert_eq!(runs, [1, 0, 0, 0, 0, 0, 0, 1, 8, 0]);
}

#[test]
fn cq_08_one_claim_settles_a_bounded_number_and_the_next_goes_on() {
    let backlog = Backlog::new();
    let expired = EnqueueOptions {
        expires: Some(0),
        priority: 9,
        ..EnqueueOptions::default()
    };
    backlog.enqueue(2 * MOST_SETTLED + 500, expired);
    backlog.enqueue(4, EnqueueOptions::default());
    for left in [MOST_SETTLED + 500, 500, 0, 0] {
        // What was not settled is not claimed either.
        assert_eq!(backlog.claim(1), 1);
        let still: usize = backlog
            .conn
            .query_row(
                "SELECT count(*) FROM coord_job WHERE flight = 0 AND priority = 9",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(still, left);
    }
}

#[test]
fn cq_03_a_claim_that_lapsed_holds_again_when_the_clock_is_set_back() {
    let backlog = Backlog::new();
    backlog.enqueue(2, EnqueueOptions::default());
    let held = claims::claim(&backlog.conn, &backlog.queue, &backlog.worker, 7, 2, NOW).unwrap();
    let later = NOW + 1000;
    let taken = claims::claim(&backlog.conn, &backlog.queue, &backlog.worker, 8, 1, later).unwrap();
    assert_eq!(taken[0].job.id, held[0].job.id);
    // The other was found lapsed; now it is not.
    assert_eq!(backlog.claim(2), 0);
    let claim = |token, id| esker_coord_api::Claim {
        id,
        worker: backlog.worker.clone(),
        token,
    };
    let claims = [claim(7, held[0].job.id), claim(7, held[1].job.id)];
    let acked = queues::ack(&backlog.conn, &backlog.queue, &claims, NOW).unwrap();
    assert_eq!(acked, [false, true]);
}
