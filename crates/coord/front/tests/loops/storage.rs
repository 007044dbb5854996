//! A worker while the storage fails: it goes on, and no job is lost.

use std::sync::Arc;

use esker_coord::{CancellationToken, Error, JobError, JobState, WorkReport};
use tokio::sync::Semaphore;

use crate::{
    scripted::Fault,
    world::{Running, World, job_gone, job_in, job_when, quick, run},
};

#[test]
fn cq_09_a_worker_goes_on_when_the_storage_works_again() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        for operation in ["listen", "claim", "next_ready"] {
            world.script.fail(operation, [Fault::Aborted, Fault::Aborted]);
        }
        let worker = Running::start(&queue, quick(), async |_| Ok(()));
        job_gone(&queue, id).await;
        // The look for the next due time was tried again too.
        world.script.called("next_ready", 3).await;
        let later = queue.enqueue("y").await.unwrap();
        job_gone(&queue, later).await;
        assert_eq!(worker.stop().await.acked, 2);
    });
}

#[test]
fn cx_07_a_claim_that_lost_its_answer_lapses_and_its_job_is_done_then() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        world.script.fail("claim", [Fault::Unknown]);
        let worker = Running::start(&queue, quick(), async |_| Ok(()));
        job_in(&queue, id, JobState::Processing).await;
        world.script.called("next_ready", 1).await;
        assert_eq!(queue.get_job(id).await.unwrap().unwrap().attempts, 1);
        world.clock.advance(301);
        job_gone(&queue, id).await;
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.acked), (1, 1));
    });
}

#[test]
fn cq_09_the_end_of_a_job_is_stored_when_the_storage_works_again() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let handled = Arc::new(Semaphore::new(0));
        for (operation, payload) in [("ack", "done"), ("retry", "down"), ("fail", "never")] {
            world.script.fail(operation, [Fault::Aborted, Fault::Aborted]);
            queue.enqueue(payload).await.unwrap();
        }
        let counted = handled.clone();
        let worker = Running::start(&queue, quick(), async move |job| {
            counted.add_permits(1);
            match job.payload.as_bytes() {
                b"done" => Ok(()),
                b"down" => Err(JobError::retry_after("down", 1000)),
                _ => Err(JobError::fail("never")),
            }
        });
        for operation in ["ack", "retry", "fail"] {
            world.script.called(operation, 3).await;
        }
        let expected = WorkReport {
            claimed: 3,
            acked: 1,
            retried: 1,
            failed: 1,
            ..WorkReport::default()
        };
        assert_eq!(worker.stop().await, expected);
        assert_eq!(handled.available_permits(), 3);
    });
}

#[test]
fn cx_07_an_acknowledgement_that_lost_its_answer_counts_as_done_when_the_claim_is_gone() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        world.script.fail("ack", [Fault::Unknown]);
        let worker = Running::start(&queue, quick(), async |_| Ok(()));
        world.script.called("ack", 2).await;
        job_gone(&queue, id).await;
        let report = worker.stop().await;
        assert_eq!((report.acked, report.lost), (1, 0));
    });
}

#[test]
fn cq_09_after_the_grace_the_storage_is_asked_once_more_and_the_job_lapses() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        world.script.fail("ack", vec![Fault::Aborted; 1000]);
        let hasty = esker_coord::WorkOptions {
            grace: std::time::Duration::ZERO,
            ..quick()
        };
        let worker = Running::start(&queue, hasty, async |_| Ok(()));
        world.script.called("ack", 1).await;
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.lost), (1, 1));
        assert_eq!(
            queue.get_job(id).await.unwrap().unwrap().state,
            JobState::Processing
        );
    });
}

#[test]
fn cw_03_a_worker_ends_with_its_store() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let worker = Running::start(&queue, quick(), async |_| Ok(()));
        world.script.called("next_ready", 1).await;
        world.store.close().await;
        assert!(matches!(worker.end().await, Err(Error::Closed)));
        let ended = queue
            .work(quick(), async |_| Ok(()), CancellationToken::new())
            .await;
        assert!(matches!(ended, Err(Error::Closed)));
    });
}

#[test]
fn cq_09_handlers_finish_when_the_store_ends_under_them() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        let (gate, finished) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (opened, counted) = (gate.clone(), finished.clone());
        let worker = Running::start(&queue, quick(), async move |_| {
            opened.acquire().await.unwrap().forget();
            counted.add_permits(1);
            Ok(())
        });
        let (elsewhere, _) = world.another();
        let seen = elsewhere.queue("q", queue.options()).unwrap();
        job_in(&seen, id, JobState::Processing).await;
        world.store.close().await;
        gate.add_permits(1);
        assert!(matches!(worker.end().await, Err(Error::Closed)));
        assert_eq!(finished.available_permits(), 1);
        // It was not acknowledged: another worker gets it.
        let left = job_when(&seen, id, |_| true).await.unwrap();
        assert_eq!(left.state, JobState::Processing);
    });
}
