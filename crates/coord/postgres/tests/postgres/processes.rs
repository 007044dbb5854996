//! Several processes on one database, some of them killed.

use std::{collections::BTreeSet, time::Duration};

use esker_coord_api::{Clock, EnqueueOptions, Payload, QueueOptions, Store};
use esker_coord_postgres::{Options, PostgresEngine};
use esker_coord_suite::{
    crowd,
    takeover::{self, Lead},
};
use esker_testing::processes::{self, Process, tell};

use crate::support::Database;

/// In a child: a store on its database.
async fn child() -> Option<Store> {
    let (url, _) = processes::child()?;
    let engine = PostgresEngine::open(&url, Options::default()).await.unwrap();
    Some(Store::new(engine))
}

async fn work(store: &Store, n: i64) {
    let jobs = store.queue("jobs", QueueOptions::default()).unwrap();
    loop {
        let claimed = jobs.claim_batch("worker", n).await.unwrap();
        if claimed.is_empty() {
            return;
        }
        for handle in &claimed {
            assert!(handle.ack().await.unwrap());
            tell("acked", handle.job().id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cq_03_killed_workers_lose_no_job_and_end_none_twice() {
    const JOBS: usize = 1000;
    const TEST: &str = "cq_03_killed_workers_lose_no_job_and_end_none_twice";
    if let Some(store) = child().await {
        // Side by side, so that a kill finds claims, acks and batches under way.
        let workers = [1, 4, 16].map(|n| {
            let store = store.clone();
            tokio::spawn(async move { work(&store, n).await })
        });
        for worker in workers {
            worker.await.unwrap();
        }
        return;
    }
    let database = Database::new();
    let store = database.open().await;
    let options = QueueOptions {
        max_attempts: 100,
        ..QueueOptions::default()
    };
    let jobs = store.queue("jobs", options).unwrap();
    let batch = vec![(Payload::from("work"), EnqueueOptions::default()); JOBS];
    let ids = BTreeSet::from_iter(jobs.enqueue_batch(batch).await.unwrap());
    let mut acked = BTreeSet::new();
    let kills = [1, 7, 40, 111, 222];
    for kill_after in kills {
        let mut worker = Process::start(TEST, database.url(), 0);
        for (seen, id) in worker.told("acked").enumerate() {
            assert!(acked.insert(id), "job {id} was ended twice");
            if seen + 1 == kill_after {
                worker.kill();
            }
        }
    }
    store.close().await;
    // Long after, every claim has lapsed.
    let later = Options {
        clock: Some(Clock::manual(Clock::system().now() + 100_000)),
        ..Options::default()
    };
    let store = database.open_with(later).await;
    let jobs = store.queue("jobs", options).unwrap();
    loop {
        let claimed = jobs.claim_batch("survivor", 64).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        assert_eq!(jobs.ack_batch(&claimed).await.unwrap(), claimed.len());
        for handle in &claimed {
            assert!(acked.insert(handle.job().id), "an ended job came back");
        }
    }
    // What was acked without a word of it went with the kill: at most what the three workers had under way.
    let silent = ids.difference(&acked).count();
    assert!(acked.is_subset(&ids) && silent <= kills.len() * 3, "{silent}");
    let inspection = store.inspect().await.unwrap();
    let of = &inspection.queues[0];
    assert_eq!((of.ready, of.running, of.scheduled, of.dead), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_04_killed_publishers_leave_no_gap_that_a_reader_passes() {
    const TEST: &str = "cs_04_killed_publishers_leave_no_gap_that_a_reader_passes";
    if let Some(store) = child().await {
        let publishers = (0..8).map(|task: i64| {
            let store = store.clone();
            tokio::spawn(async move {
                let stream = store.stream("events").unwrap();
                for n in 0.. {
                    if (n + task) % 3 == 0 {
                        // Rolled back: it leaves nothing.
                        let mut transaction = store.begin().await.unwrap();
                        transaction.publish("events", "ghost").await.unwrap();
                        continue;
                    }
                    tell("published", stream.publish("event").await.unwrap());
                }
            })
        });
        for publisher in publishers.collect::<Vec<_>>() {
            publisher.await.unwrap();
        }
        return;
    }
    let database = Database::new();
    let store = database.open().await;
    let stream = store.stream("events").unwrap();
    let mut receiver = stream.subscribe("reader").await.unwrap();
    let reader = tokio::spawn(async move {
        // Every offset in order, and the end after the last.
        let mut offsets = Vec::new();
        while let Some(event) = receiver.recv().await {
            let event = event.unwrap();
            offsets.push(event.offset);
            match event.payload.as_bytes() {
                b"event" => {}
                b"end" => return offsets,
                other => panic!("a ghost: {other:?}"),
            }
        }
        panic!("the subscription ended");
    });
    let mut published = BTreeSet::new();
    for kill_after in [5, 50, 200] {
        // The one is killed while the other goes on; then the other too.
        for mut publisher in [0, 1].map(|number| Process::start(TEST, database.url(), number)) {
            for (seen, offset) in publisher.told("published").enumerate() {
                assert!(published.insert(offset), "offset {offset} was given twice");
                if seen + 1 == kill_after {
                    publisher.kill();
                }
            }
        }
    }
    let end = stream.publish("end").await.unwrap();
    let read = reader.await.unwrap();
    assert_eq!(read, (1..=end).collect::<Vec<_>>());
    assert!(published.is_subset(&read.into_iter().collect()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_04_many_readers_and_publishers_of_two_processes_pass_no_event() {
    const TEST: &str = "cs_04_many_readers_and_publishers_of_two_processes_pass_no_event";
    if let Some((url, number)) = processes::child() {
        let engine = PostgresEngine::open(&url, Options::default()).await.unwrap();
        let store = Store::new(engine);
        crowd::publish_and_read(&store, number).await;
        store.close().await;
        return;
    }
    let database = Database::new();
    let store = database.open().await;
    for process in Process::start_together(TEST, database.url(), crowd::PROCESSES) {
        process.finish();
    }
    crowd::is_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cd_02_another_leads_after_a_leaders_kill_and_each_boundary_fires_once() {
    const TEST: &str = "cd_02_another_leads_after_a_leaders_kill_and_each_boundary_fires_once";
    if let Some(store) = child().await {
        takeover::run_schedules(&store).await;
        store.close().await;
        return;
    }
    let database = Database::new();
    let (store, client) = (
        database.open_settled(Options::default()).await,
        database.client().await,
    );
    let lead = async || {
        let lock = "SELECT owner, fence, expires_at FROM esker.locks WHERE name = '__alkstore_scheduler'";
        let row = client.query_one(lock, &[]).await.unwrap();
        Lead {
            owner: row.get(0),
            fence: row.get(1),
            expires_at: row.get(2),
        }
    };
    // In the transaction that fires, which waits until it may write jobs.
    let catch = async || {
        let hold = database.client().await;
        let lock = "BEGIN; LOCK TABLE esker.jobs IN EXCLUSIVE MODE";
        hold.batch_execute(lock).await.unwrap();
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'esker.jobs'::regclass";
        while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        hold
    };
    let start = || Process::start(TEST, database.url(), 0);
    takeover::another_leads_after_a_kill(&store, start, lead, catch).await;
}
