//! CQ-05, CQ-06, CI-02: how jobs end, and what becomes of the dead.

use esker_coord_api::{
    DeadPage, EXPIRED, EnqueueOptions, JobState, MAX_ATTEMPTS, MOST_SETTLED, QueueOptions,
};

use crate::{
    World,
    world::{NOW, batch, claim, dead, expiring, ids, job, options},
};

pub async fn cq_05_a_lapsed_job_without_attempts_dies_at_the_next_claim(world: World) {
    let queue = world.queue_with("q", options(60, 1));
    let id = queue.enqueue("x").await.unwrap();
    let held = claim(&queue, "w").await;
    world.advance(61).await;
    // Nothing happens unasked.
    assert_eq!(job(&queue, id).await, *held.job());
    assert!(queue.claim_one("w").await.unwrap().is_none());
    let died = job(&queue, id).await;
    assert_eq!(
        (died.state, died.last_error.as_deref()),
        (JobState::Dead, Some(MAX_ATTEMPTS))
    );
    assert_eq!(
        (died.died_at, died.attempts, died.worker),
        (Some(NOW + 61), 1, None)
    );
}

pub async fn cq_05_a_lapsed_job_without_attempts_dies_in_a_sweep(world: World) {
    let queue = world.queue_with("q", options(60, 1));
    let id = queue.enqueue("x").await.unwrap();
    let _lost = claim(&queue, "w").await;
    world.advance(60).await;
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    world.advance(1).await;
    assert_eq!(queue.sweep_expired().await.unwrap(), 1);
    assert_eq!(job(&queue, id).await.last_error.as_deref(), Some(MAX_ATTEMPTS));
}

pub async fn cq_05_a_spent_job_keeps_the_error_that_a_worker_gave(world: World) {
    let queue = world.queue_with("q", options(60, 2));
    for sweep in [false, true] {
        let id = queue.enqueue("x").await.unwrap();
        assert!(
            claim(&queue, "w")
                .await
                .retry(Some("boom"), Some(0))
                .await
                .unwrap()
        );
        let _lost = claim(&queue, "w").await;
        world.advance(61).await;
        if sweep {
            assert_eq!(queue.sweep_expired().await.unwrap(), 1);
        } else {
            assert!(queue.claim_one("w").await.unwrap().is_none());
        }
        assert_eq!(job(&queue, id).await.last_error.as_deref(), Some("boom"));
    }
    let id = queue.enqueue("x").await.unwrap();
    assert!(
        claim(&queue, "w")
            .await
            .retry(Some("boom"), Some(0))
            .await
            .unwrap()
    );
    assert!(claim(&queue, "w").await.retry(None, Some(0)).await.unwrap());
    let died = job(&queue, id).await;
    assert_eq!(
        (died.state, died.last_error.as_deref()),
        (JobState::Dead, Some("boom"))
    );
}

pub async fn cq_05_a_dead_job_keeps_what_it_was(world: World) {
    let stamps = QueueOptions {
        dead_letter_retention_s: Some(1000),
        ..options(60, 4)
    };
    let queue = world.queue_with("q", stamps);
    let given = EnqueueOptions {
        run_at: Some(NOW - 5),
        priority: 7,
        expires: Some(500),
        ..EnqueueOptions::default()
    };
    let id = queue.enqueue_with("payload", given).await.unwrap();
    let before = job(&queue, id).await;
    assert!(claim(&queue, "w").await.fail(Some("why")).await.unwrap());
    let died = job(&queue, id).await;
    assert_eq!(
        (died.state, died.died_at, died.attempts),
        (JobState::Dead, Some(NOW), 1)
    );
    assert_eq!(
        (&died.payload, died.priority, died.run_at),
        (&before.payload, 7, NOW - 5)
    );
    assert_eq!((died.stamps, died.created_at, died.boundary), (stamps, NOW, None));
    assert_eq!(
        (died.expires_at, died.last_error.as_deref()),
        (Some(NOW + 495), Some("why"))
    );
    assert_eq!(
        (&died.worker, died.claimed_at, died.claim_expires_at),
        (&None, None, None)
    );
    assert_eq!(dead(&queue).await, [died]);
}

