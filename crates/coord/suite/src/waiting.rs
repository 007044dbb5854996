//! CQ-07, CQ-09, CQ-10: when a worker looks again, batches, and what cannot be decoded.

use esker_coord_api::{EnqueueOptions, Error, JobState, Payload};

use crate::{
    World,
    world::{NOW, batch, claim, delayed, expiring, important, job, options},
};

pub async fn cq_07_the_next_time_is_when_a_claim_will_find_something(world: World) {
    let queue = world.queue_with("q", options(60, 2));
    let next = async || queue.next_ready_at().await.unwrap();
    assert_eq!(next().await, None);
    world.queue("other").enqueue("x").await.unwrap();
    assert_eq!(next().await, None);
    let late = queue.enqueue_with("late", delayed(500)).await.unwrap();
    assert_eq!(next().await, Some(NOW + 500));
    let soon = queue
        .enqueue_with(
            "soon",
            EnqueueOptions {
                delay: Some(20),
                ..important(-9)
            },
        )
        .await
        .unwrap();
    assert_eq!(next().await, Some(NOW + 20));
    world.advance(20).await;
    assert!(next().await.expect("a job is ready") <= NOW + 20);
    // Held: when it lapses, which a heartbeat moves.
    let held = claim(&queue, "w").await;
    assert_eq!((held.job().id, next().await), (soon, Some(NOW + 81)));
    assert!(held.heartbeat(100).await.unwrap());
    assert_eq!(next().await, Some(NOW + 121));
    assert!(held.retry(None, Some(5)).await.unwrap());
    assert_eq!(next().await, Some(NOW + 25));
    world.advance(1000).await;
    assert!(next().await.expect("jobs are ready") <= world.now());
    assert!(queue.cancel(late).await.unwrap() && queue.cancel(soon).await.unwrap());
    assert_eq!(next().await, None);
}

pub async fn cq_07_what_will_never_be_claimed_is_not_waited_for(world: World) {
    let queue = world.queue_with("q", options(60, 1));
    let next = async || queue.next_ready_at().await.unwrap();
    // Its only attempt is under way.
    queue.enqueue("spent").await.unwrap();
    let _held = claim(&queue, "w").await;
    assert_eq!(next().await, None);
    // It expires before it is ready, when it is ready, and after.
    for (expires, expected) in [(0, None), (-5, None), (1, Some(NOW + 50))] {
        let id = queue
            .enqueue_with(
                "x",
                EnqueueOptions {
                    expires: Some(expires),
                    ..delayed(50)
                },
            )
            .await
            .unwrap();
        assert_eq!(next().await, expected, "expires {expires}");
        assert!(queue.cancel(id).await.unwrap());
    }
    // It has expired, and nobody has swept.
    queue.enqueue_with("x", expiring(10)).await.unwrap();
    assert!(next().await.is_some());
    world.advance(10).await;
    assert_eq!(next().await, None);
    // Dead.
    world.advance(100).await;
    queue.sweep_expired().await.unwrap();
    assert_eq!(next().await, None);
}

pub async fn cq_07_a_held_job_that_expires_first_is_not_waited_for(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    queue.enqueue_with("x", expiring(61)).await.unwrap();
    let held = claim(&queue, "w").await;
    // It lapses in the second in which it expires.
    assert_eq!(queue.next_ready_at().await.unwrap(), None);
    assert!(held.heartbeat(59).await.unwrap());
    assert_eq!(queue.next_ready_at().await.unwrap(), Some(NOW + 60));
}

pub async fn cq_07_a_claim_that_will_lapse_sooner_wakes_who_waits(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    queue.enqueue("x").await.unwrap();
    let held = claim(&queue, "w").await;
    let second = world.second().await;
    for (store, deadline) in [(world.store(), 30), (&second, 10)] {
        let waiting = crate::world::queue(store, "q");
        let mut wakes = waiting.listen().await.unwrap();
        assert!(held.heartbeat(deadline).await.unwrap());
        wakes.recv().await.expect("the source lives");
        assert_eq!(waiting.next_ready_at().await.unwrap(), Some(NOW + deadline + 1));
    }
}

pub async fn cq_09_a_batch_is_stored_whole_and_its_ids_are_in_order(world: World) {
    let queue = world.queue("q");
    let before = queue.enqueue("before").await.unwrap();
    let enqueued = queue.enqueue_batch(batch(500)).await.unwrap();
    assert_eq!(enqueued.len(), 500);
    assert!(before < enqueued[0] && enqueued.is_sorted_by(|a, b| a < b));
    for n in [0, 7, 499] {
        assert_eq!(
            job(&queue, enqueued[n]).await.payload,
            Payload::from(n.to_string())
        );
    }
    let mixed = vec![
        ("delayed".into(), delayed(10)),
        ("important".into(), important(5)),
        ("expiring".into(), expiring(20)),
    ];
    let mixed = queue.enqueue_batch(mixed).await.unwrap();
    assert_eq!(job(&queue, mixed[0]).await.run_at, NOW + 10);
    assert_eq!(job(&queue, mixed[1]).await.priority, 5);
    assert_eq!(job(&queue, mixed[2]).await.expires_at, Some(NOW + 20));
    assert!(queue.enqueue("after").await.unwrap() > mixed[2]);
}

pub async fn cq_09_concurrent_batches_are_whole(world: World) {
    let stores = [world.store().clone(), world.second().await];
    let mut tasks = Vec::new();
    for store in stores.iter().cycle().take(8) {
        let queue = crate::world::queue(store, "q");
        tasks.push(tokio::spawn(async move {
            queue.enqueue_batch(batch(25)).await.unwrap()
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        let ids = task.await.unwrap();
        assert!(ids.is_sorted_by(|a, b| a < b));
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(
                job(&world.queue("q"), *id).await.payload,
                Payload::from(n.to_string())
            );
        }
        all.extend(ids);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200);
}

pub async fn cq_10_what_cannot_be_decoded_is_the_workers_to_fail(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("{\"n\":").await.unwrap();
    let claimed = claim(&queue, "w").await;
    let decoded = claimed.payload_as::<serde_json::Value>();
    assert!(matches!(decoded, Err(Error::Codec(_))));
    // Nothing became of it unasked.
    assert_eq!(job(&queue, id).await, *claimed.job());
    assert!(claimed.fail(Some("not JSON")).await.unwrap());
    assert_eq!(job(&queue, id).await.state, JobState::Dead);
}
