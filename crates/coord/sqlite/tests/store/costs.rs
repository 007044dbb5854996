//! What operations cost in commits, locks and log.

use std::time::Duration;

use esker_coord_api::{Clock, NewEvent, Payload};
use esker_coord_sqlite::{Error, Options, Settings, SqliteEngine, Synchronous};

use crate::support::{Fixture, batch, queue};

#[tokio::test]
async fn cq_08_an_idle_worker_takes_no_write_lock() {
    let fx = Fixture::new();
    let jobs = fx.queue();
    jobs.enqueue("1").await.unwrap();
    let claimed = jobs.claim_batch("worker", 2).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let before = fx.stats();
    // Held elsewhere, and for long: who needed it would wait.
    let other = fx.second();
    let held = other.begin().await.unwrap();
    for _ in 0..100 {
        assert!(jobs.claim_batch("worker", 2).await.unwrap().is_empty());
        assert!(jobs.next_ready_at().await.unwrap().is_some());
    }
    drop(held);
    let after = fx.stats();
    assert_eq!((after.closures, after.commits), (before.closures, before.commits));
    assert_eq!(after.rollbacks, before.rollbacks);
}

#[tokio::test]
async fn cl_01_losing_the_race_for_a_lock_takes_no_write_lock() {
    let fx = Fixture::new();
    assert!(fx.store.try_lock("lock", "a", 100).await.unwrap().is_some());
    let before = fx.stats();
    for _ in 0..100 {
        assert!(fx.store.try_lock("lock", "b", 100).await.unwrap().is_none());
    }
    assert_eq!(fx.stats().closures, before.closures);
}