pub async fn cq_05_an_expired_job_dies_at_the_next_claim_unless_it_is_held(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    let held = queue.enqueue_with("held", expiring(10)).await.unwrap();
    let holder = claim(&queue, "w").await;
    let waits = queue.enqueue_with("waits", expiring(10)).await.unwrap();
    world.advance(10).await;
    assert!(queue.claim_one("w").await.unwrap().is_none());
    let died = job(&queue, waits).await;
    assert_eq!(
        (died.state, died.last_error.as_deref()),
        (JobState::Dead, Some(EXPIRED))
    );
    assert_eq!((died.died_at, died.expires_at), (Some(NOW + 10), Some(NOW + 10)));
    // The holder may go on to the end of its claim.
    assert_eq!(job(&queue, held).await.state, JobState::Processing);
    assert!(holder.heartbeat(60).await.unwrap());
    world.advance(61).await;
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(job(&queue, held).await.last_error.as_deref(), Some(EXPIRED));
}

pub async fn cq_05_an_expired_job_that_is_put_back_expires(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue_with("x", expiring(10)).await.unwrap();
    let held = claim(&queue, "w").await;
    world.advance(20).await;
    assert!(held.retry(Some("boom"), Some(0)).await.unwrap());
    assert!(queue.claim_one("w").await.unwrap().is_none());
    let died = job(&queue, id).await;
    assert_eq!(
        (died.state, died.last_error.as_deref()),
        (JobState::Dead, Some(EXPIRED))
    );
}

pub async fn cq_05_one_claim_settles_a_bounded_number(world: World) {
    const MORE: usize = MOST_SETTLED + 10;
    let queue = world.queue("q");
    let jobs = (0..MORE).map(|_| ("x".into(), expiring(10))).collect();
    queue.enqueue_batch(jobs).await.unwrap();
    world.advance(10).await;
    let mut died = 0;
    for _ in 0..3 {
        assert!(queue.claim_one("w").await.unwrap().is_none());
        let now = dead(&queue).await.len();
        assert!(now - died <= MOST_SETTLED, "{} in one claim", now - died);
        died = now;
    }
    // A sweep leaves none.
    let left = u64::try_from(MORE - died).unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), left);
    assert_eq!(dead(&queue).await.len(), MORE);
}

pub async fn cq_06_a_sweep_moves_what_has_expired_in_any_state(world: World) {
    let (queue, other) = (world.queue_with("q", options(60, 3)), world.queue("other"));
    let [held, lapsed, ready, later, keeps] = queue
        .enqueue_batch(vec![
            ("held".into(), expiring(100)),
            ("lapsed".into(), expiring(100)),
            ("ready".into(), expiring(100)),
            (
                "later".into(),
                EnqueueOptions {
                    delay: Some(90),
                    expires: Some(10),
                    ..EnqueueOptions::default()
                },
            ),
            ("keeps".into(), EnqueueOptions::default()),
        ])
        .await
        .unwrap()[..]
    else {
        panic!("five ids");
    };
    let elsewhere = other.enqueue_with("elsewhere", expiring(1)).await.unwrap();
    let claims = queue.claim_batch("w", 2).await.unwrap();
    assert_eq!(ids(&claims), [held, lapsed]);
    world.advance(60).await;
    assert!(claims[0].heartbeat(1000).await.unwrap());
    world.advance(39).await;
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    world.advance(1).await;
    assert_eq!(queue.sweep_expired().await.unwrap(), 4);
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    let died = dead(&queue).await;
    assert_eq!(
        died.iter().map(|job| job.id).collect::<Vec<_>>(),
        [held, lapsed, ready, later]
    );
    for job in &died {
        assert_eq!(
            (job.last_error.as_deref(), job.died_at),
            (Some(EXPIRED), Some(NOW + 100))
        );
        assert_eq!(
            (&job.worker, job.claimed_at, job.claim_expires_at),
            (&None, None, None)
        );
    }
    // Its holder has lost it, and other queues are untouched.
    assert!(!claims[0].heartbeat(9).await.unwrap() && !claims[0].ack().await.unwrap());
    assert_eq!(job(&queue, keeps).await.state, JobState::Pending);
    assert_eq!(job(&other, elsewhere).await.state, JobState::Pending);
}

