//! The stop of a worker: what runs may finish, what is held is given back.

use std::{future::pending, sync::Arc, time::Duration};

use esker_coord::{CancellationToken, JobState, WorkOptions, WorkReport};
use tokio::sync::Semaphore;

use crate::{
    scripted::Fault,
    world::{Running, World, job_in, quick, run, settle},
};

#[test]
fn cq_07_at_the_stop_running_handlers_finish_and_nothing_more_is_claimed() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let running = queue.enqueue("running").await.unwrap();
        let waiting = queue.enqueue("waiting").await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let opened = gate.clone();
        let one = WorkOptions {
            concurrency: 1,
            ..quick()
        };
        let worker = Running::start(&queue, one, async move |_| {
            opened.acquire().await.unwrap().forget();
            Ok(())
        });
        job_in(&queue, running, JobState::Processing).await;
        worker.stop.cancel();
        settle().await;
        assert!(queue.get_job(running).await.unwrap().is_some());
        gate.add_permits(2);
        let report = worker.end().await.unwrap();
        assert_eq!((report.claimed, report.acked), (1, 1));
        let left = queue.get_job(waiting).await.unwrap().unwrap();
        assert_eq!((left.state, left.attempts), (JobState::Pending, 0));
    });
}

#[test]
fn cq_07_after_the_grace_what_is_held_is_given_back_with_the_attempt_not_counted() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        let hasty = WorkOptions {
            grace: Duration::ZERO,
            ..quick()
        };
        let worker = Running::start(&queue, hasty, async |_| pending().await);
        job_in(&queue, id, JobState::Processing).await;
        let report = worker.stop().await;
        let expected = WorkReport {
            claimed: 1,
            released: 1,
            ..WorkReport::default()
        };
        assert_eq!(report, expected);
        let job = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempts), (JobState::Pending, 0));
    });
}

#[test]
fn cq_07_a_claim_that_the_stop_meets_is_given_back_unhandled() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        let answered = CancellationToken::new();
        world.script.fail("claim", [Fault::Halted(answered.clone())]);
        let worker = Running::start(&queue, quick(), async |_| unreachable!("it was stopped"));
        job_in(&queue, id, JobState::Processing).await;
        worker.stop.cancel();
        settle().await;
        answered.cancel();
        let report = worker.end().await.unwrap();
        assert_eq!((report.claimed, report.released), (1, 1));
        let job = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempts), (JobState::Pending, 0));
    });
}

#[test]
fn cq_07_a_worker_that_is_stopped_before_it_begins_claims_nothing() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        queue.enqueue("x").await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let report = queue.work(quick(), async |_| Ok(()), stop).await.unwrap();
        assert_eq!((report, world.script.calls("claim")), (WorkReport::default(), 0));
    });
}

#[test]
fn cq_07_a_handler_can_give_its_job_back() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let handler = async |_: &esker_coord::Job| {
            stopping.cancel();
            Err(esker_coord::JobError::release())
        };
        let report = queue.work(quick(), handler, stop).await.unwrap();
        assert_eq!((report.claimed, report.released), (1, 1));
        let job = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!(
            (job.state, job.attempts, job.last_error),
            (JobState::Pending, 0, None)
        );
    });
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("when dropped");
    }
}

#[test]
fn cq_07_a_handler_that_panics_when_it_is_dropped_harms_nothing_else() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("x").await.unwrap();
        let hasty = WorkOptions {
            grace: Duration::ZERO,
            ..quick()
        };
        let worker = Running::start(&queue, hasty, async |_| {
            let _held = PanicsWhenDropped;
            pending::<()>().await;
            Ok(())
        });
        job_in(&queue, id, JobState::Processing).await;
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.released), (1, 1));
        let left = queue.get_job(id).await.unwrap().unwrap();
        assert_eq!((left.state, left.attempts), (JobState::Pending, 0));
    });
}
