//! CX-04: one clock, wherever it goes.

use esker_coord_api::{Clock, EXPIRED, EnqueueOptions, Firing, LockAttempt};

use crate::{
    World,
    world::{NOW, batch, claim, delayed, event, events, expiring, job, local, name},
};

pub async fn cx_04_one_clock_rules_everything(world: World) {
    world.set(NOW + 12_345).await;
    let now = world.now();
    let id = world.queue("q").enqueue("x").await.unwrap();
    world.stream("s").publish("x").await.unwrap();
    world
        .store()
        .try_lock("l", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    let plain = EnqueueOptions::default();
    world
        .store()
        .schedule("d", "@every 1m", "q", "x", plain)
        .await
        .unwrap();
    let stored = job(&world.queue("q"), id).await;
    assert_eq!((stored.created_at, stored.run_at), (now, now));
    assert_eq!(events(&world.stream("s")).await[0].created_at, now);
    // The other handle reads the same clock.
    let seen = world.second().await.inspect().await.unwrap();
    assert_eq!(
        (seen.locks[0].expires_in_s, seen.schedules[0].next),
        (60, now + 60)
    );
    let claimed = claim(&world.queue("q"), "w").await;
    assert_eq!(claimed.job().claimed_at, Some(now));
    world.advance(7).await;
    assert!(claimed.fail(None).await.unwrap());
    assert_eq!(job(&world.queue("q"), id).await.died_at, Some(now + 7));
}

pub async fn cx_04_a_clock_that_is_set_back_spoils_nothing(world: World) {
    let queue = world.queue("q");
    world.stream("s").publish("1").await.unwrap();
    let held = queue.enqueue("held").await.unwrap();
    let holder = claim(&queue, "w").await;
    world
        .store()
        .try_lock("l", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    let waits = queue.enqueue("waits").await.unwrap();
    world.set(NOW - 10_000).await;
    assert_eq!(world.stream("s").publish("2").await.unwrap(), 2);
    assert!(queue.claim_one("x").await.unwrap().is_none());
    assert!(world.store().try_lock("l", "other", 60).await.unwrap().is_none());
    let at_once = queue.enqueue("at once").await.unwrap();
    assert!(at_once > waits && waits > held);
    let claimed = claim(&queue, "x").await;
    assert_eq!(claimed.job().id, at_once);
    assert!(claimed.ack().await.unwrap());
    assert!(holder.ack().await.unwrap());
    world.set(NOW).await;
    assert_eq!(claim(&queue, "x").await.job().id, waits);
}

/// A clock that ticks at each reading tells how often it was read.
struct Readings {
    clock: Clock,
    last: i64,
}

impl Readings {
    /// Since the last time, by one operation. One that looks before it asks for the write lock may read for that too.
    fn at_most(&mut self, most: i64, operation: &str) {
        let now = self.clock.now();
        let readings = now - self.last - 1;
        assert!(readings <= most, "{operation} reads the clock {readings} times");
        self.last = now;
    }
}

pub async fn cx_04_one_operation_goes_by_one_reading_of_the_clock(world: World) {
    let (store, jobs, stream) = (world.store(), world.queue("q"), world.stream("s"));
    let clock = world.clock();
    clock.tick();
    let last = clock.now();
    let mut readings = Readings { clock, last };

    let id = jobs.enqueue_with("later", delayed(0)).await.unwrap();
    readings.at_most(1, "enqueue");
    jobs.enqueue_batch(batch(7)).await.unwrap();
    readings.at_most(1, "enqueue_batch");
    let first = job(&jobs, id).await;
    readings.at_most(1, "get_job");
    assert_eq!(first.run_at, first.created_at);
    let claims = jobs.claim_batch("w", 6).await.unwrap();
    readings.at_most(2, "claim_batch");
    for held in &claims {
        let (job, claimed_at) = (held.job(), claims[0].job().claimed_at.unwrap());
        assert_eq!(job.claimed_at, Some(claimed_at));
        assert_eq!(job.claim_expires_at, Some(claimed_at + 300));
    }
    assert!(claims[0].heartbeat(60).await.unwrap());
    readings.at_most(1, "heartbeat");
    assert!(claims[0].retry(None, None).await.unwrap());
    readings.at_most(1, "retry");
    assert!(claims[1].release().await.unwrap());
    readings.at_most(1, "release");
    assert!(claims[2].fail(None).await.unwrap());
    readings.at_most(1, "fail");
    assert!(claims[3].ack().await.unwrap());
    readings.at_most(1, "ack");
    assert_eq!(jobs.ack_batch(&claims[4..]).await.unwrap(), 2);
    readings.at_most(1, "ack_batch");
    jobs.next_ready_at().await.unwrap();
    readings.at_most(1, "next_ready_at");
    jobs.sweep_expired().await.unwrap();
    readings.at_most(1, "sweep_expired");
    assert_eq!(jobs.redrive_all().await.unwrap(), 1);
    readings.at_most(1, "redrive_all");

    let events = (0..5).map(|n| event(n.to_string())).collect();
    stream.publish_batch(events).await.unwrap();
    readings.at_most(1, "publish_batch");
    let read = stream.read_since(0, 5).await.unwrap();
    readings.at_most(1, "read_since");
    assert!(read.iter().all(|event| event.created_at == read[0].created_at));
    stream.save_offset("c", 1).await.unwrap();
    readings.at_most(1, "save_offset");

    let lock = store.try_lock("l", "me", 60).await.unwrap().expect("a free lock");
    readings.at_most(2, "try_lock");
    assert!(lock.renew(1000).await.unwrap());
    readings.at_most(1, "renew");
    // Who loses is told when the lock lapses: by the reading that it lost by.
    let attempt = world
        .inner()
        .try_lock(name("l"), local("other"), 60)
        .await
        .unwrap();
    readings.at_most(1, "a lost try_lock");
    assert!(matches!(attempt, LockAttempt::Lost(_)), "{attempt:?}");
    let plain = EnqueueOptions::default();
    store
        .schedule("d", "@every 1s", "fired", "x", plain)
        .await
        .unwrap();
    readings.at_most(1, "schedule");
    world
        .inner()
        .fire_schedules(name("l"), lock.fence())
        .await
        .unwrap();
    readings.at_most(1, "fire_schedules");
    store.inspect().await.unwrap();
    readings.at_most(1, "inspect");
    assert!(lock.release().await.unwrap());
    readings.at_most(1, "release");

    let mut transaction = store.begin().await.unwrap();
    readings.at_most(1, "begin");
    transaction.enqueue("q", "x").await.unwrap();
    readings.at_most(1, "enqueue in a transaction");
    transaction.publish("s", "x").await.unwrap();
    readings.at_most(1, "publish in a transaction");
    transaction.commit().await.unwrap();
    readings.at_most(1, "commit");
}

pub async fn cx_04_a_clock_that_jumps_forward_lapses_all_at_once_and_spoils_nothing(world: World) {
    const YEARS: i64 = 10 * 365 * 86400;
    let (store, queue) = (world.store(), world.queue("q"));
    let plain = EnqueueOptions::default();
    store
        .schedule("d", "@every 1h", "fired", "x", plain)
        .await
        .unwrap();
    let held = queue.enqueue("held").await.unwrap();
    let late = claim(&queue, "w").await;
    queue.enqueue_with("later", delayed(YEARS)).await.unwrap();
    let gone = queue.enqueue_with("gone", expiring(60)).await.unwrap();
    let lock = store.try_lock("l", "me", 60).await.unwrap().expect("a free lock");
    let lead = store.try_lock("lead", "me", i64::MAX).await.unwrap();
    let fence = lead.expect("a free lock").fence();
    assert_eq!(world.stream("s").publish("before").await.unwrap(), 1);

    world.advance(YEARS).await;
    assert!(!late.ack().await.unwrap() && !lock.renew(60).await.unwrap());
    let claims = queue.claim_batch("x", 9).await.unwrap();
    let payloads: Vec<_> = claims.iter().map(|held| held.job().payload.as_bytes()).collect();
    assert_eq!(payloads, [&b"held"[..], b"later"]);
    assert_eq!(claims[0].job().id, held);
    assert_eq!(job(&queue, gone).await.last_error.as_deref(), Some(EXPIRED));
    // The boundaries of ten years are 64 jobs, and the next is less than an interval away.
    let fired = world.inner().fire_schedules(name("lead"), fence).await.unwrap();
    let Firing::Fired { jobs, next } = fired else {
        panic!("{fired:?}");
    };
    let next = next.expect("a schedule").at;
    assert!(jobs == 64 && next > NOW + YEARS && next <= NOW + YEARS + 3600);

    // It was a mistake, and is set right: what was decided stays, and all goes on.
    world.set(NOW + 1).await;
    assert!(claims[0].ack().await.unwrap() && claims[1].ack().await.unwrap());
    assert!(queue.claim_one("x").await.unwrap().is_none());
    assert_eq!(world.stream("s").publish("after").await.unwrap(), 2);
    let again = store.try_lock("l", "other", 60).await.unwrap();
    assert!(again.is_none_or(|again| again.fence() > lock.fence()));
}

pub async fn cq_02_a_lapsed_claim_is_given_again_though_the_clock_was_set_back(world: World) {
    const YEARS: i64 = 10 * 365 * 86400;
    let queue = world.queue("q");
    let id = queue.enqueue("job").await.unwrap();
    let held = claim(&queue, "w").await;
    world.set(NOW - YEARS).await;
    assert!(held.heartbeat(60).await.unwrap());
    assert_eq!(queue.next_ready_at().await.unwrap(), Some(NOW - YEARS + 61));
    assert!(queue.claim_one("x").await.unwrap().is_none());
    world.advance(61).await;
    assert!(
        queue
            .next_ready_at()
            .await
            .unwrap()
            .is_some_and(|at| at <= world.now())
    );
    let again = claim(&queue, "x").await;
    assert_eq!((again.job().id, again.job().attempts), (id, 2));
    // Put back, it is ready when it has ever been.
    assert!(again.release().await.unwrap());
    assert_eq!(claim(&queue, "y").await.job().id, id);
}
