//! CW-01 to CW-06: who is woken, when, and by nothing else.

use std::time::Duration;

use esker_coord_api::{EnqueueOptions, Error, JobHandle, Queue, RECONNECTED, Store, WakeReceiver};

use crate::{
    World, skip,
    world::{NOW, batch, claim, event, events, important, job, name, options, queue, stream},
};

/// Waits for a wake, which must be of this channel.
async fn woken(receiver: &mut WakeReceiver, channel: &str) {
    assert_eq!(receiver.recv().await.expect("the source lives").channel, channel);
}

/// Wakes that may repeat or be late are taken until the marker's own has come: what was sent before it has come too.
async fn settled(store: &Store, marker: &mut WakeReceiver) {
    store.notify("marker", "").await.unwrap();
    marker.recv().await.expect("the source lives");
}

pub async fn cw_01_a_notification_wakes_who_listens_to_its_channel(world: World) {
    let second = world.second().await;
    let mut here = world.store().listen("a").await.unwrap();
    let mut there = second.listen("a").await.unwrap();
    let mut other = world.store().listen("b").await.unwrap();
    for (store, times) in [(world.store(), 2), (&second, 2)] {
        for _ in 0..times {
            store.notify("a", "payload").await.unwrap();
            woken(&mut here, "a").await;
            woken(&mut there, "a").await;
        }
    }
    world.store().notify("b", "").await.unwrap();
    woken(&mut other, "b").await;
    assert_eq!(here.try_recv().unwrap(), None);
    assert_eq!(other.try_recv().unwrap(), None);
}

pub async fn cw_01_listening_begins_now(world: World) {
    let mut marker = world.store().listen("marker").await.unwrap();
    world.store().notify("a", "before").await.unwrap();
    settled(world.store(), &mut marker).await;
    let mut late = world.store().listen("a").await.unwrap();
    settled(world.store(), &mut marker).await;
    assert_eq!(late.try_recv().unwrap(), None);
    // Not stored for who comes after a restart either.
    let world = world.reopen().await;
    let mut marker = world.store().listen("marker").await.unwrap();
    let mut late = world.store().listen("a").await.unwrap();
    settled(world.store(), &mut marker).await;
    assert_eq!(late.try_recv().unwrap(), None);
}

pub async fn cw_01_nothing_is_lost_from_the_moment_that_listening_resolves(world: World) {
    let second = world.second().await;
    for n in 0..30 {
        let channel = format!("c{n}");
        let mut receiver = second.listen(&channel).await.unwrap();
        let store = world.store().clone();
        let sent = tokio::spawn({
            let channel = channel.clone();
            async move { store.notify(&channel, "").await }
        });
        woken(&mut receiver, &channel).await;
        sent.await.unwrap().unwrap();
    }
}

pub async fn cw_01_notifications_of_a_transaction_come_after_its_commit(world: World) {
    let second = world.second().await;
    let mut here = world.store().listen("a").await.unwrap();
    let mut there = second.listen("a").await.unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    transaction.notify("a", "x").await.unwrap();
    transaction.publish("s", "x").await.unwrap();
    assert_eq!(here.try_recv().unwrap(), None);
    assert_eq!(there.try_recv().unwrap(), None);
    transaction.commit().await.unwrap();
    woken(&mut here, "a").await;
    woken(&mut there, "a").await;
    // Whoever is woken sees what was committed.
    assert_eq!(events(&stream(&second, "s")).await.len(), 1);
}

pub async fn cw_01_a_roll_back_wakes_nobody(world: World) {
    let second = world.second().await;
    let mut marker = world.store().listen("marker").await.unwrap();
    let mut marker_there = second.listen("marker").await.unwrap();
    let mut receivers = vec![
        world.store().listen("a").await.unwrap(),
        second.listen("a").await.unwrap(),
        world.stream("s").listen().await.unwrap(),
        world.queue("q").listen().await.unwrap(),
    ];
    for _ in 0..3 {
        let mut transaction = world.store().begin().await.unwrap();
        transaction.notify("a", "ghost").await.unwrap();
        transaction.publish("s", "ghost").await.unwrap();
        transaction.enqueue("q", "ghost").await.unwrap();
        drop(transaction);
    }
    settled(world.store(), &mut marker).await;
    marker_there.recv().await.expect("the source lives");
    for receiver in &mut receivers {
        assert_eq!(receiver.try_recv().unwrap(), None);
    }
}

