//! CQ-01, CQ-02: what jobs are stamped with, and which are claimed, in which order.

use std::{collections::BTreeSet, sync::Arc};

use esker_coord_api::{EnqueueOptions, Error, JobState, Payload, QueueOptions};
use tokio::sync::Barrier;

use crate::{
    World,
    world::{NOW, batch, claim, delayed, expiring, ids, important, job, options, queue},
};

pub async fn cq_01_a_job_begins_pending_with_the_stamps_of_its_queue(world: World) {
    let stamps = QueueOptions {
        visibility_timeout_s: 7,
        max_attempts: 9,
        backoff_base_s: 11,
        dead_letter_retention_s: Some(13),
    };
    let queue = world.queue_with("q", stamps);
    let id = queue.enqueue("work").await.unwrap();
    assert!(id > 0);
    let stored = job(&queue, id).await;
    assert_eq!((stored.id, stored.queue.as_str()), (id, "q"));
    assert_eq!(
        (stored.state, stored.payload),
        (JobState::Pending, Payload::from("work"))
    );
    assert_eq!((stored.priority, stored.run_at, stored.attempts), (0, NOW, 0));
    assert_eq!(stored.stamps, stamps);
    assert_eq!(
        (stored.worker, stored.claimed_at, stored.claim_expires_at),
        (None, None, None)
    );
    assert_eq!(
        (stored.created_at, stored.expires_at, stored.boundary),
        (NOW, None, None)
    );
    assert_eq!((stored.last_error, stored.died_at), (None, None));
}

pub async fn cq_01_changed_options_touch_later_jobs_only(world: World) {
    let before = world.queue_with("q", options(10, 1));
    let first = before.enqueue("first").await.unwrap();
    let after = world.queue_with("q", options(20, 2));
    let second = after.enqueue("second").await.unwrap();
    assert_eq!(job(&after, first).await.stamps, options(10, 1));
    assert_eq!(job(&before, second).await.stamps, options(20, 2));
    // Whichever handle claims, the job's own stamps rule.
    let claimed = after.claim_batch("w", 2).await.unwrap();
    let deadlines: Vec<_> = claimed
        .iter()
        .map(|handle| handle.job().claim_expires_at)
        .collect();
    assert_eq!(deadlines, [Some(NOW + 10), Some(NOW + 20)]);
    claimed[0].retry(Some("no"), Some(0)).await.unwrap();
    claimed[1].retry(Some("no"), Some(0)).await.unwrap();
    assert_eq!(job(&after, first).await.state, JobState::Dead);
    assert_eq!(job(&after, second).await.state, JobState::Pending);
}

pub async fn cq_01_a_jobs_own_options_are_stored(world: World) {
    let queue = world.queue("q");
    let all = EnqueueOptions {
        delay: Some(10),
        run_at: Some(NOW + 99),
        priority: -3,
        max_attempts: Some(1),
        expires: Some(5),
    };
    let stored = job(&queue, queue.enqueue_with("a", all).await.unwrap()).await;
    // The delay beats the time, and expiry counts from readiness.
    assert_eq!((stored.run_at, stored.expires_at), (NOW + 10, Some(NOW + 15)));
    assert_eq!((stored.priority, stored.stamps.max_attempts), (-3, 1));
    let at = EnqueueOptions {
        run_at: Some(NOW - 50),
        expires: Some(60),
        ..EnqueueOptions::default()
    };
    let stored = job(&queue, queue.enqueue_with("b", at).await.unwrap()).await;
    assert_eq!((stored.run_at, stored.expires_at), (NOW - 50, Some(NOW + 10)));
}

pub async fn cq_01_a_delay_longer_than_the_expiry_works(world: World) {
    let queue = world.queue("q");
    let options = EnqueueOptions {
        expires: Some(5),
        ..delayed(10)
    };
    let id = queue.enqueue_with("later", options).await.unwrap();
    world.advance(9).await;
    assert!(queue.claim_one("w").await.unwrap().is_none());
    world.advance(5).await;
    assert_eq!(claim(&queue, "w").await.job().id, id);
}

