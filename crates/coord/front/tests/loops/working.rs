//! What a worker does with jobs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use esker_coord::{
    CancellationToken, EnqueueOptions, Error, JobError, JobState, Payload, QueueOptions, WorkOptions,
    WorkReport,
};
use tokio::sync::Semaphore;

use crate::world::{Running, START, World, job_gone, job_in, quick, run, settle};

#[test]
fn cq_07_a_worker_waits_for_a_wake_or_a_due_time_and_looks_at_no_other() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let worker = Running::start(&queue, quick(), async |_| Ok(()));
        world.script.called("next_ready", 1).await;
        settle().await;
        assert_eq!(world.script.calls("claim"), 1);

        let ready = queue.enqueue("ready").await.unwrap();
        job_gone(&queue, ready).await;
        let later = EnqueueOptions {
            delay: Some(10),
            ..EnqueueOptions::default()
        };
        let delayed = queue.enqueue_with("delayed", later).await.unwrap();
        settle().await;
        let looked = world.script.calls("claim");
        world.clock.advance(9);
        settle().await;
        assert_eq!(world.script.calls("claim"), looked);
        world.clock.advance(1);
        job_gone(&queue, delayed).await;
        // What other queues get is no reason to look.
        settle().await;
        let looked = world.script.calls("claim");
        let other = world.store.queue("other", QueueOptions::default()).unwrap();
        other.enqueue("x").await.unwrap();
        settle().await;
        assert_eq!(world.script.calls("claim"), looked);
        let report = worker.stop().await;
        assert_eq!((report.claimed, report.acked), (2, 2));
    });
}

#[test]
fn cq_07_no_more_handlers_run_than_the_options_say_and_a_free_one_gets_the_next_job() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let mut ids = Vec::new();
        for _ in 0..7 {
            ids.push(queue.enqueue("x").await.unwrap());
        }
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Semaphore::new(0));
        let options = WorkOptions {
            concurrency: 3,
            ..quick()
        };
        let (in_handler, counted, opened) = (running.clone(), most.clone(), gate.clone());
        let worker = Running::start(&queue, options, async move |_| {
            counted.fetch_max(in_handler.fetch_add(1, SeqCst) + 1, SeqCst);
            opened.acquire().await.unwrap().forget();
            in_handler.fetch_sub(1, SeqCst);
            Ok(())
        });
        job_in(&queue, ids[2], JobState::Processing).await;
        settle().await;
        assert_eq!(running.load(SeqCst), 3);
        assert_eq!(
            queue.get_job(ids[3]).await.unwrap().unwrap().state,
            JobState::Pending
        );
        gate.add_permits(1);
        job_in(&queue, ids[3], JobState::Processing).await;
        gate.add_permits(6);
        for id in ids {
            job_gone(&queue, id).await;
        }
        assert_eq!(most.load(SeqCst), 3);
        assert_eq!(worker.stop().await.acked, 7);
    });
}

#[test]
fn cq_03_the_handler_says_what_becomes_of_its_job() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let names = ["done", "down", "later", "never", "panic", "undecodable", "spent"];
        let mut ids = Vec::new();
        for name in names {
            let options = EnqueueOptions {
                max_attempts: (name == "spent").then_some(1),
                ..EnqueueOptions::default()
            };
            ids.push(queue.enqueue_with(name, options).await.unwrap());
        }
        let worker = Running::start(&queue, quick(), async |job| match job.payload.as_bytes() {
            b"done" => Ok(()),
            b"later" => Err(JobError::retry_after("not now", 77)),
            b"never" => Err(JobError::fail("no such customer")),
            b"panic" => panic!("at {}", job.attempts),
            b"undecodable" => {
                job.payload_as::<u32>()?;
                Ok(())
            }
            _ => Err(std::io::Error::other("host is down").into()),
        });
        job_gone(&queue, ids[0]).await;
        for (index, state, error, delay) in [
            (1, JobState::Pending, "host is down", 3..=5),
            (2, JobState::Pending, "not now", 77..=77),
            (3, JobState::Dead, "no such customer", 0..=0),
            (4, JobState::Pending, "panicked: at 1", 3..=5),
            (6, JobState::Dead, "host is down", 0..=0),
        ] {
            let job = job_in(&queue, ids[index], state).await;
            assert_eq!(job.last_error.as_deref(), Some(error), "{}", names[index]);
            assert!(
                delay.contains(&(job.run_at - START)),
                "{}: {}",
                names[index],
                job.run_at
            );
            assert_eq!(job.attempts, 1);
        }
        let undecodable = job_in(&queue, ids[5], JobState::Dead).await;
        let told = undecodable.last_error.unwrap();
        assert!(
            told.starts_with("the payload cannot be encoded or decoded: "),
            "{told}"
        );
        let expected = WorkReport {
            claimed: 7,
            acked: 1,
            retried: 3,
            failed: 3,
            panicked: 1,
            ..WorkReport::default()
        };
        assert_eq!(worker.stop().await, expected);
    });
}