pub async fn cw_02_a_wake_names_its_channel_and_carries_nothing(world: World) {
    let mut receiver = world.store().listen("a").await.unwrap();
    for payload in ["one", "two", "three"] {
        world.store().notify("a", payload).await.unwrap();
    }
    // One or several: a hint to look again.
    woken(&mut receiver, "a").await;
    let mut marker = world.store().listen("marker").await.unwrap();
    settled(world.store(), &mut marker).await;
    while let Some(wake) = receiver.try_recv().unwrap() {
        assert_eq!(wake.channel, "a");
    }
}

pub async fn cw_03_silence_the_time_and_the_end_are_told_apart(world: World) {
    let second = world.second().await;
    let mut receiver = world.store().listen("a").await.unwrap();
    let mut survivor = second.listen("a").await.unwrap();
    assert_eq!(receiver.try_recv().unwrap(), None);
    assert_eq!(receiver.recv_timeout(Duration::ZERO).await.unwrap(), None);
    world.store().notify("a", "").await.unwrap();
    let wake = receiver.recv_timeout(Duration::from_hours(1)).await.unwrap();
    assert_eq!(wake.expect("a wake").channel, "a");
    world.store().close().await;
    assert_eq!(receiver.recv().await, None);
    assert!(matches!(receiver.try_recv(), Err(Error::Closed)));
    assert!(matches!(
        receiver.recv_timeout(Duration::MAX).await,
        Err(Error::Closed)
    ));
    // The other handle listens on.
    woken(&mut survivor, "a").await;
    second.notify("a", "").await.unwrap();
    woken(&mut survivor, "a").await;
}

pub async fn cw_03_the_end_comes_to_who_waits(world: World) {
    let mut receivers = vec![
        world.store().listen("a").await.unwrap(),
        world.stream("s").listen().await.unwrap(),
        world.queue("q").listen().await.unwrap(),
    ];
    let mut follows = world.stream("s").subscribe("c").await.unwrap();
    let mut waits = vec![tokio::spawn(async move { follows.recv().await.is_none() })];
    for mut receiver in receivers.drain(..) {
        waits.push(tokio::spawn(async move { receiver.recv().await.is_none() }));
    }
    tokio::task::yield_now().await;
    world.store().close().await;
    for wait in waits {
        assert!(wait.await.unwrap());
    }
}

pub async fn cw_03_after_a_lost_connection_everybody_looks_again(world: World) {
    let mut receiver = world.store().listen("a").await.unwrap();
    let mut follows = world.stream("s").subscribe("c").await.unwrap();
    world.stream("s").publish("before").await.unwrap();
    if !world.cut_connections().await {
        skip("cw_03_after_a_lost_connection", "this engine has no connections");
        return;
    }
    while receiver.recv().await.expect("the source lives").channel != RECONNECTED {}
    // What uses a connection that was cut may fail, and may have been done; then all works.
    let mut failed = 0;
    let published = loop {
        match world.stream("s").publish("after").await {
            Ok(offset) => break offset,
            Err(Error::Database { .. }) if failed < 64 => failed += 1,
            Err(other) => panic!("{other:?}"),
        }
    };
    for expected in 1..=published {
        let mut next = follows.recv().await.expect("the store lives");
        while next.is_err() {
            next = follows.recv().await.expect("the store lives");
        }
        assert_eq!(next.unwrap().offset, expected);
    }
    world.store().notify("a", "").await.unwrap();
    woken(&mut receiver, "a").await;
}

pub async fn cw_04_a_payload_that_does_not_fit_is_refused_before_it_is_sent(world: World) {
    let mut receiver = world.store().listen("a").await.unwrap();
    let mut marker = world.store().listen("marker").await.unwrap();
    let Some(limit) = world.payload_limit() else {
        world.store().notify("a", vec![b'x'; 1_000_000]).await.unwrap();
        woken(&mut receiver, "a").await;
        return;
    };
    world.store().notify("a", vec![b'x'; limit]).await.unwrap();
    woken(&mut receiver, "a").await;
    let mut transaction = world.store().begin().await.unwrap();
    for too_large in [
        vec![b'x'; limit + 1],
        vec![b'x'; 1_000_000],
        vec![0xff; limit + 1],
    ] {
        let refused = [
            world.store().notify("a", too_large.clone()).await,
            transaction.notify("a", too_large).await,
        ];
        for refused in refused {
            match refused {
                Err(Error::PayloadTooLarge { limit: told }) => assert!(told <= limit),
                other => panic!("{other:?}"),
            }
        }
    }
    transaction.publish("s", "goes on").await.unwrap();
    transaction.commit().await.unwrap();
    settled(world.store(), &mut marker).await;
    assert_eq!(receiver.try_recv().unwrap(), None);
    assert_eq!(events(&world.stream("s")).await.len(), 1);
}

