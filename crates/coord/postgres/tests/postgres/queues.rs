//! Queues on Postgres: what a claim costs, and that an idle look only looks.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use esker_coord_api::{
    Clock, DeadPage, EXPIRED, EnqueueOptions, FAILED, MAX_ATTEMPTS, Payload, Queue, QueueOptions,
};
use esker_coord_postgres::{Options, PostgresEngine};
use futures_util::future::join_all;
use tokio_postgres::{Client, types::Type};

use crate::support::{Database, engine, pages};

/// As many as matter of each kind that a claim must not pay for.
const MANY: i64 = 50_000;

/// Fills a queue: ready ones, ones that wait at a higher priority, claims that hold, claims that are a job's last, and
/// dead ones.
async fn fill(client: &Client, queue: &str) {
    let insert = "INSERT INTO esker.jobs (id, queue, lane, priority, run_at, attempts, max_attempts, \
        visibility_timeout_s, backoff_base_s, created_at, token, worker, claimed_at, claim_expires_at, payload) \
        SELECT nextval('esker.job_id'), $1, lane, priority, run_at, lane, lane + 1, 300, 5, 0, \
            CASE WHEN lane > 0 THEN n END, CASE WHEN lane > 0 THEN 'w' END, CASE WHEN lane > 0 THEN 0 END, \
            CASE WHEN lane > 0 THEN 9000000000 + n END, 'payload' \
        FROM generate_series(1, $2) n, (VALUES (0, 0, 0), (0, 9, 9000000000), (1, 5, 0), (2, 5, 0)) \
            AS kinds (lane, priority, run_at)";
    client
        .execute_typed(insert, &[(&queue, Type::TEXT), (&MANY, Type::INT8)])
        .await
        .unwrap();
    let dead = "INSERT INTO esker.dead (id, queue, priority, run_at, attempts, max_attempts, visibility_timeout_s, \
        backoff_base_s, created_at, died_at, payload) \
        SELECT nextval('esker.job_id'), $1, 9, 0, 3, 3, 300, 5, 0, 0, 'payload' FROM generate_series(1, $2)";
    client
        .execute_typed(dead, &[(&queue, Type::TEXT), (&MANY, Type::INT8)])
        .await
        .unwrap();
}

