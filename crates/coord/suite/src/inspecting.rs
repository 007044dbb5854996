//! CI-01 and CO-01: what the store holds, and deliveries.

use esker_coord_api::{
    ConsumerInspection, EXPIRED, EnqueueOptions, Error, JobState, LockInspection, QueueInspection,
    QueueOptions, ScheduleInspection, StreamInspection,
};

use crate::{
    World,
    world::{NOW, batch, claim, delayed, event, expiring, job},
};

pub async fn ci_01_an_empty_store_holds_nothing(world: World) {
    let seen = world.store().inspect().await.unwrap();
    assert_eq!(
        (seen.queues, seen.streams, seen.locks, seen.schedules),
        Default::default()
    );
}

pub async fn ci_01_queues_are_counted_by_state(world: World) {
    let (b, a) = (world.queue("b"), world.queue("B"));
    b.enqueue_batch(batch(5)).await.unwrap();
    let claims = b.claim_batch("w", 3).await.unwrap();
    assert!(claims[0].fail(None).await.unwrap());
    world.advance(7).await;
    b.enqueue("younger").await.unwrap();
    b.enqueue_with("later", delayed(100)).await.unwrap();
    a.enqueue_with("later", delayed(1)).await.unwrap();
    world
        .store()
        .outbox("o")
        .unwrap()
        .enqueue("delivery")
        .await
        .unwrap();
    let seen = world.store().inspect().await.unwrap();
    let queue = |name: &str, [ready, scheduled, running, dead]: [u64; 4], oldest_ready_s| QueueInspection {
        name: name.to_owned(),
        ready,
        scheduled,
        running,
        dead,
        oldest_ready_s,
    };
    let expected = [
        queue("B", [0, 1, 0, 0], None),
        queue("__alkstore_outbox:o", [1, 0, 0, 0], Some(0)),
        queue("b", [3, 1, 2, 1], Some(7)),
    ];
    assert_eq!(seen.queues, expected);
    // Lapsed claims are still running, until a claim or a sweep settles them.
    world.advance(301).await;
    let seen = world.store().inspect().await.unwrap();
    assert_eq!(seen.queues[2], queue("b", [4, 0, 2, 1], Some(308)));
}

pub async fn ci_01_queues_are_counted_right_after_the_clock_was_set_back(world: World) {
    let queue = world.queue("q");
    queue.enqueue_batch(batch(3)).await.unwrap();
    assert_eq!(queue.claim_batch("first", 3).await.unwrap().len(), 3);
    world.advance(1000).await;
    queue.enqueue("waits").await.unwrap();
    // It meets three claims that have lapsed, and takes one of their jobs.
    claim(&queue, "second").await;
    let counted = async |ready, scheduled, running, oldest_ready_s| {
        let expected = QueueInspection {
            name: "q".to_owned(),
            ready,
            scheduled,
            running,
            dead: 0,
            oldest_ready_s,
        };
        assert_eq!(world.store().inspect().await.unwrap().queues, [expected]);
    };
    counted(1, 0, 3, Some(0)).await;
    // Every job is of a time to come now, those of the lapsed claims too.
    world.set(NOW - 10).await;
    counted(0, 1, 3, None).await;
    queue.enqueue("now").await.unwrap();
    counted(1, 1, 3, Some(0)).await;
    world.set(NOW + 5).await;
    counted(1, 1, 3, Some(15)).await;
    world.set(NOW + 1001).await;
    counted(2, 0, 3, Some(1011)).await;
}

pub async fn ci_01_streams_have_ends_and_consumers_lag(world: World) {
    let (s, t) = (world.stream("s"), world.stream("t"));
    s.publish_batch(vec![event("1"), event("2"), event("3"), event("4")])
        .await
        .unwrap();
    s.trim_to(2).await.unwrap();
    s.save_offset("slow", 1).await.unwrap();
    s.save_offset("ahead", 9).await.unwrap();
    t.publish("1").await.unwrap();
    t.trim_to(1).await.unwrap();
    let seen = world.store().inspect().await.unwrap();
    let consumer = |name: &str, offset, lag| ConsumerInspection {
        name: name.to_owned(),
        offset,
        lag,
    };
    let expected = [
        StreamInspection {
            name: "s".to_owned(),
            first: Some(3),
            last: 4,
            consumers: vec![consumer("ahead", 9, 0), consumer("slow", 1, 3)],
        },
        StreamInspection {
            name: "t".to_owned(),
            first: None,
            last: 1,
            consumers: Vec::new(),
        },
    ];
    assert_eq!(seen.streams, expected);
}

pub async fn ci_01_locks_are_those_that_are_held(world: World) {
    let store = world.store();
    for name in ["held", "lapses", "released"] {
        let ttl = if name == "lapses" { 10 } else { 60 };
        let lock = store
            .try_lock(name, "me", ttl)
            .await
            .unwrap()
            .expect("a free lock");
        if name == "released" {
            assert!(lock.release().await.unwrap());
        }
    }
    world.advance(10).await;
    let held = LockInspection {
        name: "held".to_owned(),
        owner: "me".to_owned(),
        fence: 1,
        expires_in_s: 50,
    };
    assert_eq!(store.inspect().await.unwrap().locks, [held]);
}

