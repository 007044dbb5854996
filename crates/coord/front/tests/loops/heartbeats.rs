//! Claims that are renewed while their handlers run, and claims that are lost.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use esker_coord::{JobState, QueueOptions};
use tokio::sync::Semaphore;

use crate::{
    scripted::Fault,
    world::{Running, START, World, job_gone, job_in, job_when, quick, run},
};

/// A claim that holds for this long, so that its heartbeats come every millisecond or so.
const BRIEF: QueueOptions = QueueOptions {
    visibility_timeout_s: 30,
    max_attempts: 3,
    backoff_base_s: 5,
    dead_letter_retention_s: None,
};

/// Opens when it is dropped.
struct Dropped(Arc<Semaphore>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[test]
fn cq_03_a_claim_is_renewed_for_as_long_as_its_handler_runs() {
    run(async {
        let world = World::new();
        let queue = world.queue_with(BRIEF);
        let id = queue.enqueue("x").await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let opened = gate.clone();
        let worker = Running::start(&queue, quick(), async move |_| {
            opened.acquire().await.unwrap().forget();
            Ok(())
        });
        // Far beyond what the first claim held for, in steps that it does hold for.
        for _ in 0..10 {
            let until = job_in(&queue, id, JobState::Processing).await.claim_expires_at;
            world.clock.advance(20);
            job_when(&queue, id, |job| {
                job.is_some_and(|job| job.claim_expires_at > until)
            })
            .await;
        }
        let job = job_in(&queue, id, JobState::Processing).await;
        assert_eq!((job.attempts, job.claim_expires_at), (1, Some(START + 230)));
        gate.add_permits(1);
        job_gone(&queue, id).await;
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.acked, report.lost), (1, 1, 0));
    });
}

#[test]
fn cq_06_the_handler_of_a_cancelled_job_is_dropped() {
    run(async {
        let world = World::new();
        let queue = world.queue_with(BRIEF);
        let id = queue.enqueue("x").await.unwrap();
        let dropped = Arc::new(Semaphore::new(0));
        let counted = dropped.clone();
        let worker = Running::start(&queue, quick(), async move |_| {
            let _dropped = Dropped(counted.clone());
            pending().await
        });
        job_in(&queue, id, JobState::Processing).await;
        assert!(queue.cancel(id).await.unwrap());
        dropped.acquire().await.unwrap().forget();
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.lost), (1, 1));
    });
}

#[test]
fn cq_03_a_lapsed_claim_is_no_more_acknowledged_and_its_job_is_claimed_again() {
    run(async {
        let world = World::new();
        let queue = world.queue_with(BRIEF);
        let id = queue.enqueue("x").await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let opened = gate.clone();
        let seldom = esker_coord::WorkOptions {
            heartbeats: 2,
            ..quick()
        };
        let worker = Running::start(&queue, seldom, async move |_| {
            opened.acquire().await.unwrap().forget();
            Ok(())
        });
        job_in(&queue, id, JobState::Processing).await;
        world.clock.advance(31);
        // The worker itself is the one that claims it again.
        let again = job_when(&queue, id, |job| job.is_some_and(|job| job.attempts == 2)).await;
        assert_eq!(again.unwrap().claim_expires_at, Some(START + 61));
        gate.add_permits(2);
        job_gone(&queue, id).await;
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.acked, report.lost), (2, 1, 1));
    });
}

#[test]
fn cq_03_a_heartbeat_that_fails_is_tried_again() {
    run(async {
        let world = World::new();
        let queue = world.queue_with(BRIEF);
        let id = queue.enqueue("x").await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let opened = gate.clone();
        world.script.fail("heartbeat", [Fault::Aborted, Fault::Unknown]);
        let worker = Running::start(&queue, quick(), async move |_| {
            opened.acquire().await.unwrap().forget();
            Ok(())
        });
        world.script.called("heartbeat", 3).await;
        gate.add_permits(1);
        job_gone(&queue, id).await;
        assert_eq!(worker.stop().await.acked, 1);
    });
}

#[test]
fn cq_03_no_handler_begins_under_a_claim_that_has_lapsed_meanwhile() {
    run(async {
        let world = World::new();
        let queue = world.queue_with(QueueOptions {
            visibility_timeout_s: 1,
            ..QueueOptions::default()
        });
        queue.enqueue("blocks").await.unwrap();
        queue.enqueue("waits").await.unwrap();
        let began = Arc::new(AtomicUsize::new(0));
        let counted = began.clone();
        let worker = Running::start(&queue, quick(), async move |_| {
            counted.fetch_add(1, SeqCst);
            // It keeps the thread for longer than a claim of one second can hold.
            let blocked = Instant::now();
            while blocked.elapsed() < Duration::from_secs(2) {
                std::hint::spin_loop();
            }
            Ok(())
        });
        world.script.called("ack", 1).await;
        let report = worker.stop().await;
        assert_eq!((began.load(SeqCst), report.acked, report.lost), (1, 1, 1));
    });
}