/// Runs a statement, and gives how often it read a whole table, and how many rows or index entries it looked at.
async fn cost(client: &mut Client, sql: &str) -> (i64, i64) {
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(sql).await.unwrap();
    let stats = "SELECT sum(seq_scan)::bigint, (sum(idx_tup_fetch) + sum(seq_tup_read))::bigint + \
        (SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint FROM pg_index i \
            JOIN pg_class c ON c.oid = i.indrelid WHERE c.relname IN ('jobs', 'dead', 'queues', 'events')) \
        FROM pg_stat_xact_user_tables WHERE relname IN ('jobs', 'dead', 'queues', 'events')";
    let row = transaction.query_one(stats, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_what_waits_costs_a_claim_nothing() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let mut client = database.client().await;
    fill(&client, "full").await;
    fill(&client, "other").await;
    for statement in [
        "SELECT * FROM esker.claim(NULL, ARRAY['full'], ARRAY['w'], ARRAY[1], ARRAY[8], 1000)",
        "SELECT * FROM esker.claim(NULL, ARRAY['full', 'other'], ARRAY['w', 'v'], ARRAY[1, 2], ARRAY[4, 4], 1000)",
        "SELECT * FROM esker.next_ready(NULL, 'full')",
        "SELECT esker.enqueue(NULL, ARRAY['full'], ARRAY[1], ARRAY[NULL]::bigint[], ARRAY[NULL]::bigint[], ARRAY[0], \
            ARRAY[NULL]::bigint[], ARRAY[3], ARRAY[300], ARRAY[5], ARRAY[NULL]::bigint[], ARRAY[NULL]::bigint[], \
            ARRAY['p'::bytea])",
    ] {
        let (scans, looked) = cost(&mut client, statement).await;
        assert_eq!(scans, 0, "{statement}");
        assert!(
            looked < 150,
            "{statement} looked at {looked} rows and index entries"
        );
    }
    // The plans hold for who asks when the tables are still empty, too: they were made then.
    let queue = store.queue("full", QueueOptions::default()).unwrap();
    let claimed = queue.claim_batch("worker", 3).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert_eq!(queue.ack_batch(&claimed).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_plans_that_were_made_for_empty_tables_stay_right_when_they_fill() {
    let database = Database::new();
    database.open_settled(Options::default()).await;
    let mut client = database.client().await;
    let filler = database.client().await;
    // What the server knows of the tables is that nothing is in them, and it learns nothing else.
    let empty = "ALTER TABLE esker.jobs SET (autovacuum_enabled = off)";
    filler.batch_execute(empty).await.unwrap();
    filler.batch_execute("VACUUM ANALYZE esker.jobs").await.unwrap();
    let claim = "SELECT * FROM esker.claim(NULL, ARRAY['full'], ARRAY['w'], ARRAY[1], ARRAY[8], 1000)";
    for _ in 0..10 {
        assert_eq!(cost(&mut client, claim).await, (0, 0));
    }
    fill(&filler, "full").await;
    let (scans, looked) = cost(&mut client, claim).await;
    assert!(
        scans == 0 && looked < 150,
        "{scans} scans, {looked} rows and index entries"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ci_02_one_dead_job_of_many_is_redriven_at_its_own_cost() {
    let database = Database::new();
    let _store = database.open_settled(Options::default()).await;
    let mut client = database.client().await;
    fill(&client, "full").await;
    let middle = "SELECT min(id) + $1 / 2 FROM esker.dead";
    let row = client
        .query_typed_one(middle, &[(&MANY, Type::INT8)])
        .await
        .unwrap();
    let redrive = format!("SELECT esker.redrive(NULL, 'full', {})", row.get::<_, i64>(0));
    let (scans, looked) = cost(&mut client, &redrive).await;
    assert!(
        scans == 0 && looked < 50,
        "{scans} scans, {looked} rows and index entries"
    );
    // Without a name, all are, to the first and the last.
    let all = "SELECT esker.redrive(NULL, 'full', NULL)";
    assert_eq!(client.query_one(all, &[]).await.unwrap().get::<_, i64>(0), MANY);
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_what_was_claimed_before_costs_a_claim_nothing() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let client = database.client().await;
    // The server's own vacuum would do it as well, only later.
    let own = "ALTER TABLE esker.jobs SET (autovacuum_enabled = off)";
    client.batch_execute(own).await.unwrap();
    let queue = store.queue("burst", QueueOptions::default()).unwrap();
    let claim = "SELECT * FROM esker.claim(NULL, ARRAY['burst'], ARRAY['w'], ARRAY[1], ARRAY[1], 1000)";
    let fill = async |count: usize| {
        let jobs = vec![(Payload::from("job"), EnqueueOptions::default()); count];
        queue.enqueue_batch(jobs).await.unwrap();
    };
    fill(1000).await;
    // The first asks for what the session learns once.
    pages(&client, claim).await;
    let fresh = pages(&client, claim).await;
    fill(45_000).await;
    // The last of these is the one after which the store vacuums: nothing goes while it does.
    for _ in 0..40 {
        assert_eq!(queue.claim_batch("worker", 1000).await.unwrap().len(), 1000);
    }
    let engine = store.engine::<PostgresEngine>().unwrap();
    while engine.stats().vacuums == 0 {
        tokio::task::yield_now().await;
    }
    let later = pages(&client, claim).await;
    assert!(later < 200, "{later} pages, {fresh} in a fresh table");
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_an_idle_look_is_a_read() {
    let database = Database::new();
    let store = database.open().await;
    let queue = store.queue("idle", QueueOptions::default()).unwrap();
    let later = EnqueueOptions {
        delay: Some(1000),
        ..EnqueueOptions::default()
    };
    queue.enqueue_with("later", later).await.unwrap();
    queue.enqueue("now").await.unwrap();
    assert!(queue.claim_one("holder").await.unwrap().is_some());
    let client = database.client().await;
    let look = "BEGIN; SELECT * FROM esker.claim(NULL, ARRAY['idle', 'none'], ARRAY['w', 'w'], ARRAY[1, 1], \
        ARRAY[8, 8], 1000)";
    client.batch_execute(look).await.unwrap();
    let wrote = client
        .query_one("SELECT pg_current_xact_id_if_assigned() IS NOT NULL", &[])
        .await
        .unwrap();
    assert!(
        !wrote.get::<_, bool>(0),
        "a claim that found nothing wrote something"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_09_enqueues_claims_and_acks_that_wait_together_share_a_commit() {
    let database = Database::new();
    let store = database.open().await;
    let queue = store.queue("busy", QueueOptions::default()).unwrap();
    queue.enqueue("makes the queue").await.unwrap();
    let client = database.client().await;
    // Nobody can write or claim a job while this is held.
    let hold = "BEGIN; LOCK TABLE esker.jobs IN EXCLUSIVE MODE";

    client.batch_execute(hold).await.unwrap();
    let before = engine(&store).stats().batches;
    let mut enqueues = Box::pin(join_all((0..63).map(|_| queue.enqueue("one of many"))));
    assert!(futures_util::poll!(&mut enqueues).is_pending());
    client.batch_execute("COMMIT").await.unwrap();
    let mut ids: Vec<i64> = enqueues.await.into_iter().map(Result::unwrap).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 63);
    let then = engine(&store).stats().batches;
    assert!(then - before <= 4);

    client.batch_execute(hold).await.unwrap();
    let workers: Vec<String> = (0..32).map(|number| format!("worker {number}")).collect();
    let mut claims = Box::pin(join_all(
        workers.iter().map(|worker| queue.claim_batch(worker, 2)),
    ));
    assert!(futures_util::poll!(&mut claims).is_pending());
    client.batch_execute("COMMIT").await.unwrap();
    let handles: Vec<_> = claims.await.into_iter().map(Result::unwrap).collect();
    for (worker, claimed) in workers.iter().zip(&handles) {
        assert_eq!(claimed.len(), 2);
        assert!(
            claimed
                .iter()
                .all(|handle| handle.job().worker.as_ref().unwrap().as_str() == worker)
        );
    }
    let claimed = engine(&store).stats().batches;
    assert!(claimed - then <= 4);

    client.batch_execute(hold).await.unwrap();
    let mut acks = Box::pin(join_all(
        handles.iter().flatten().map(esker_coord_api::JobHandle::ack),
    ));
    assert!(futures_util::poll!(&mut acks).is_pending());
    client.batch_execute("COMMIT").await.unwrap();
    assert!(acks.await.into_iter().all(Result::unwrap));
    assert!(engine(&store).stats().batches - claimed <= 4);
    assert!(queue.claim_one("worker").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_02_two_who_claim_at_once_pass_each_other() {
    let database = Database::new();
    let store = database.open().await;
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let first = queue.enqueue("first").await.unwrap();
    let second = queue.enqueue("second").await.unwrap();
    // Somebody is about to claim the first.
    let client = database.client().await;
    client
        .batch_execute(&format!(
            "BEGIN; SELECT * FROM esker.jobs WHERE id = {first} FOR UPDATE"
        ))
        .await
        .unwrap();
    assert_eq!(queue.claim_one("w").await.unwrap().unwrap().job().id, second);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(queue.claim_one("w").await.unwrap().unwrap().job().id, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_01_a_transaction_that_is_held_keeps_nobody_from_a_new_queue() {
    let database = Database::new();
    let store = database.open().await;
    let mut held = store.begin().await.unwrap();
    held.enqueue("new", "held").await.unwrap();
    let queue = store.queue("new", QueueOptions::default()).unwrap();
    queue.enqueue("free").await.unwrap();
    held.commit().await.unwrap();
    assert_eq!(queue.claim_batch("w", 9).await.unwrap().len(), 2);
    let inspection = store.inspect().await.unwrap();
    assert_eq!(inspection.queues.len(), 1);
    assert_eq!(inspection.queues[0].running, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_05_the_database_says_of_the_dead_what_the_contract_says() {
    let database = Database::new();
    database.open().await;
    let client = database.client().await;
    let functions = "SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = 'esker'::regnamespace";
    let source: String = client.query_one(functions, &[]).await.unwrap().get(0);
    for text in [EXPIRED, FAILED, MAX_ATTEMPTS] {
        assert!(source.contains(&format!("'{text}'")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_05_a_worker_and_its_errors_may_be_any_text() {
    let database = Database::new();
    let store = database.open().await;
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let id = queue.enqueue("payload").await.unwrap();
    let (worker, error) = ("w\0\u{1}".repeat(2000), "went\0wrong\u{1}0");
    let handle = queue.claim_one(&worker).await.unwrap().unwrap();
    assert_eq!(
        queue.get_job(id).await.unwrap().unwrap().worker.unwrap().as_str(),
        worker
    );
    assert!(handle.fail(Some(error)).await.unwrap());
    let dead = queue.dead_jobs(DeadPage { after: 0, limit: 5 }).await.unwrap();
    assert_eq!(dead[0].last_error.as_deref(), Some(error));
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_08_an_idle_worker_is_not_woken_by_other_queues_and_asks_nothing() {
    let database = Database::new();
    let (one, other) = (
        database.open_settled(Options::default()).await,
        database.open_settled(Options::default()).await,
    );
    let queue = other.queue("mine", QueueOptions::default()).unwrap();
    let mut wakes = queue.listen().await.unwrap();
    let before = engine(&other).stats();
    let busy = one.queue("busy", QueueOptions::default()).unwrap();
    for _ in 0..50 {
        busy.enqueue("job").await.unwrap();
    }
    one.queue("mine", QueueOptions::default())
        .unwrap()
        .enqueue("job")
        .await
        .unwrap();
    assert!(wakes.recv().await.is_some());
    assert!(wakes.try_recv().unwrap().is_none());
    assert_eq!(engine(&other).stats().statements, before.statements);
    assert!(queue.claim_one("w").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_02_a_default_isolation_that_is_too_high_fails_nobody() {
    let database = Database::new();
    let client = database.client().await;
    let set = format!(
        "ALTER DATABASE {} SET default_transaction_isolation = 'serializable'",
        database.name()
    );
    client.batch_execute(&set).await.unwrap();
    let (one, other) = tokio::join!(database.open(), database.open());
    let stores = [one, other];
    let works = (0..40).map(|number| {
        let store = stores[number % 2].clone();
        async move {
            store.stream("s")?.publish("event").await?;
            let queue = store.queue("q", QueueOptions::default())?;
            queue.enqueue("job").await?;
            while queue.claim_one("w").await?.is_none() {}
            Ok::<_, esker_coord_api::Error>(())
        }
    });
    for done in join_all(works).await {
        done.unwrap();
    }
    assert_eq!(
        stores[0].stream("s").unwrap().read_since(39, 9).await.unwrap()[0].offset,
        40
    );
}

/// Claims three jobs under a name that is not the only worker's, and ends them.
async fn work(queue: &Queue, working: &AtomicUsize, done: &Mutex<BTreeSet<i64>>) {
    let Ok(claimed) = queue.claim_batch("the same name", 3).await else {
        return;
    };
    working.fetch_add(claimed.len(), Ordering::SeqCst);
    for handle in claimed {
        // A job whose acknowledgement lost its answer may be done, or may come again.
        if let Ok(true) | Err(_) = handle.ack().await {
            done.lock().unwrap().insert(handle.job().id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_02_connections_that_are_cut_under_work_strand_no_job() {
    const JOBS: usize = 200;
    let database = Database::new();
    let clock = Clock::manual(1_700_000_000);
    let options = || Options {
        clock: Some(clock.clone()),
        pool_size: 4,
        ..Options::default()
    };
    let stores = [
        database.open_with(options()).await,
        database.open_with(options()).await,
    ];
    let many = QueueOptions {
        max_attempts: 1000,
        ..QueueOptions::default()
    };
    let payloads = (0..JOBS)
        .map(|number| (format!("{number}").into(), EnqueueOptions::default()))
        .collect();
    stores[0]
        .queue("q", many)
        .unwrap()
        .enqueue_batch(payloads)
        .await
        .unwrap();
    let (working, done) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(BTreeSet::new())),
    );
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..6)
        .map(|number| {
            let queue = stores[number % 2].queue("q", many).unwrap();
            let (working, done, over) = (working.clone(), done.clone(), over.clone());
            tokio::spawn(async move {
                // Until all is done but what is lost on the way.
                while done.lock().unwrap().len() < JOBS && !over.load(Ordering::SeqCst) {
                    work(&queue, &working, &done).await;
                }
            })
        })
        .collect();
    for cut in 1..=8 {
        while working.load(Ordering::SeqCst) < cut * 20 && done.lock().unwrap().len() < JOBS {
            tokio::task::yield_now().await;
        }
        database.cut_connections().await;
        // What a lost answer left claimed lapses.
        clock.advance(301);
    }
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    // Nobody holds a claim now, whose time could run out under it.
    let queue = stores[0].queue("q", many).unwrap();
    while done.lock().unwrap().len() < JOBS {
        clock.advance(301);
        work(&queue, &working, &done).await;
    }
    // Nothing is left but what an acknowledgement did not reach.
    clock.advance(301);
    let queue = database.open_with(options()).await.queue("q", many).unwrap();
    let left = queue.claim_batch("w", 1000).await.unwrap();
    assert_eq!(queue.ack_batch(&left).await.unwrap(), left.len());
    assert_eq!(queue.next_ready_at().await.unwrap(), None);
}