pub async fn cq_06_a_sweep_deletes_the_dead_past_their_retention(world: World) {
    let kept_for = |seconds| QueueOptions {
        dead_letter_retention_s: seconds,
        ..QueueOptions::default()
    };
    let (short, ever) = (
        world.queue_with("q", kept_for(Some(100))),
        world.queue_with("q", kept_for(None)),
    );
    let other = world.queue_with("other", kept_for(Some(100)));
    let mut died = Vec::new();
    for queue in [&short, &ever, &other] {
        died.push(queue.enqueue("x").await.unwrap());
        assert!(claim(queue, "w").await.fail(None).await.unwrap());
    }
    world.advance(99).await;
    assert_eq!(short.sweep_expired().await.unwrap(), 0);
    assert!(short.get_job(died[0]).await.unwrap().is_some());
    world.advance(1).await;
    assert_eq!(short.sweep_expired().await.unwrap(), 0);
    assert_eq!(short.get_job(died[0]).await.unwrap(), None);
    assert!(ever.get_job(died[1]).await.unwrap().is_some());
    assert!(other.get_job(died[2]).await.unwrap().is_some());
}

pub async fn cq_06_ack_batch_counts_the_claims_that_held(world: World) {
    let (queue, other) = (world.queue("q"), world.queue("other"));
    queue.enqueue_batch(batch(4)).await.unwrap();
    let elsewhere = other.enqueue("x").await.unwrap();
    let mut claims = queue.claim_batch("w", 4).await.unwrap();
    assert!(claims[1].ack().await.unwrap());
    assert!(claims[2].retry(None, Some(0)).await.unwrap());
    claims.push(claim(&other, "w").await);
    // Of another queue, ended, and twice: none of these counts.
    let twice = claims.iter().chain([&claims[0]]);
    assert_eq!(queue.ack_batch(twice).await.unwrap(), 2);
    assert_eq!(
        other.get_job(elsewhere).await.unwrap().expect("not acked").state,
        JobState::Processing
    );
    assert_eq!(queue.ack_batch(&claims).await.unwrap(), 0);
    assert_eq!(queue.ack_batch([]).await.unwrap(), 0);
    let left = queue.claim_batch("w", 9).await.unwrap();
    assert_eq!(ids(&left), [claims[2].job().id]);
}

pub async fn cq_06_cancel_deletes_a_live_job_whoever_holds_it(world: World) {
    let (queue, other) = (world.queue("q"), world.queue("other"));
    let held = queue.enqueue("held").await.unwrap();
    let holder = claim(&queue, "w").await;
    let waits = queue.enqueue("waits").await.unwrap();
    // Of its own queue only.
    assert!(!other.cancel(waits).await.unwrap() && !other.cancel(held).await.unwrap());
    assert_eq!(other.get_job(waits).await.unwrap(), None);
    assert!(queue.cancel(waits).await.unwrap() && !queue.cancel(waits).await.unwrap());
    assert!(queue.cancel(held).await.unwrap());
    assert!(!holder.heartbeat(9).await.unwrap() && !holder.ack().await.unwrap());
    assert!(!holder.retry(None, Some(0)).await.unwrap() && !holder.fail(None).await.unwrap());
    assert_eq!(queue.get_job(held).await.unwrap(), None);
    let dies = queue.enqueue("dies").await.unwrap();
    assert!(claim(&queue, "w").await.fail(None).await.unwrap());
    assert!(!queue.cancel(dies).await.unwrap());
    assert!(!queue.cancel(i64::MAX).await.unwrap() && !queue.cancel(-1).await.unwrap());
    assert_eq!(dead(&queue).await.len(), 1);
}

