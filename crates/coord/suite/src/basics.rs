//! CX-01, CX-03, CX-05, CX-07, CX-08, CX-10: what is true of all operations.

use std::future::{Future, ready};

use esker_coord_api::{
    DeadPage, EnqueueOptions, Error, EventReceiver, JobHandle, JobState, LocalName, Lock, Outbox, Outcome,
    Payload, Queue, Store, Stream, Transaction, WakeReceiver,
};

use crate::{
    World,
    world::{claim, dead, event, events, job, queue, stream},
};

pub async fn cx_01_handles_are_shared_and_sent_and_name_no_engine(world: World) {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync + Clone>() {}
    sent::<(Transaction, Lock, JobHandle, WakeReceiver, EventReceiver)>();
    shared::<Store>();
    shared::<(Stream, Queue, Outbox)>();
    assert!(["memory", "sqlite", "postgres"].contains(&world.store().kind()));
    assert_eq!(world.inner().kind(), world.store().kind());
    // Every future can be moved between threads.
    let store = world.store().clone();
    let done = tokio::spawn(async move {
        let mut transaction = store.begin().await?;
        transaction.enqueue("q", "x").await?;
        transaction.publish("s", "x").await?;
        transaction.commit().await?;
        let claimed = queue(&store, "q").claim_one("w").await?.expect("a job");
        let lock = store.try_lock("l", "me", 9).await?.expect("a free lock");
        let mut receiver = stream(&store, "s").subscribe("c").await?;
        let offset = receiver.recv().await.expect("an event")?.offset;
        Ok::<_, Error>((offset, lock.release().await?, claimed.ack().await?))
    });
    assert_eq!(done.await.unwrap().unwrap(), (1, true, true));
}

/// Bytes that an encoding on the way could spoil.
fn payloads() -> Vec<Payload> {
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..1_000_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    vec![
        Payload::default(),
        Payload::from(all),
        Payload::from(large),
        Payload::from(vec![0]),
        Payload::from("\u{0}text\u{0}"),
        Payload::from(" { \"b\" : 1.0, \"a\":1e2,\"a\":2 } "),
        Payload::from("\\x00 'quoted' \u{1f600}"),
    ]
}

pub async fn cx_03_payloads_are_kept_byte_for_byte(mut world: World) {
    let mut jobs = Vec::new();
    for payload in payloads() {
        jobs.push(world.queue("q").enqueue(payload.clone()).await.unwrap());
        world.stream("s").publish(payload).await.unwrap();
    }
    for reopened in [false, true] {
        if reopened {
            world = world.reopen().await;
        }
        for ((payload, id), event) in payloads()
            .into_iter()
            .zip(&jobs)
            .zip(events(&world.stream("s")).await)
        {
            assert_eq!(event.payload, payload);
            assert_eq!(job(&world.queue("q"), *id).await.payload, payload);
        }
    }
    // Through a claim, the dead letters and back.
    let queue = world.queue("q");
    for claimed in queue.claim_batch("w", 99).await.unwrap() {
        assert!(claimed.fail(None).await.unwrap());
    }
    let died: Vec<_> = dead(&queue).await.into_iter().map(|job| job.payload).collect();
    assert_eq!(died, payloads());
    queue.redrive_all().await.unwrap();
    let again = queue.claim_batch("w", 99).await.unwrap();
    let again: Vec<_> = again.iter().map(|handle| handle.job().payload.clone()).collect();
    assert_eq!(again, payloads());
}

pub async fn cx_03_payloads_of_transactions_are_kept_byte_for_byte(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    let mut jobs = Vec::new();
    for payload in payloads() {
        jobs.push(transaction.enqueue("q", payload.clone()).await.unwrap());
        transaction.publish("s", payload).await.unwrap();
    }
    let inside = transaction.read_since("s", 0, 99).await.unwrap();
    transaction.commit().await.unwrap();
    let after = events(&world.stream("s")).await;
    for (n, payload) in payloads().into_iter().enumerate() {
        assert_eq!((&inside[n].payload, &after[n].payload), (&payload, &payload));
        assert_eq!(job(&world.queue("q"), jobs[n]).await.payload, payload);
    }
}