pub async fn cx_05_times_of_jobs_saturate(world: World) {
    let queue = world.queue("q");
    let far = EnqueueOptions {
        expires: Some(i64::MAX),
        ..delayed(i64::MAX)
    };
    let stored = job(&queue, queue.enqueue_with("far", far).await.unwrap()).await;
    assert_eq!((stored.run_at, stored.expires_at), (i64::MAX, Some(i64::MAX)));
    let past = EnqueueOptions {
        run_at: Some(i64::MIN),
        priority: i64::MAX,
        ..EnqueueOptions::default()
    };
    let past = queue.enqueue_with("past", past).await.unwrap();
    let never = EnqueueOptions {
        expires: Some(i64::MIN),
        ..EnqueueOptions::default()
    };
    let never = queue.enqueue_with("never", never).await.unwrap();
    assert_eq!(job(&queue, past).await.run_at, i64::MIN);
    let claimed = queue.claim_batch("w", i64::MAX).await.unwrap();
    assert_eq!(ids(&claimed), [past]);
    assert_eq!(job(&queue, never).await.state, JobState::Dead);
    assert!(claimed[0].heartbeat(i64::MAX).await.unwrap());
    assert_eq!(job(&queue, past).await.claim_expires_at, Some(i64::MAX));
    assert!(claimed[0].retry(None, Some(i64::MIN)).await.unwrap());
    assert_eq!(job(&queue, past).await.run_at, NOW.saturating_add(i64::MIN));
    let again = claim(&queue, "w").await;
    assert!(again.retry(None, Some(i64::MAX)).await.unwrap());
    assert_eq!(job(&queue, past).await.run_at, i64::MAX);
    assert_eq!(queue.next_ready_at().await.unwrap(), Some(i64::MAX));
}

pub async fn cx_05_a_claim_of_nothing_is_empty(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("work").await.unwrap();
    for n in [0, -1, i64::MIN] {
        assert!(queue.claim_batch("w", n).await.unwrap().is_empty());
    }
    assert_eq!(job(&queue, id).await.attempts, 0);
    assert!(queue.enqueue_batch(Vec::new()).await.unwrap().is_empty());
}

pub async fn cx_05_options_that_cannot_work_are_refused_and_nothing_is_done(world: World) {
    let refused = |result: Result<_, Error>, field: &str| match result {
        Err(Error::InvalidOption { option, .. }) => assert_eq!(option, field),
        Err(other) => panic!("{other:?}"),
        Ok(()) => panic!("{field} was taken"),
    };
    for value in [0, -1] {
        let store = world.store();
        refused(
            store.queue("q", options(value, 3)).map(drop),
            "visibility_timeout_s",
        );
        refused(store.queue("q", options(300, value)).map(drop), "max_attempts");
        let queue = world.queue("q");
        let none = EnqueueOptions {
            max_attempts: Some(value),
            ..EnqueueOptions::default()
        };
        // One bad job of a batch, and none is stored.
        let batch = vec![("good".into(), EnqueueOptions::default()), ("bad".into(), none)];
        refused(queue.enqueue_batch(batch).await.map(drop), "max_attempts");
        let mut transaction = store.begin().await.unwrap();
        let enqueued = transaction.enqueue_with("q", "bad", none).await;
        refused(enqueued.map(drop), "max_attempts");
        transaction.commit().await.unwrap();
        assert!(queue.claim_one("w").await.unwrap().is_none());
    }
}

pub async fn cq_02_a_job_is_claimed_from_its_second_on(world: World) {
    let queue = world.queue("q");
    let now = queue.enqueue("now").await.unwrap();
    let later = queue.enqueue_with("later", delayed(10)).await.unwrap();
    assert_eq!(ids(&queue.claim_batch("w", 9).await.unwrap()), [now]);
    world.advance(9).await;
    assert!(queue.claim_one("w").await.unwrap().is_none());
    world.advance(1).await;
    assert_eq!(claim(&queue, "w").await.job().id, later);
}

pub async fn cq_02_a_claim_shows_the_job_as_it_is_now(world: World) {
    let queue = world.queue("q");
    let id = queue.enqueue("work").await.unwrap();
    world.advance(5).await;
    let claimed = claim(&queue, "worker-1").await;
    let shown = claimed.job();
    assert_eq!(
        (shown.id, shown.state, shown.attempts),
        (id, JobState::Processing, 1)
    );
    assert_eq!(shown.worker.as_ref().map(AsRef::as_ref), Some("worker-1"));
    assert_eq!(
        (
            shown.claimed_at,
            shown.claim_expires_at,
            shown.run_at,
            shown.created_at
        ),
        (Some(NOW + 5), Some(NOW + 305), NOW, NOW)
    );
    assert_eq!(*shown, job(&queue, id).await);
}

pub async fn cq_02_the_order_of_choice_and_batch_is_the_contracts(world: World) {
    let queue = world.queue("q");
    let mut expected = Vec::new();
    for (priority, run_at) in [
        (0, -5),
        (10, -1),
        (-7, -100),
        (10, -1),
        (0, -9),
        (10, -30),
        (5, 0),
    ] {
        let options = EnqueueOptions {
            run_at: Some(NOW + run_at),
            ..important(priority)
        };
        let id = queue.enqueue_with("job", options).await.unwrap();
        expected.push((-priority, run_at, id));
    }
    expected.sort_unstable();
    let expected: Vec<i64> = expected.into_iter().map(|(_, _, id)| id).collect();
    // Smaller batches choose what comes first, and each is in order.
    for (n, range) in [(3, 0..3), (1, 3..4), (9, 4..7)] {
        let claimed = queue.claim_batch("w", n).await.unwrap();
        assert_eq!(ids(&claimed), expected[range]);
    }
}