pub async fn ci_01_schedules_show_their_next_boundary(world: World) {
    let plain = EnqueueOptions::default();
    world
        .store()
        .schedule("d", "@every 90s", "q", "x", plain)
        .await
        .unwrap();
    world
        .store()
        .schedule("D", "@every 120s", "r", "x", plain)
        .await
        .unwrap();
    let schedule = |name: &str, spec: &str, queue: &str, next| ScheduleInspection {
        name: name.to_owned(),
        spec: spec.to_owned(),
        queue: queue.to_owned(),
        next,
    };
    let expected = [
        schedule("D", "@every 2m", "r", NOW + 120),
        schedule("d", "@every 90s", "q", NOW + 90),
    ];
    assert_eq!(world.store().inspect().await.unwrap().schedules, expected);
}

pub async fn co_01_an_outbox_is_a_queue_out_of_reach(world: World) {
    let outbox = world.store().outbox("o").unwrap();
    assert_eq!(
        (outbox.name(), outbox.queue().name()),
        ("o", "__alkstore_outbox:o")
    );
    let reached = world
        .store()
        .queue("__alkstore_outbox:o", QueueOptions::default());
    assert!(matches!(reached, Err(Error::ReservedName { .. })));
    let id = outbox.enqueue("delivery").await.unwrap();
    let later = outbox.enqueue_with("later", delayed(10)).await.unwrap();
    assert_eq!(job(outbox.queue(), id).await.stamps, QueueOptions::OUTBOX);
    assert_eq!(job(outbox.queue(), later).await.run_at, NOW + 10);
    // A queue of the same name, and another outbox, are others.
    assert_eq!(world.queue("o").get_job(id).await.unwrap(), None);
    assert!(world.queue("o").claim_one("w").await.unwrap().is_none());
    let other = world.store().outbox("o2").unwrap();
    assert!(!other.run_once("w", async |_| Ok(())).await.unwrap());
}

pub async fn co_01_a_delivery_is_acknowledged_or_tried_again(world: World) {
    let outbox = world.store().outbox("o").unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    let first = transaction.outbox_enqueue("o", "first").await.unwrap();
    transaction.commit().await.unwrap();
    let second = outbox.enqueue("second").await.unwrap();
    let mut delivered = Vec::new();
    let ran = outbox
        .run_once("w", async |job| {
            delivered.push((job.id, job.attempts, job.state));
            Ok(())
        })
        .await;
    assert!(ran.unwrap());
    assert_eq!(delivered, [(first, 1, JobState::Processing)]);
    assert_eq!(outbox.queue().get_job(first).await.unwrap(), None);
    // Its errors put it back on the curve, until its attempts are spent.
    for (attempt, range) in (1..).zip([3..=5, 5..=10, 10..=20, 20..=40]) {
        let text = format!("no answer, {attempt}");
        assert!(
            outbox
                .run_once("w", async |_| Err(text.as_str().into()))
                .await
                .unwrap()
        );
        let back = job(outbox.queue(), second).await;
        assert_eq!((back.state, back.attempts), (JobState::Pending, attempt));
        assert_eq!(back.last_error.as_ref(), Some(&text));
        let delay = back.run_at - world.now();
        assert!(range.contains(&delay), "{delay} in {range:?}");
        assert!(!outbox.run_once("w", async |_| Ok(())).await.unwrap());
        world.advance(delay).await;
    }
    assert!(outbox.run_once("w", async |_| Err("gone".into())).await.unwrap());
    let died = job(outbox.queue(), second).await;
    assert_eq!(
        (died.state, died.attempts, died.last_error.as_deref()),
        (JobState::Dead, 5, Some("gone"))
    );
}

pub async fn co_01_a_delivery_that_takes_too_long_is_anothers(world: World) {
    let outbox = world.store().outbox("o").unwrap();
    let id = outbox.enqueue("x").await.unwrap();
    let ran = outbox
        .run_once("w", async |_| {
            world.advance(61).await;
            assert_eq!(claim(outbox.queue(), "w").await.job().attempts, 2);
            Ok(())
        })
        .await;
    assert!(ran.unwrap());
    // The late acknowledgement did nothing.
    assert_eq!(job(outbox.queue(), id).await.state, JobState::Processing);
}

pub async fn co_01_a_delivery_can_expire(world: World) {
    let outbox = world.store().outbox("o").unwrap();
    let id = outbox.enqueue_with("x", expiring(10)).await.unwrap();
    world.advance(10).await;
    assert!(!outbox.run_once("w", async |_| Ok(())).await.unwrap());
    assert_eq!(job(outbox.queue(), id).await.last_error.as_deref(), Some(EXPIRED));
}
