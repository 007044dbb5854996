//! Several processes on one file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use esker_coord_api::{Clock, QueueOptions, Store};
use esker_coord_sqlite::{Options, Settings, rusqlite::Connection};
use esker_coord_suite::{
    crowd,
    takeover::{self, Lead},
};
use esker_testing::processes::{Process, child, line_up, tell};

use crate::support::{batch, open, queue};

/// A small log, so that checkpoints and restarts of it happen too.
fn settings(clock: Clock) -> Settings {
    Settings {
        database: Options {
            wal_limit: 256 * 1024,
            ..Options::default()
        },
        clock,
        ..Settings::default()
    }
}

fn is_whole(folder: &Path) {
    let conn = Connection::open(folder.join("coord.db")).unwrap();
    let check: String = conn
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

async fn work(store: &Store, n: i64) {
    let jobs = queue(store);
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

async fn each_job_goes_to_one_process(test: &str, processes: usize) {
    const JOBS: usize = 1200;
    if let Some((folder, _)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        line_up();
        work(&store, 4).await;
        store.close().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    let ids = queue(&store).enqueue_batch(batch(JOBS)).await.unwrap();
    let mut acked = BTreeMap::new();
    let workers = Process::start_together(test, folder.path(), processes);
    for (number, mut worker) in workers.into_iter().enumerate() {
        let mut share = 0;
        for id in worker.told("acked") {
            assert_eq!(acked.insert(id, number), None, "job {id} was handed out twice");
            share += 1;
        }
        worker.finish();
        // An equal share where each gets the processor; starved, it would be next to none.
        assert!(
            share >= JOBS / processes / 20,
            "process {number} had {share} of {JOBS}"
        );
    }
    assert_eq!(acked.into_keys().collect::<Vec<_>>(), ids);
    is_whole(folder.path());
}

#[tokio::test]
async fn cq_02_two_processes_share_a_queue_and_no_job() {
    each_job_goes_to_one_process("cq_02_two_processes_share_a_queue_and_no_job", 2).await;
}

#[tokio::test]
async fn cq_02_four_processes_share_a_queue_and_no_job() {
    each_job_goes_to_one_process("cq_02_four_processes_share_a_queue_and_no_job", 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cq_03_killed_workers_lose_no_job_and_end_none_twice() {
    const JOBS: usize = 2000;
    const TEST: &str = "cq_03_killed_workers_lose_no_job_and_end_none_twice";
    if let Some((folder, _)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        // Side by side, so that a kill finds claims, acks and batches under way.
        let workers: Vec<_> = [1, 4, 16]
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { work(&store, n).await })
            })
            .into();
        for worker in workers {
            worker.await.unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    let options = QueueOptions {
        max_attempts: 100,
        ..QueueOptions::default()
    };
    let jobs = store.queue("jobs", options).unwrap();
    let ids: BTreeSet<i64> = jobs
        .enqueue_batch(batch(JOBS))
        .await
        .unwrap()
        .into_iter()
        .collect();
    let mut acked = BTreeSet::new();
    for kill_after in [1, 7, 40, 111, 222] {
        let mut worker = Process::start(TEST, folder.path(), 0);
        for (seen, id) in worker.told("acked").enumerate() {
            assert!(acked.insert(id), "job {id} was ended twice");
            if seen + 1 == kill_after {
                worker.kill();
            }
        }
        is_whole(folder.path());
    }
    store.close().await;
    // Long after, every claim has lapsed.
    let later = Clock::manual(Clock::system().now() + 100_000);
    let store = open(folder.path(), settings(later));
    let jobs = queue(&store);
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
    // What was acked without a word of it went with the kill: at most what was under way.
    let silent = ids.difference(&acked).count();
    assert!(acked.is_subset(&ids) && silent <= 5 * 3, "{silent}");
    let inspection = store.inspect().await.unwrap();
    let of = &inspection.queues[0];
    assert_eq!((of.ready, of.running, of.scheduled, of.dead), (0, 0, 0, 0));
    is_whole(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_04_no_event_of_two_processes_is_passed_by_a_reader() {
    const TEST: &str = "cs_04_no_event_of_two_processes_is_passed_by_a_reader";
    if let Some((folder, number)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        let publishers: Vec<_> = (0..4)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move { publish(&store, number, task).await })
            })
            .collect();
        for publisher in publishers {
            publisher.await.unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    let stream = store.stream("events").unwrap();
    let mut follower = stream.subscribe("follower").await.unwrap();
    let (mut seen, mut kills) = (0, 0);
    let mut children = [0, 1].map(|number| Process::start(TEST, folder.path(), number));
    while kills < 6 {
        let event = follower.recv().await.unwrap().unwrap();
        seen += 1;
        // Neither a gap nor a step back: what was rolled back or killed left nothing.
        assert_eq!(event.offset, seen);
        if seen % 150 == 0 {
            let killed = &mut children[kills % 2];
            killed.kill();
            kills += 1;
            *killed = Process::start(TEST, folder.path(), kills + 1);
        }
    }
    for child in &mut children {
        child.kill();
    }
    while let Some(event) = follower.try_recv().await.unwrap() {
        seen += 1;
        assert_eq!(event.offset, seen);
    }
    let all = stream.read_since(0, i64::MAX).await.unwrap();
    let offsets: Vec<i64> = all.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, (1..=seen).collect::<Vec<_>>());
    assert!(all.iter().all(|event| event.payload.as_bytes() != b"rolled back"));
    is_whole(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_04_many_readers_and_publishers_of_two_processes_pass_no_event() {
    const TEST: &str = "cs_04_many_readers_and_publishers_of_two_processes_pass_no_event";
    if let Some((folder, number)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        crowd::publish_and_read(&store, number).await;
        store.close().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    for process in Process::start_together(TEST, folder.path(), crowd::PROCESSES) {
        process.finish();
    }
    crowd::is_whole(&store).await;
    is_whole(folder.path());
}

#[tokio::test]
async fn cx_09_nothing_that_a_store_does_lets_go_of_its_locks() {
    const TEST: &str = "cx_09_nothing_that_a_store_does_lets_go_of_its_locks";
    if let Some((folder, _)) = child() {
        let conn = Connection::open(Path::new(&folder).join("coord.db")).unwrap();
        conn.busy_timeout(Duration::ZERO).unwrap();
        let begun = conn.execute_batch("BEGIN IMMEDIATE");
        tell("locked", i64::from(begun.is_err()));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    let mut held = store.begin().await.unwrap();
    held.enqueue("jobs", "x").await.unwrap();
    // Descriptors of the files that are closed here would take the locks of the process with them.
    drop(store.listen("channel").await.unwrap());
    store.inspect().await.unwrap();
    queue(&store).claim_one("worker").await.unwrap();
    open(folder.path(), settings(Clock::system())).close().await;
    let mut other = Process::start(TEST, folder.path(), 0);
    assert_eq!(other.told("locked").collect::<Vec<_>>(), [1]);
    held.commit().await.unwrap();
    let mut other = Process::start(TEST, folder.path(), 0);
    assert_eq!(other.told("locked").collect::<Vec<_>>(), [0]);
}

/// Publishes one by one, in transactions, and in transactions that are rolled back.
async fn publish(store: &Store, number: usize, task: usize) {
    let stream = store.stream("events").unwrap();
    for n in 0_usize.. {
        match (n + task) % 4 {
            0 => {
                let mut transaction = store.begin().await.unwrap();
                transaction.publish("events", "rolled back").await.unwrap();
                tokio::task::yield_now().await;
            }
            1 => {
                let mut transaction = store.begin().await.unwrap();
                for _ in 0..3 {
                    transaction.publish("events", "kept").await.unwrap();
                    tokio::task::yield_now().await;
                }
                transaction.commit().await.unwrap();
            }
            _ => {
                stream.publish(format!("{number}/{task}/{n}")).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn cw_06_a_notify_of_another_process_is_heard() {
    const TEST: &str = "cw_06_a_notify_of_another_process_is_heard";
    if let Some((folder, _)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        let mut answers = store.listen("pong").await.unwrap();
        line_up();
        for _ in 0..100 {
            store.notify("ping", "").await.unwrap();
            answers.recv().await.unwrap();
        }
        store.close().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // With no poll to fall back on, a wake that is lost is a test that hangs.
    let mut told = settings(Clock::system());
    told.database.safety_poll = Duration::from_hours(1);
    let store = open(folder.path(), told);
    let mut wakes = store.listen("ping").await.unwrap();
    let other = Process::start_together(TEST, folder.path(), 1).pop().unwrap();
    for _ in 0..100 {
        wakes.recv().await.unwrap();
        store.notify("pong", "").await.unwrap();
    }
    other.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cd_02_another_leads_after_a_leaders_kill_and_each_boundary_fires_once() {
    const TEST: &str = "cd_02_another_leads_after_a_leaders_kill_and_each_boundary_fires_once";
    if let Some((folder, _)) = child() {
        let store = open(folder.as_ref(), settings(Clock::system()));
        takeover::run_schedules(&store).await;
        store.close().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), settings(Clock::system()));
    let lead = async || {
        let conn = Connection::open(folder.path().join("coord.db")).unwrap();
        let lock = "SELECT owner, fence, expires_at FROM coord_lock WHERE name = '__alkstore_scheduler'";
        conn.query_row(lock, [], |row| {
            Ok(Lead {
                owner: row.get(0)?,
                fence: row.get(1)?,
                expires_at: row.get(2)?,
            })
        })
        .unwrap()
    };
    // As a second begins, the leader fires.
    let catch = async || {
        let clock = Clock::system();
        clock.sleep_until(clock.now() + 1).await;
    };
    let start = || Process::start(TEST, folder.path(), 0);
    takeover::another_leads_after_a_kill(&store, start, lead, catch).await;
    is_whole(folder.path());
}