pub async fn cq_02_lapsed_claims_take_their_place_in_the_order(world: World) {
    let queue = world.queue("q");
    let lapses = queue.enqueue("lapses").await.unwrap();
    let _lost = claim(&queue, "w").await;
    world.advance(301).await;
    let fresh = queue.enqueue("fresh").await.unwrap();
    let urgent = queue.enqueue_with("urgent", important(1)).await.unwrap();
    let claimed = queue.claim_batch("w", 9).await.unwrap();
    assert_eq!(ids(&claimed), [urgent, lapses, fresh]);
}

pub async fn cq_02_a_claim_lapses_after_its_last_second_and_each_counts(world: World) {
    let queue = world.queue_with("q", options(60, 3));
    let id = queue.enqueue("work").await.unwrap();
    for attempt in 1..=3 {
        let claimed = claim(&queue, "w").await;
        assert_eq!((claimed.job().id, claimed.job().attempts), (id, attempt));
        world.advance(60).await;
        assert!(queue.claim_one("x").await.unwrap().is_none());
        world.advance(1).await;
    }
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(job(&queue, id).await.state, JobState::Dead);
}

pub async fn cq_02_an_expired_job_is_not_claimed(world: World) {
    let queue = world.queue("q");
    queue.enqueue_with("a", expiring(10)).await.unwrap();
    queue.enqueue_with("b", expiring(10)).await.unwrap();
    world.advance(9).await;
    assert!(claim(&queue, "w").await.release().await.unwrap());
    world.advance(1).await;
    assert!(queue.claim_batch("w", 9).await.unwrap().is_empty());
}

pub async fn cq_02_queues_share_nothing(world: World) {
    // Names that only differ in case or in what a pattern could match.
    let names = ["q", "Q", "q%", "q_", "q'", "é", "e\u{301}", "q ", " q"];
    let mut enqueued = Vec::new();
    for name in names {
        enqueued.push(world.queue(name).enqueue(name).await.unwrap());
    }
    for (name, id) in names.into_iter().zip(enqueued) {
        let queue = world.queue(name);
        assert_eq!(ids(&queue.claim_batch("w", 9).await.unwrap()), [id], "{name:?}");
    }
}

pub async fn cq_02_each_job_goes_to_exactly_one_claimer(world: World) {
    const JOBS: usize = 300;
    let stores = [world.store().clone(), world.second().await];
    let mut expected: BTreeSet<i64> = world
        .queue("q")
        .enqueue_batch(batch(JOBS))
        .await
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(expected.len(), JOBS);
    let barrier = Arc::new(Barrier::new(8));
    let mut workers = Vec::new();
    for (worker, store) in (1..=8).zip(stores.iter().cycle()) {
        let (queue, barrier) = (queue(store, "q"), barrier.clone());
        workers.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut mine = Vec::new();
            loop {
                // All under one worker name: the token alone tells claims apart.
                let claimed = queue.claim_batch("same", worker).await.unwrap();
                if claimed.is_empty() {
                    return mine;
                }
                for handle in &claimed {
                    assert!(handle.ack().await.unwrap());
                }
                mine.extend(ids(&claimed));
            }
        }));
    }
    let mut total = 0;
    for worker in workers {
        let mine = worker.await.unwrap();
        total += mine.len();
        for id in mine {
            assert!(expected.remove(&id), "{id} was claimed twice");
        }
    }
    assert_eq!((total, expected.len()), (JOBS, 0));
}

pub async fn cq_02_jobs_that_come_while_others_claim_are_claimed_once(world: World) {
    const EACH: usize = 40;
    let stores = [world.store().clone(), world.second().await];
    let mut producers = Vec::new();
    for store in &stores {
        let queue = queue(store, "q");
        producers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..EACH {
                ids.push(queue.enqueue("job").await.unwrap());
            }
            ids
        }));
    }
    let mut workers = Vec::new();
    let done = Arc::new(tokio::sync::Semaphore::new(0));
    for store in stores.iter().cycle().take(4) {
        let (queue, done) = (queue(store, "q"), done.clone());
        workers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            while done.available_permits() < 2 * EACH {
                for handle in queue.claim_batch("w", 3).await.unwrap() {
                    assert!(handle.ack().await.unwrap());
                    mine.push(handle.job().id);
                    done.add_permits(1);
                }
                tokio::task::yield_now().await;
            }
            mine
        }));
    }
    let (mut enqueued, mut claimed) = (Vec::new(), Vec::new());
    for producer in producers {
        enqueued.extend(producer.await.unwrap());
    }
    for worker in workers {
        claimed.extend(worker.await.unwrap());
    }
    enqueued.sort_unstable();
    claimed.sort_unstable();
    assert_eq!(enqueued, claimed);
}