pub async fn cw_05_each_publish_wakes_its_streams_channel(world: World) {
    let second = world.second().await;
    for listener in [world.store(), &second] {
        let stream = stream(listener, "s");
        let mut wakes = stream.listen().await.unwrap();
        let before = events(&stream).await.len();
        let seen = async |wakes: &mut WakeReceiver, n: usize| {
            while events(&stream).await.len() < before + n {
                wakes.recv().await.expect("the source lives");
            }
        };
        world.stream("s").publish("one").await.unwrap();
        seen(&mut wakes, 1).await;
        world
            .stream("s")
            .publish_batch(vec![event("two"), event("three")])
            .await
            .unwrap();
        seen(&mut wakes, 3).await;
        let mut transaction = world.store().begin().await.unwrap();
        transaction.publish("s", "four").await.unwrap();
        transaction.commit().await.unwrap();
        wakes.recv().await.expect("the source lives");
        seen(&mut wakes, 4).await;
    }
}

pub async fn cw_05_each_enqueue_wakes_its_queues_channel(world: World) {
    let second = world.second().await;
    for listener in [world.store(), &second] {
        let (here, there) = (world.queue("q"), queue(listener, "q"));
        let mut wakes = there.listen().await.unwrap();
        here.enqueue("one").await.unwrap();
        takes(&there, &mut wakes).await;
        here.enqueue_batch(batch(1)).await.unwrap();
        takes(&there, &mut wakes).await;
        let mut transaction = world.store().begin().await.unwrap();
        transaction.enqueue("q", "three").await.unwrap();
        transaction.commit().await.unwrap();
        takes(&there, &mut wakes).await;
    }
    let outbox = second.outbox("o").unwrap();
    let mut wakes = outbox.queue().listen().await.unwrap();
    world.store().outbox("o").unwrap().enqueue("one").await.unwrap();
    takes(outbox.queue(), &mut wakes).await;
    let mut transaction = world.store().begin().await.unwrap();
    transaction.outbox_enqueue("o", "two").await.unwrap();
    transaction.commit().await.unwrap();
    takes(outbox.queue(), &mut wakes).await;
}

/// Is woken, and sooner or later finds a job and is done with it.
async fn takes(queue: &Queue, wakes: &mut WakeReceiver) {
    loop {
        wakes.recv().await.expect("the source lives");
        if let Some(handle) = queue.claim_one("w").await.unwrap() {
            assert!(handle.ack().await.unwrap());
            return;
        }
    }
}

pub async fn cw_05_a_job_that_is_ready_sooner_than_known_wakes_its_queue(world: World) {
    let second = world.second().await;
    let queue_1 = world.queue("q");
    for listener in [world.store(), &second] {
        let waits = queue(listener, "q");
        queue_1.enqueue("x").await.unwrap();
        let mut held = claim(&queue_1, "w").await;
        let mut wakes = waits.listen().await.unwrap();
        // Who waits knows of the end of the claim only, in five minutes.
        assert_eq!(waits.next_ready_at().await.unwrap(), Some(NOW + 301));
        assert!(held.retry(Some("boom"), Some(0)).await.unwrap());
        held = claims(&waits, &mut wakes).await;
        assert!(held.release().await.unwrap());
        held = claims(&waits, &mut wakes).await;
        assert!(held.fail(None).await.unwrap());
        assert!(queue_1.redrive(held.job().id).await.unwrap());
        held = claims(&waits, &mut wakes).await;
        assert!(held.fail(None).await.unwrap());
        assert_eq!(queue_1.redrive_all().await.unwrap(), 1);
        held = claims(&waits, &mut wakes).await;
        assert!(held.ack().await.unwrap());
    }
}