#[tokio::test]
async fn cq_09_a_batch_is_one_commit() {
    let fx = Fixture::new();
    let (jobs, stream) = (fx.queue(), fx.store.stream("events").unwrap());
    let mut commits = fx.stats().commits;
    let mut one_more = || {
        commits += 1;
        assert_eq!(fx.stats().commits, commits);
    };
    assert_eq!(jobs.enqueue_batch(batch(1000)).await.unwrap().len(), 1000);
    one_more();
    let claimed = jobs.claim_batch("worker", 1000).await.unwrap();
    one_more();
    assert_eq!(jobs.ack_batch(&claimed).await.unwrap(), 1000);
    one_more();
    let events = (0..1000).map(|_| NewEvent::new(None, Payload::new("x")).unwrap());
    assert_eq!(stream.publish_batch(events.collect()).await.unwrap().len(), 1000);
    one_more();
    jobs.enqueue("1").await.unwrap();
    one_more();
    stream.publish("x").await.unwrap();
    one_more();
    fx.store.notify("channel", "x").await.unwrap();
    one_more();
    stream.save_offset("consumer", 5).await.unwrap();
    one_more();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cq_09_concurrent_calls_share_commits() {
    let fx = Fixture::new();
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let jobs = fx.queue();
            tokio::spawn(async move {
                for _ in 0..50 {
                    jobs.enqueue("1").await.unwrap();
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let stats = fx.stats();
    assert_eq!(stats.closures, 64 * 50);
    assert!(stats.commits * 4 < stats.closures, "{stats:?}");
}

#[tokio::test]
async fn cx_08_a_long_run_of_operations_keeps_the_log_within_its_bound() {
    const LIMIT: u64 = 64;
    let fx = Fixture::with(Settings {
        database: Options {
            wal_limit: LIMIT * 4096,
            synchronous: Synchronous::Normal,
            ..Options::default()
        },
        ..Settings::default()
    });
    // More by hand: `ESKER_TEST_OPERATIONS=1000000`.
    let asked = std::env::var("ESKER_TEST_OPERATIONS").ok();
    let operations: u64 = asked.map_or(24_000, |asked| asked.parse().unwrap());
    let (jobs, stream) = (fx.queue(), fx.store.stream("events").unwrap());
    for _ in 0..operations / 8 {
        jobs.enqueue("1").await.unwrap();
        let claimed = jobs.claim_one("worker").await.unwrap().unwrap();
        assert!(claimed.ack().await.unwrap());
        let offset = stream.publish("x").await.unwrap();
        stream.save_offset("consumer", offset).await.unwrap();
        let lock = fx.store.try_lock("lock", "owner", 10).await.unwrap().unwrap();
        assert!(lock.release().await.unwrap());
        fx.store.notify("channel", "x").await.unwrap();
    }
    let stats = fx.stats();
    assert!(stats.checkpoints >= operations / LIMIT, "{stats:?}");
    let log = std::fs::metadata(fx.folder.path().join("coord.db-wal"))
        .unwrap()
        .len();
    // The file is written over and never shortened, so that it has the size of the largest log.
    eprintln!("the largest log of {operations} operations had {log} bytes");
    assert!(log / (4096 + 24) <= LIMIT + 32, "{log}");
}

#[tokio::test]
async fn cq_08_a_large_payload_is_not_rewritten_by_a_claim() {
    let fx = Fixture::new();
    let jobs = fx.queue();
    let large = vec![7_u8; 1 << 20];
    let id = jobs.enqueue(large.clone()).await.unwrap();
    let before = fx.stats().wal_pages;
    let claimed = jobs.claim_one("worker").await.unwrap().unwrap();
    assert_eq!(claimed.job().payload.as_bytes(), large);
    let written = fx.stats().wal_pages - before;
    assert!(written < 16, "{written} pages");
    // It goes with its job, and is found in its dead one.
    assert!(claimed.fail(None).await.unwrap());
    assert_eq!(fx.ask("SELECT count(*) FROM coord_payload"), 0);
    assert_eq!(jobs.get_job(id).await.unwrap().unwrap().payload.as_bytes(), large);
    assert!(jobs.redrive(id).await.unwrap());
    let claimed = jobs.claim_one("worker").await.unwrap().unwrap();
    assert_eq!(claimed.job().payload.as_bytes(), large);
    assert!(claimed.ack().await.unwrap());
    assert_eq!(fx.ask("SELECT count(*) FROM coord_payload"), 0);
    assert_eq!(fx.ask("SELECT count(*) FROM coord_dead"), 0);
}

#[tokio::test]
async fn cx_04_one_operation_reads_the_clock_of_its_store() {
    let clock = Clock::manual(500);
    let fx = Fixture::with(Settings {
        clock: clock.clone(),
        ..Settings::default()
    });
    let id = fx.queue().enqueue("1").await.unwrap();
    clock.set(600);
    let job = fx.queue().get_job(id).await.unwrap().unwrap();
    assert_eq!((job.created_at, job.run_at), (500, 500));
    let second = queue(&fx.second()).get_job(id).await.unwrap().unwrap();
    assert_eq!(second, job);
}

#[tokio::test]
async fn cx_05_a_read_budget_that_cannot_be_counted_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for read_budget in [Duration::ZERO, Duration::from_millis(1 << 31), Duration::MAX] {
        let settings = Settings {
            read_budget,
            ..Settings::default()
        };
        match SqliteEngine::open(&folder.path().join("coord.db"), settings) {
            Err(Error::InvalidOption { option, .. }) => assert_eq!(option, "read_budget"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn ci_01_a_lapsed_claim_counts_as_running_until_it_is_claimed_again() {
    let clock = Clock::manual(500);
    let fx = Fixture::with(Settings {
        clock: clock.clone(),
        ..Settings::default()
    });
    let jobs = fx.queue();
    jobs.enqueue_batch(batch(3)).await.unwrap();
    assert_eq!(jobs.claim_batch("first", 3).await.unwrap().len(), 3);
    clock.advance(1000);
    jobs.enqueue("later").await.unwrap();
    // It finds that all three have lapsed, and takes one.
    assert!(jobs.claim_one("second").await.unwrap().is_some());
    let inspection = fx.store.inspect().await.unwrap();
    let of = &inspection.queues[0];
    assert_eq!((of.ready, of.scheduled, of.running, of.dead), (1, 0, 3, 0));
    assert_eq!(of.oldest_ready_s, Some(0));
    assert!(inspection.size_bytes.unwrap() > 0);
}