#[test]
fn cq_10_a_payload_that_cannot_be_decoded_is_claimed_once() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let id = queue.enqueue("{").await.unwrap();
        let worker = Running::start(&queue, quick(), async |job| {
            job.payload_as::<Vec<u8>>()?;
            Ok(())
        });
        assert_eq!(job_in(&queue, id, JobState::Dead).await.attempts, 1);
        assert_eq!(worker.stop().await.failed, 1);
    });
}

#[test]
fn cq_02_two_workers_share_a_queue_and_no_job_is_done_twice() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let jobs = (0..200_u32).map(|n| (Payload::json(&n).unwrap(), EnqueueOptions::default()));
        queue.enqueue_batch(jobs.collect()).await.unwrap();
        let done = Arc::new(Semaphore::new(0));
        let workers = [(); 2].map(|()| {
            let done = done.clone();
            Running::start(&queue, quick(), async move |_| {
                tokio::task::yield_now().await;
                done.add_permits(1);
                Ok(())
            })
        });
        done.acquire_many(200).await.unwrap().forget();
        let mut acked = 0;
        for worker in workers {
            let report = worker.stop().await;
            assert_eq!((report.acked, report.lost), (report.claimed, 0));
            acked += report.acked;
        }
        assert_eq!((acked, done.available_permits()), (200, 0));
    });
}

#[test]
fn cx_05_options_that_cannot_work_are_refused_before_anything_is_asked() {
    run(async {
        let world = World::new();
        let queue = world.queue();
        let refused = async |options: WorkOptions| {
            let worked = queue
                .work(options, async |_| Ok(()), CancellationToken::new())
                .await;
            worked.unwrap_err()
        };
        for (concurrency, heartbeats, named) in [
            (0, 3, "concurrency"),
            (65_537, 3, "concurrency"),
            (1, 0, "heartbeats"),
            (1, 1, "heartbeats"),
        ] {
            let options = WorkOptions {
                concurrency,
                heartbeats,
                ..WorkOptions::default()
            };
            match refused(options).await {
                Error::InvalidOption { option, .. } => assert_eq!(option, named),
                other => panic!("{other}"),
            }
        }
        let nobody = WorkOptions {
            worker: " ".into(),
            ..WorkOptions::default()
        };
        assert!(matches!(refused(nobody).await, Error::InvalidName { .. }));
        assert_eq!(world.script.calls("listen") + world.script.calls("claim"), 0);
    });
}

#[test]
fn co_01_a_delivery_that_panics_is_tried_again() {
    run(async {
        let world = World::new();
        let outbox = world.store.outbox("hooks").unwrap();
        let id = outbox.enqueue("x").await.unwrap();
        assert!(outbox.run_once("w", async |_| panic!("no")).await.unwrap());
        let job = job_in(outbox.queue(), id, JobState::Pending).await;
        assert_eq!(job.last_error.as_deref(), Some("panicked: no"));
        assert!((3..=5).contains(&(job.run_at - START)));
        assert!(!outbox.run_once("w", async |_| Ok(())).await.unwrap());
        world.clock.advance(5);
        assert!(outbox.run_once("w", async |_| Ok(())).await.unwrap());
        assert!(outbox.queue().get_job(id).await.unwrap().is_none());
    });
}

#[test]
fn co_02_an_outbox_delivers_until_it_is_told_to_stop_several_at_once() {
    run(async {
        let world = World::new();
        let outbox = world.store.outbox("hooks").unwrap();
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(outbox.enqueue("x").await.unwrap());
        }
        let together = Arc::new(tokio::sync::Barrier::new(4));
        let stop = CancellationToken::new();
        let (running, stopped) = (outbox.clone(), stop.clone());
        let delivering = tokio::spawn(async move {
            let delivery = async move |_: &esker_coord::Job| {
                together.wait().await;
                Ok(())
            };
            running.run(WorkOptions::default(), delivery, stopped).await
        });
        for id in ids {
            job_gone(outbox.queue(), id).await;
        }
        stop.cancel();
        assert_eq!(delivering.await.unwrap().unwrap().acked, 4);
    });
}
