//! Every statement of the engine is a search of the keys that it was written for, as SQLite plans it (CQ-08).

use rusqlite::{Connection, params_from_iter};

use crate::{
    SCHEMA,
    engine::{claims, dead, inspect, jobs, locks, queues, schedules, streams},
    wakes, watcher,
};

fn database() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .unwrap();
    for migration in SCHEMA.migrations {
        conn.execute_batch(migration).unwrap();
    }
    conn
}

fn plan_of(conn: &Connection, statement: &str) -> String {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let count = explain.parameter_count();
    let steps: Vec<String> = explain
        .query_map(params_from_iter(vec![1_i64; count]), |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    steps.join("; ")
}

#[test]
fn cq_08_each_statement_of_a_claim_is_one_search_of_its_key() {
    let conn = database();
    let job = "SEARCH coord_job USING INTEGER PRIMARY KEY (rowid=?)";
    let of_job = "SEARCH coord_payload USING INTEGER PRIMARY KEY (rowid=?)";
    let payload = "CORRELATED SCALAR SUBQUERY 1; SEARCH coord_payload USING INTEGER PRIMARY KEY (rowid=?)";
    let ready = "SEARCH coord_job USING INDEX coord_job_ready";
    let flight = "SEARCH coord_job USING INDEX coord_job_flight";
    let expiry = "SEARCH coord_job USING INDEX coord_job_expiry";
    let expected = [
        (jobs::FIND_QUEUE, "SEARCH coord_queue USING COVERING INDEX sqlite_autoindex_coord_queue_1 (name=?)".to_owned()),
        (claims::LAPSED, format!("{flight} (queue=? AND flight=? AND deadline<?); {payload}")),
        (claims::EXPIRED, format!("{expiry} (queue=? AND flight=? AND expires_at<?); {payload}")),
        (claims::REOPEN, job.into()),
        (claims::FIRST_PRIORITY, format!("{ready} (queue=?)")),
        (claims::NEXT_PRIORITY, format!("{ready} (queue=? AND priority<?)")),
        (claims::DUE, format!("{ready} (queue=? AND priority=? AND run_at<?); {payload}")),
        (claims::CLAIM, job.into()),
        (claims::FIRST_READY, format!("{ready} (queue=? AND priority=?)")),
        (claims::FIRST_LAPSE, format!("{flight} (queue=? AND flight=?)")),
        (
            claims::UNSETTLED,
            "SCAN CONSTANT ROW; \
             SCALAR SUBQUERY 1; SEARCH coord_job USING COVERING INDEX coord_job_flight (queue=? AND flight=? AND deadline<?); \
             SCALAR SUBQUERY 2; SEARCH coord_job USING COVERING INDEX coord_job_flight (queue=? AND flight=? AND deadline<?); \
             SCALAR SUBQUERY 3; SEARCH coord_job USING COVERING INDEX coord_job_expiry (queue=? AND flight=? AND expires_at<?)"
                .into(),
        ),
        (queues::ACK, job.into()),
        (queues::PUT_BACK, job.into()),
        (queues::EXTEND, job.into()),
        (jobs::DELETE, job.into()),
        (jobs::DELETE_PAYLOAD, of_job.into()),
        (jobs::LIVE, format!("{job}; {payload}")),
        (jobs::HELD, format!("{job}; {payload}")),
        // One row, and the first of all.
        (jobs::NEXT_IDS, "SCAN coord_job_id".into()),
        (jobs::HAS_PAYLOADS, "SCAN CONSTANT ROW; SCALAR SUBQUERY 1; SCAN coord_payload".into()),
        (dead::SWEEP_EXPIRED, format!("{expiry} (queue=? AND flight=? AND expires_at<?); {payload}")),
        (dead::SWEEP_SPENT, format!("{flight} (queue=? AND flight=? AND deadline<?); {payload}")),
    ];
    for (statement, plan) in expected {
        assert_eq!(plan_of(&conn, statement), plan, "{statement}");
    }
}

#[test]
fn cs_05_each_statement_of_a_stream_is_one_search_of_its_key() {
    let conn = database();
    let event = "SEARCH coord_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
    let stream = "INDEX sqlite_autoindex_coord_stream_1 (name=?)";
    let expected = [
        (streams::ADVANCE, format!("SEARCH coord_stream USING {stream}")),
        (
            streams::FIND,
            format!("SEARCH coord_stream USING COVERING {stream}"),
        ),
        (streams::READ, event.into()),
        (streams::TRIM, event.into()),
        (
            streams::POSITION,
            "SEARCH coord_consumer USING PRIMARY KEY (stream=? AND name=?)".into(),
        ),
        (inspect::FIRST, event.into()),
    ];
    for (statement, plan) in expected {
        assert_eq!(plan_of(&conn, statement), plan, "{statement}");
    }
}

/// Whatever is walked is walked in order, and only the tables that hold one row for each thing that has a name are
/// walked whole.
#[test]
fn cq_08_nothing_else_scans_or_sorts_what_grows() {
    let conn = database();
    let whole = [
        "SCAN coord_queue USING",
        "SCAN coord_stream USING",
        "SCAN coord_schedule USING",
        "SCAN CONSTANT ROW",
    ];
    for statement in [
        dead::FORGET,
        dead::PAGE,
        dead::PURGE,
        inspect::QUEUES,
        inspect::READY,
        inspect::SCHEDULED,
        inspect::OLDEST,
        inspect::RUNNING,
        inspect::LAPSED,
        inspect::DEAD,
        inspect::STREAMS,
        inspect::CONSUMERS,
        inspect::SCHEDULES,
        jobs::INSERT,
        jobs::INSERT_PAYLOAD,
        jobs::BURY,
        jobs::REVIVE,
        jobs::DEAD,
        jobs::DELETE_DEAD,
        locks::FIND,
        locks::TAKE,
        locks::RENEW,
        locks::RELEASE,
        schedules::UPSERT,
        schedules::REMOVE,
        schedules::DUE,
        schedules::ADVANCE,
        schedules::NEXT,
        streams::INSERT,
        streams::SAVE,
        wakes::INSERT,
        wakes::PRUNE,
        watcher::SINCE,
    ] {
        let plan = plan_of(&conn, statement);
        for step in plan.split("; ").filter(|step| !step.is_empty()) {
            let named = whole.iter().any(|table| step.starts_with(table));
            assert!(step.starts_with("SEARCH ") || named, "{statement}: {plan}");
        }
    }
}