async fn claims(queue: &Queue, wakes: &mut WakeReceiver) -> JobHandle {
    loop {
        wakes.recv().await.expect("the source lives");
        if let Some(handle) = queue.claim_one("w").await.unwrap() {
            return handle;
        }
    }
}

pub async fn cw_05_a_fired_schedule_wakes_its_queue(world: World) {
    let plain = EnqueueOptions::default();
    world
        .store()
        .schedule("s", "@every 10s", "q", "x", plain)
        .await
        .unwrap();
    let lock = world
        .store()
        .try_lock("l", "me", 60)
        .await
        .unwrap()
        .expect("a free lock");
    let second = world.second().await;
    for listener in [world.store(), &second] {
        let queue = queue(listener, "q");
        let mut wakes = queue.listen().await.unwrap();
        world.advance(10).await;
        world
            .inner()
            .fire_schedules(name("l"), lock.fence())
            .await
            .unwrap();
        takes(&queue, &mut wakes).await;
    }
}

pub async fn cw_05_what_makes_no_job_ready_sooner_wakes_nobody(world: World) {
    let queue = world.queue("q");
    let mut marker = world.store().listen("marker").await.unwrap();
    queue.enqueue_batch(batch(5)).await.unwrap();
    let claims = queue.claim_batch("w", 4).await.unwrap();
    let ready = job(&queue, claims[3].job().id + 1).await.id;
    let spent = world.queue_with("q", options(300, 1));
    spent.enqueue_with("spent", important(1)).await.unwrap();
    let last = claim(&spent, "w").await;
    settled(world.store(), &mut marker).await;
    let mut wakes = queue.listen().await.unwrap();
    // The claim of this one ends no sooner than is known.
    for extend in [300, 301, 1000, 1000] {
        assert!(claims[0].heartbeat(extend).await.unwrap());
    }
    assert!(claims[0].ack().await.unwrap());
    assert!(claims[1].fail(Some("broken")).await.unwrap());
    assert!(last.retry(Some("spent"), Some(0)).await.unwrap());
    assert!(queue.cancel(claims[2].job().id).await.unwrap());
    assert!(!claims[2].retry(None, Some(0)).await.unwrap());
    assert!(!claims[0].heartbeat(1).await.unwrap());
    assert!(!queue.redrive(ready).await.unwrap());
    assert_eq!(queue.purge_dead().await.unwrap(), 2);
    assert_eq!(queue.redrive_all().await.unwrap(), 0);
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    assert!(queue.cancel(ready).await.unwrap());
    settled(world.store(), &mut marker).await;
    assert_eq!(wakes.try_recv().unwrap(), None);
}

pub async fn cw_06_others_commits_wake_nobody(world: World) {
    let mut marker = world.store().listen("marker").await.unwrap();
    let mut idle = [
        world.store().listen("a").await.unwrap(),
        world.stream("s").listen().await.unwrap(),
        world.queue("q").listen().await.unwrap(),
    ];
    world.store().notify("b", "").await.unwrap();
    world.stream("t").publish("x").await.unwrap();
    world.queue("r").enqueue("x").await.unwrap();
    world.stream("s").save_offset("c", 1).await.unwrap();
    world.store().try_lock("l", "me", 60).await.unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    transaction.publish("t", "x").await.unwrap();
    transaction.enqueue("r", "x").await.unwrap();
    transaction.commit().await.unwrap();
    settled(world.store(), &mut marker).await;
    for receiver in &mut idle {
        assert_eq!(receiver.try_recv().unwrap(), None);
    }
}

pub async fn cw_06_many_come_and_go_and_all_who_stay_are_woken(world: World) {
    for _ in 0..200 {
        drop(world.store().listen("a").await.unwrap());
    }
    let mut stay = Vec::new();
    for n in 0..50 {
        stay.push((
            format!("c{}", n % 5),
            world.store().listen(&format!("c{}", n % 5)).await.unwrap(),
        ));
    }
    // A waiter that is dropped takes nobody's wake.
    for (_, receiver) in &mut stay {
        assert_eq!(receiver.recv_timeout(Duration::ZERO).await.unwrap(), None);
    }
    for n in 0..5 {
        world.store().notify(&format!("c{n}"), "").await.unwrap();
    }
    for (channel, receiver) in &mut stay {
        woken(receiver, channel).await;
    }
}