pub async fn cx_05_ttls_that_do_not_last_are_refused(world: World) {
    let lock = world
        .store()
        .try_lock("l", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    for ttl in [0, -1, i64::MIN] {
        let refused = world.store().try_lock("other", "me", ttl).await;
        assert!(matches!(refused, Err(Error::InvalidOption { option: "ttl", .. })));
        assert!(matches!(
            lock.renew(ttl).await,
            Err(Error::InvalidOption { option: "ttl", .. })
        ));
    }
    let seen = world.store().inspect().await.unwrap();
    assert_eq!((seen.locks.len(), seen.locks[0].expires_in_s), (1, 60));
    // The longest there is.
    assert!(lock.renew(i64::MAX).await.unwrap());
    world.set(i64::MAX - 1).await;
    assert!(world.store().try_lock("l", "other", 1).await.unwrap().is_none());
}

fn closed<T>(what: &str, result: Result<T, Error>) {
    match result {
        Err(error @ Error::Closed) => assert_eq!(error.outcome(), Outcome::Aborted),
        Err(other) => panic!("{what}: {other:?}"),
        Ok(_) => panic!("{what} was done by a closed store"),
    }
}

pub async fn cx_07_a_closed_store_says_so_and_does_nothing(world: World) {
    let second = world.second().await;
    let (queue_1, stream_1, store) = (world.queue("q"), world.stream("s"), world.store());
    let id = queue_1.enqueue("x").await.unwrap();
    let held = claim(&queue_1, "w").await;
    let lock = store.try_lock("l", "me", 60).await.unwrap().expect("a free lock");
    assert!(!store.is_closed());
    store.close().await;
    // Closing again is nothing new.
    store.close().await;
    assert!(store.is_closed() && !second.is_closed());
    closed("enqueue", queue_1.enqueue("y").await);
    closed("claim", queue_1.claim_one("w").await);
    closed("get_job", queue_1.get_job(id).await);
    closed("cancel", queue_1.cancel(id).await);
    closed("sweep_expired", queue_1.sweep_expired().await);
    closed("next_ready_at", queue_1.next_ready_at().await);
    closed(
        "dead_jobs",
        queue_1.dead_jobs(DeadPage { after: 0, limit: 9 }).await,
    );
    closed("redrive", queue_1.redrive(id).await);
    closed("redrive_all", queue_1.redrive_all().await);
    closed("purge_dead", queue_1.purge_dead().await);
    closed("queue listen", queue_1.listen().await);
    // CQ-09: an error is never told as "not your claim".
    closed("ack", held.ack().await);
    closed("ack_batch", queue_1.ack_batch([&held]).await);
    closed("retry", held.retry(None, Some(0)).await);
    closed("fail", held.fail(None).await);
    closed("release", held.release().await);
    closed("heartbeat", held.heartbeat(9).await);
    closed("publish", stream_1.publish("y").await);
    closed("read_since", stream_1.read_since(0, 9).await);
    closed("read_from_consumer", stream_1.read_from_consumer("c", 9).await);
    closed("save_offset", stream_1.save_offset("c", 9).await);
    closed("get_offset", stream_1.get_offset("c").await);
    closed("trim_to", stream_1.trim_to(9).await);
    closed("subscribe", stream_1.subscribe("c").await);
    closed("stream listen", stream_1.listen().await);
    closed("begin", store.begin().await);
    closed("notify", store.notify("n", "x").await);
    closed("listen", store.listen("n").await);
    closed("try_lock", store.try_lock("l", "me", 60).await);
    closed("renew", lock.renew(60).await);
    closed("release lock", lock.release().await);
    let plain = EnqueueOptions::default();
    closed(
        "schedule",
        store.schedule("d", "@every 1s", "q", "x", plain).await,
    );
    closed("unschedule", store.unschedule("d").await);
    closed("inspect", store.inspect().await);
    // The other handle goes on, and finds all as it was.
    assert_eq!(job(&queue(&second, "q"), id).await, *held.job());
    assert_eq!(second.inspect().await.unwrap().locks.len(), 1);
}

pub async fn cx_08_what_was_answered_is_there_after_reopening(world: World) {
    let queue = world.queue("q");
    let [pending, held, dies] = queue.enqueue_batch(crate::world::batch(3)).await.unwrap()[..] else {
        panic!("three ids");
    };
    let first = queue.claim_batch("w", 3).await.unwrap();
    assert!(first[2].fail(Some("boom")).await.unwrap());
    assert!(first[0].retry(Some("again"), Some(40)).await.unwrap());
    let stream = world.stream("s");
    stream.publish_batch(vec![event("1"), event("2")]).await.unwrap();
    stream.save_offset("c", 1).await.unwrap();
    let lock = world
        .store()
        .try_lock("l", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    let released = world
        .store()
        .try_lock("r", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    assert!(released.release().await.unwrap());
    let plain = EnqueueOptions::default();
    world
        .store()
        .schedule("d", "@every 5m", "q", "x", plain)
        .await
        .unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    let together = transaction.enqueue("t", "x").await.unwrap();
    transaction.publish("s", "3").await.unwrap();
    transaction.commit().await.unwrap();
    let mut jobs = Vec::new();
    for id in [pending, held, dies] {
        jobs.push(job(&queue, id).await);
    }
    let (read, fence) = (events(&stream).await, lock.fence());
    let mut before = world.store().inspect().await.unwrap();

    world.advance(1).await;
    let world = world.reopen().await;
    let queue = world.queue("q");
    for known in jobs {
        assert_eq!(job(&queue, known.id).await, known);
    }
    assert_eq!(job(&world.queue("t"), together).await.state, JobState::Pending);
    assert_eq!(events(&world.stream("s")).await, read);
    assert_eq!(world.stream("s").get_offset("c").await.unwrap(), 1);
    let mut after = world.store().inspect().await.unwrap();
    assert_eq!((after.locks[0].expires_in_s, after.locks[0].fence), (59, fence));
    for seen in [&mut before, &mut after] {
        seen.locks.clear();
        seen.size_bytes = None;
        for queue in &mut seen.queues {
            queue.oldest_ready_s = None;
        }
    }
    assert_eq!(after, before);
    assert!(world.store().try_lock("l", "other", 60).await.unwrap().is_none());
    let again = world
        .store()
        .try_lock("r", "other", 60)
        .await
        .unwrap()
        .expect("a free lock");
    assert_eq!(again.fence(), 2);
    // New ids go on above the old ones.
    assert!(queue.enqueue("new").await.unwrap() > together);
}

pub async fn cx_08_a_transaction_that_was_open_at_the_end_is_gone(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    transaction.publish("s", "ghost").await.unwrap();
    transaction.enqueue("q", "ghost").await.unwrap();
    drop(transaction);
    let world = world.reopen().await;
    assert!(events(&world.stream("s")).await.is_empty());
    assert!(world.queue("q").claim_one("w").await.unwrap().is_none());
}

/// Submits, and does not stay for the answer.
async fn submit_and_drop(operation: impl Future) {
    tokio::select! {
        biased;
        _ = operation => {}
        () = ready(()) => {}
    }
}

pub async fn cx_10_a_dropped_future_undoes_nothing(world: World) {
    const TIMES: usize = 20;
    let mut wakes = world.stream("s").listen().await.unwrap();
    for n in 0..TIMES {
        submit_and_drop(world.stream("s").publish(n.to_string())).await;
        let mut transaction = world.store().begin().await.unwrap();
        transaction.publish("s", format!("t{n}")).await.unwrap();
        transaction.enqueue("q", "x").await.unwrap();
        submit_and_drop(transaction.commit()).await;
    }
    while events(&world.stream("s")).await.len() < 2 * TIMES {
        wakes.recv().await.expect("a store that lives");
    }
    assert_eq!(world.queue("q").claim_batch("w", 99).await.unwrap().len(), TIMES);
}

pub async fn cx_10_a_dropped_claim_or_ack_goes_on(world: World) {
    let queue = world.queue("q");
    let mut wakes = queue.listen().await.unwrap();
    let id = queue.enqueue("x").await.unwrap();
    wakes.recv().await.expect("a store that lives");
    let held = claim(&queue, "w").await;
    // A retry wakes the queue, so that its end can be waited for.
    submit_and_drop(held.retry(Some("dropped"), Some(0))).await;
    while job(&queue, id).await.state != JobState::Pending {
        wakes.recv().await.expect("a store that lives");
    }
    assert_eq!(job(&queue, id).await.last_error.as_deref(), Some("dropped"));
    // What was submitted before the end is done. A claim that found a job asks at once for the next.
    let next = queue.enqueue("next").await.unwrap();
    let held = claim(&queue, "w").await;
    assert_eq!(held.job().id, id);
    submit_and_drop(queue.claim_one("gone")).await;
    submit_and_drop(held.ack()).await;
    let world = world.reopen().await;
    let queue = world.queue("q");
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    let claimed = job(&queue, next).await;
    assert_eq!((claimed.state, claimed.attempts), (JobState::Processing, 1));
    assert_eq!(claimed.worker.as_ref().map(LocalName::as_str), Some("gone"));
    // Nobody has it, so it is claimed again when that claim has lapsed.
    assert!(queue.claim_one("w").await.unwrap().is_none());
    world.advance(301).await;
    assert_eq!(claim(&world.queue("q"), "w").await.job().id, next);
}

pub async fn cx_10_a_dropped_begin_holds_nothing(world: World) {
    for _ in 0..TIMES_BEGUN {
        submit_and_drop(world.store().begin()).await;
    }
    world.queue("q").enqueue("after").await.unwrap();
    world.store().begin().await.unwrap().commit().await.unwrap();
}

const TIMES_BEGUN: usize = 20;