pub async fn ci_02_dead_jobs_are_listed_in_pages_by_id(world: World) {
    let (queue, other) = (world.queue("q"), world.queue("other"));
    let enqueued = queue.enqueue_batch(batch(5)).await.unwrap();
    other.enqueue("x").await.unwrap();
    assert!(claim(&other, "w").await.fail(None).await.unwrap());
    // They die in another order.
    for claimed in queue.claim_batch("w", 9).await.unwrap().iter().rev() {
        assert!(claimed.fail(None).await.unwrap());
    }
    let page = async |after, limit| -> Vec<i64> {
        let jobs = queue.dead_jobs(DeadPage { after, limit }).await.unwrap();
        jobs.iter().map(|job| job.id).collect()
    };
    assert_eq!(page(0, 2).await, enqueued[..2]);
    assert_eq!(page(enqueued[1], 2).await, enqueued[2..4]);
    assert_eq!(page(enqueued[3], 2).await, enqueued[4..]);
    assert!(page(enqueued[4], 2).await.is_empty() && page(i64::MAX, 2).await.is_empty());
    assert_eq!(page(i64::MIN, i64::MAX).await, enqueued);
    for limit in [0, -1, i64::MIN] {
        assert!(page(0, limit).await.is_empty());
    }
}

pub async fn ci_02_a_redriven_job_begins_anew(world: World) {
    let queue = world.queue_with("q", options(60, 2));
    let given = EnqueueOptions {
        priority: 3,
        ..expiring(500)
    };
    let id = queue.enqueue_with("x", given).await.unwrap();
    let before = job(&queue, id).await;
    assert!(!queue.redrive(id).await.unwrap());
    assert!(claim(&queue, "w").await.fail(Some("boom")).await.unwrap());
    world.advance(1000).await;
    assert!(!world.queue("other").redrive(id).await.unwrap());
    assert!(queue.redrive(id).await.unwrap() && !queue.redrive(id).await.unwrap());
    let again = job(&queue, id).await;
    assert_eq!(
        (again.state, again.run_at, again.attempts),
        (JobState::Pending, NOW + 1000, 0)
    );
    assert_eq!((again.expires_at, again.died_at), (None, None));
    assert_eq!(
        (again.last_error.as_deref(), again.priority, again.stamps),
        (Some("boom"), 3, before.stamps)
    );
    assert_eq!(
        (again.created_at, again.payload),
        (before.created_at, before.payload)
    );
    assert!(dead(&queue).await.is_empty());
    // With all its attempts.
    for attempt in 1..=2 {
        let claimed = claim(&queue, "w").await;
        assert_eq!((claimed.job().id, claimed.job().attempts), (id, attempt));
        assert!(claimed.retry(Some("again"), Some(0)).await.unwrap());
    }
    assert_eq!(job(&queue, id).await.state, JobState::Dead);
}

pub async fn ci_02_all_of_a_queue_are_redriven_or_purged(world: World) {
    let (queue, other) = (world.queue("q"), world.queue("other"));
    let kept = other.enqueue("x").await.unwrap();
    assert!(claim(&other, "w").await.fail(None).await.unwrap());
    let enqueued = queue.enqueue_batch(batch(5)).await.unwrap();
    for claimed in &queue.claim_batch("w", 3).await.unwrap() {
        assert!(claimed.fail(None).await.unwrap());
    }
    assert_eq!(queue.redrive_all().await.unwrap(), 3);
    assert_eq!(queue.redrive_all().await.unwrap(), 0);
    assert_eq!(queue.purge_dead().await.unwrap(), 0);
    let again = queue.claim_batch("w", 9).await.unwrap();
    assert_eq!(ids(&again), enqueued);
    for claimed in &again[..2] {
        assert!(claimed.fail(None).await.unwrap());
    }
    assert_eq!(queue.purge_dead().await.unwrap(), 2);
    assert_eq!(
        (
            queue.purge_dead().await.unwrap(),
            queue.redrive_all().await.unwrap()
        ),
        (0, 0)
    );
    assert_eq!(queue.get_job(enqueued[0]).await.unwrap(), None);
    assert_eq!(job(&queue, enqueued[4]).await.state, JobState::Processing);
    assert_eq!(job(&other, kept).await.state, JobState::Dead);
}
