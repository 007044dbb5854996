//! CQ-03, CQ-04: what a claim may do, and for how long.

use std::sync::Arc;

use esker_coord_api::{Error, JobHandle, JobState, MAX_ATTEMPTS, Queue, QueueOptions};
use tokio::sync::Barrier;

use crate::{
    World,
    world::{NOW, claim, dead, delayed, job, options, queue},
};

/// Nothing that this handle tries does anything.
async fn can_do_nothing(queue: &Queue, handle: &JobHandle) {
    let id = handle.job().id;
    let before = queue.get_job(id).await.unwrap();
    assert!(!handle.heartbeat(1000).await.unwrap(), "heartbeat");
    assert!(!handle.retry(Some("late"), Some(0)).await.unwrap(), "retry");
    assert!(!handle.release().await.unwrap(), "release");
    assert!(!handle.fail(Some("late")).await.unwrap(), "fail");
    assert!(!handle.ack().await.unwrap(), "ack");
    assert_eq!(queue.ack_batch([handle]).await.unwrap(), 0, "ack_batch");
    assert_eq!(queue.get_job(id).await.unwrap(), before, "the row is untouched");
}

pub async fn cq_03_ack_deletes(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("work").await.unwrap();
    let claimed = claim(&queue, "w").await;
    assert!(claimed.ack().await.unwrap());
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    can_do_nothing(&queue, &claimed).await;
}

pub async fn cq_03_retry_puts_back_and_keeps_the_error(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("work").await.unwrap();
    world.advance(2).await;
    let claimed = claim(&queue, "w").await;
    assert!(claimed.retry(Some("boom"), Some(30)).await.unwrap());
    let back = job(&queue, id).await;
    assert_eq!(
        (back.state, back.run_at, back.attempts),
        (JobState::Pending, NOW + 32, 1)
    );
    assert_eq!(
        (back.worker, back.claimed_at, back.claim_expires_at),
        (None, None, None)
    );
    assert_eq!((back.last_error.as_deref(), back.created_at), (Some("boom"), NOW));
    can_do_nothing(&queue, &claimed).await;
    world.advance(30).await;
    let again = claim(&queue, "w").await;
    assert_eq!(
        (again.job().attempts, again.job().last_error.as_deref()),
        (2, Some("boom"))
    );
    // Without a new one, the last error stays.
    assert!(again.retry(None, Some(0)).await.unwrap());
    assert_eq!(job(&queue, id).await.last_error.as_deref(), Some("boom"));
}

pub async fn cq_03_a_retry_with_attempts_spent_is_death(world: World) {
    let queue = world.queue_with("q", options(60, 1));
    for (given, kept) in [(Some("boom"), "boom"), (Some(""), ""), (None, MAX_ATTEMPTS)] {
        let id = queue.enqueue("work").await.unwrap();
        let claimed = claim(&queue, "w").await;
        assert!(claimed.retry(given, Some(30)).await.unwrap());
        let died = job(&queue, id).await;
        assert_eq!((died.state, died.died_at), (JobState::Dead, Some(NOW)));
        assert_eq!((died.last_error.as_deref(), died.attempts), (Some(kept), 1));
        assert_eq!(
            (&died.worker, died.claimed_at, died.claim_expires_at),
            (&None, None, None)
        );
        can_do_nothing(&queue, &claimed).await;
    }
    assert_eq!(dead(&queue).await.len(), 3);
}

pub async fn cq_03_fail_is_death_at_once(world: World) {
    let queue = world.queue("q");
    for (given, kept) in [(Some("poison"), "poison"), (None, "failed")] {
        let id = queue.enqueue("work").await.unwrap();
        let claimed = claim(&queue, "w").await;
        world.advance(1).await;
        assert!(claimed.fail(given).await.unwrap());
        let died = job(&queue, id).await;
        assert_eq!(
            (died.state, died.last_error.as_deref()),
            (JobState::Dead, Some(kept))
        );
        assert_eq!((died.died_at, died.attempts), (Some(world.now()), 1));
        can_do_nothing(&queue, &claimed).await;
    }
}

pub async fn cq_03_a_heartbeat_counts_from_now(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    let id = queue.enqueue("work").await.unwrap();
    let claimed = claim(&queue, "w").await;
    world.advance(50).await;
    for (extend, deadline) in [(60, NOW + 110), (60, NOW + 110), (5, NOW + 55)] {
        assert!(claimed.heartbeat(extend).await.unwrap());
        assert_eq!(job(&queue, id).await.claim_expires_at, Some(deadline));
    }
    assert!(claimed.heartbeat(60).await.unwrap());
    // Past the first deadline, up to the last second of the second.
    world.advance(60).await;
    assert!(queue.claim_one("x").await.unwrap().is_none());
    assert!(claimed.ack().await.unwrap());
}

pub async fn cq_03_a_heartbeat_that_does_not_extend_is_refused(world: World) {
    let queue = world.queue("q");
    queue.enqueue("work").await.unwrap();
    let claimed = claim(&queue, "w").await;
    for extend in [0, -1, i64::MIN] {
        let refused = claimed.heartbeat(extend).await;
        assert!(matches!(
            refused,
            Err(Error::InvalidOption { option: "extend", .. })
        ));
    }
    assert_eq!(
        job(&queue, claimed.job().id).await.claim_expires_at,
        Some(NOW + 300)
    );
}

pub async fn cq_03_a_lapsed_claim_can_do_nothing(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    queue.enqueue("work").await.unwrap();
    let claimed = claim(&queue, "w").await;
    world.advance(61).await;
    // Nobody else has claimed it, and still it is late.
    can_do_nothing(&queue, &claimed).await;
    let other = claim(&queue, "x").await;
    can_do_nothing(&queue, &claimed).await;
    assert!(other.ack().await.unwrap());
}

pub async fn cq_03_a_stale_claim_of_the_same_worker_can_do_nothing(world: World) {
    let queue = world.queue_with("q", options(60, 5));
    queue.enqueue("work").await.unwrap();
    let lapsed = claim(&queue, "w").await;
    world.advance(61).await;
    let retried = claim(&queue, "w").await;
    can_do_nothing(&queue, &lapsed).await;
    assert!(retried.retry(None, Some(0)).await.unwrap());
    let released = claim(&queue, "w").await;
    can_do_nothing(&queue, &retried).await;
    assert!(released.release().await.unwrap());
    // The attempt was given back, so that this claim has the same count too.
    let held = claim(&queue, "w").await;
    assert_eq!(held.job().attempts, released.job().attempts);
    can_do_nothing(&queue, &released).await;
    assert!(held.heartbeat(10).await.unwrap() && held.ack().await.unwrap());
}

pub async fn cq_03_a_stale_claim_cannot_touch_a_redriven_job(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("work").await.unwrap();
    let failed = claim(&queue, "w").await;
    assert!(failed.fail(None).await.unwrap());
    assert!(queue.redrive(id).await.unwrap());
    can_do_nothing(&queue, &failed).await;
    let held = claim(&queue, "w").await;
    can_do_nothing(&queue, &failed).await;
    assert!(held.ack().await.unwrap());
}

pub async fn cq_03_release_gives_the_attempt_back(world: World) {
    let queue = world.queue_with("q", options(60, 1));
    let id = queue.enqueue_with("work", delayed(5)).await.unwrap();
    world.advance(20).await;
    let before = job(&queue, id).await;
    for _ in 0..3 {
        let claimed = claim(&queue, "w").await;
        assert_eq!(claimed.job().attempts, 1);
        assert!(claimed.release().await.unwrap());
        assert_eq!(job(&queue, id).await, before);
        can_do_nothing(&queue, &claimed).await;
    }
    assert!(claim(&queue, "w").await.ack().await.unwrap());
}

pub async fn cq_03_concurrent_ends_of_one_claim_succeed_once(world: World) {
    let second = world.second().await;
    let queues = [world.queue("q"), queue(&second, "q")];
    for round in 0..8 {
        queues[0].enqueue("work").await.unwrap();
        let claimed = Arc::new(claim(&queues[round % 2], "w").await);
        let barrier = Arc::new(Barrier::new(6));
        let mut ends = Vec::new();
        for end in 0..6 {
            let (claimed, barrier) = (claimed.clone(), barrier.clone());
            ends.push(tokio::spawn(async move {
                barrier.wait().await;
                match end % 3 {
                    0 => claimed.ack().await.unwrap(),
                    1 => claimed.fail(None).await.unwrap(),
                    _ => claimed.retry(None, Some(1_000_000)).await.unwrap(),
                }
            }));
        }
        let mut succeeded = 0;
        for end in ends {
            succeeded += u32::from(end.await.unwrap());
        }
        assert_eq!(succeeded, 1);
    }
}

pub async fn cq_03_a_late_worker_and_a_reclaim_never_both_hold(world: World) {
    let second = world.second().await;
    for _ in 0..8 {
        let (mine, theirs) = (world.queue_with("q", options(60, 99)), queue(&second, "q"));
        let id = mine.enqueue("work").await.unwrap();
        let late = claim(&mine, "w").await;
        world.advance(61).await;
        let barrier = Arc::new(Barrier::new(2));
        let reclaim = tokio::spawn({
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                claim(&theirs, "w").await
            }
        });
        barrier.wait().await;
        assert!(!late.heartbeat(60).await.unwrap() && !late.ack().await.unwrap());
        let held = reclaim.await.unwrap();
        assert_eq!(held.job().id, id);
        assert!(held.ack().await.unwrap());
    }
}

pub async fn cq_04_a_retry_without_a_delay_is_on_the_curve(world: World) {
    let stamps = QueueOptions {
        backoff_base_s: 100,
        max_attempts: 9,
        ..QueueOptions::default()
    };
    let id = world.queue_with("q", stamps).enqueue("work").await.unwrap();
    // The handle that retries has other options: the job's own count.
    let queue = world.queue("q");
    for range in [
        50..=100,
        100..=200,
        200..=400,
        400..=800,
        800..=1600,
        1600..=3200,
        1800..=3600,
    ] {
        let claimed = claim(&queue, "w").await;
        assert!(claimed.retry(None, None).await.unwrap());
        let delay = job(&queue, id).await.run_at - world.now();
        assert!(range.contains(&delay), "{delay} in {range:?}");
        world.advance(delay).await;
    }
}

pub async fn cq_03_any_error_text_is_kept(world: World) {
    let queue = world.queue_with("q", options(60, 99));
    let id = queue.enqueue("work").await.unwrap();
    let long = "long ".repeat(20_000);
    for text in [
        "",
        " ",
        "'; DROP TABLE jobs; --",
        "\u{0}nul\u{0}",
        "\u{1f600}\r\n",
        &long,
    ] {
        assert!(claim(&queue, "w").await.retry(Some(text), Some(0)).await.unwrap());
        assert_eq!(job(&queue, id).await.last_error.as_deref(), Some(text));
    }
    assert!(claim(&queue, "w").await.fail(Some("\u{0}")).await.unwrap());
    assert_eq!(dead(&queue).await[0].last_error.as_deref(), Some("\u{0}"));
}
