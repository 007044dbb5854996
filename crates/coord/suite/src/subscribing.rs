//! CS-07: consumers that follow a stream.

use esker_coord_api::{Error, EventReceiver, Outcome, Result, Store};
use tokio::sync::Barrier;

use crate::{
    World,
    world::{event, stream},
};

async fn next(receiver: &mut EventReceiver) -> i64 {
    let event = receiver.recv().await.expect("the store lives");
    event.unwrap().offset
}

async fn publish(world: &World, n: usize) {
    let events = (0..n).map(|n| event(n.to_string())).collect();
    world.stream("s").publish_batch(events).await.unwrap();
}

pub async fn cs_07_a_consumer_reads_from_its_saved_offset_and_follows(world: World) {
    publish(&world, 4).await;
    world.stream("s").save_offset("c", 2).await.unwrap();
    let mut receiver = stream(&world.second().await, "s").subscribe("c").await.unwrap();
    assert_eq!(receiver.offset(), 0);
    assert_eq!((next(&mut receiver).await, next(&mut receiver).await), (3, 4));
    assert_eq!(receiver.try_recv().await.unwrap(), None);
    for expected in 5..9 {
        let waits = tokio::spawn(async move { (next(&mut receiver).await, receiver) });
        world.stream("s").publish("more").await.unwrap();
        let (offset, back) = waits.await.unwrap();
        receiver = back;
        assert_eq!((offset, receiver.offset()), (expected, expected));
    }
}

pub async fn cs_07_nothing_is_saved_unasked(world: World) {
    publish(&world, 5).await;
    let saved = async || world.stream("s").get_offset("c").await.unwrap();
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    // Before any event there is nothing to save.
    receiver.save_offset().await.unwrap();
    assert_eq!((saved().await, receiver.offset()), (0, 0));
    assert_eq!(next(&mut receiver).await, 1);
    assert_eq!(saved().await, 0);
    assert_eq!(next(&mut receiver).await, 2);
    receiver.save_offset().await.unwrap();
    assert_eq!(saved().await, 2);
    assert_eq!(next(&mut receiver).await, 3);
    drop(receiver);
    assert_eq!(saved().await, 2);
    // The next one begins where it was saved.
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    assert_eq!(next(&mut receiver).await, 3);
}

pub async fn cs_07_reading_aside_moves_nothing(world: World) {
    publish(&world, 5).await;
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    assert_eq!(receiver.read_since(3, 9).await.unwrap().len(), 2);
    assert!(receiver.read_since(0, 0).await.unwrap().is_empty());
    assert_eq!((next(&mut receiver).await, receiver.offset()), (1, 1));
}

pub async fn cs_07_pages_follow_without_a_gap(world: World) {
    publish(&world, 700).await;
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    for expected in 1..=700 {
        assert_eq!(next(&mut receiver).await, expected);
        if expected == 300 {
            publish(&world, 3).await;
        }
    }
    for expected in 701..=703 {
        assert_eq!(
            receiver.try_recv().await.unwrap().expect("an event").offset,
            expected
        );
    }
    assert_eq!(receiver.try_recv().await.unwrap(), None);
}

pub async fn cs_07_nothing_is_missed_at_the_attach(world: World) {
    const EVENTS: i64 = 60;
    let stores = [world.store().clone(), world.second().await];
    let publisher = tokio::spawn({
        let stream = world.stream("s");
        async move {
            for n in 0..EVENTS {
                stream.publish(n.to_string()).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    let mut followers = Vec::new();
    for n in 0..6_usize {
        let stream = stream(&stores[n % 2], "s");
        followers.push(tokio::spawn(async move {
            let mut receiver = stream.subscribe(&format!("c{n}")).await.unwrap();
            for expected in 1..=EVENTS {
                assert_eq!(next(&mut receiver).await, expected);
            }
        }));
    }
    for follower in followers {
        follower.await.unwrap();
    }
    publisher.await.unwrap();
}

pub async fn cs_07_consumers_are_independent(world: World) {
    publish(&world, 3).await;
    let mut a = world.stream("s").subscribe("a").await.unwrap();
    let mut b = world.stream("s").subscribe("b").await.unwrap();
    // Twice the same name: both see everything.
    let mut also_a = world.stream("s").subscribe("a").await.unwrap();
    for receiver in [&mut a, &mut b, &mut also_a] {
        for expected in 1..=3 {
            assert_eq!(next(receiver).await, expected);
        }
    }
    a.save_offset().await.unwrap();
    assert_eq!(world.stream("s").get_offset("a").await.unwrap(), 3);
    assert_eq!(world.stream("s").get_offset("b").await.unwrap(), 0);
}

pub async fn cs_07_trimmed_events_are_passed_over(world: World) {
    publish(&world, 600).await;
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    assert_eq!(next(&mut receiver).await, 1);
    world.stream("s").trim_to(590).await.unwrap();
    // What was read before is still given, and then the first survivor.
    let mut last = 1;
    while last < 600 {
        let offset = next(&mut receiver).await;
        // No more than a page of them is held, so a slow consumer costs no memory.
        let held = offset == last + 1 && (offset <= 256 || last >= 591);
        assert!(held || (offset == 591 && last <= 256), "{offset} after {last}");
        last = offset;
    }
    let mut late = world.stream("s").subscribe("d").await.unwrap();
    assert_eq!(next(&mut late).await, 591);
}

pub async fn cs_07_a_saved_offset_beyond_the_end_waits_for_what_comes_after(world: World) {
    world.stream("s").save_offset("c", 3).await.unwrap();
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    publish(&world, 5).await;
    assert_eq!((next(&mut receiver).await, next(&mut receiver).await), (4, 5));
}

pub async fn cs_07_the_end_of_the_store_is_the_end(world: World) {
    publish(&world, 2).await;
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    assert_eq!(next(&mut receiver).await, 1);
    world.store().close().await;
    // What was read is still given.
    assert_eq!(next(&mut receiver).await, 2);
    assert!(receiver.recv().await.is_none());
    assert!(matches!(receiver.try_recv().await, Err(Error::Closed)));
    assert!(matches!(receiver.save_offset().await, Err(Error::Closed)));
}

pub async fn cs_06_of_two_that_do_the_work_of_one_consumer_each_goes_on_after_the_other(world: World) {
    const EVENTS: i64 = 60;
    publish(&world, 60).await;
    let project = async |store: Store, reads: bool| {
        loop {
            let mut transaction = store.begin().await.unwrap();
            let read = if reads {
                transaction.read_from_consumer("s", "c\0", 2).await
            } else {
                let saved = transaction.get_offset("s", "c\0").await.unwrap();
                transaction.read_since("s", saved, 2).await
            };
            let read = read.unwrap();
            let Some(last) = read.last() else { return };
            for event in &read {
                transaction.publish("copy", event.payload.clone()).await.unwrap();
            }
            transaction.save_offset("s", "c\0", last.offset).await.unwrap();
            transaction.commit().await.unwrap();
        }
    };
    let stores = [world.store().clone(), world.second().await];
    let tasks: Vec<_> = (0..4)
        .map(|n| tokio::spawn(project(stores[n / 2].clone(), n % 2 == 0)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let copied = world.stream("copy").read_since(0, 1000).await.unwrap();
    let copied: Vec<_> = copied.into_iter().map(|event| event.payload).collect();
    let published = world.stream("s").read_since(0, EVENTS).await.unwrap();
    assert_eq!(
        copied,
        published
            .into_iter()
            .map(|event| event.payload)
            .collect::<Vec<_>>()
    );
}

pub async fn cs_06_transactions_that_ask_for_two_consumers_crosswise_do_not_wait_for_ever(world: World) {
    async fn both(store: &Store, [first, second]: [&str; 2], met: Option<&Barrier>) -> Result<()> {
        let mut transaction = store.begin().await?;
        transaction.get_offset("s", first).await?;
        if let Some(met) = met {
            met.wait().await;
        }
        let saved = transaction.get_offset("s", second).await?;
        transaction.save_offset("s", second, saved + 1).await?;
        transaction.commit().await
    }
    let second = world.second().await;
    // Where one begins after the other has ended, they cannot meet.
    let met = (!world.writers_wait()).then(|| Barrier::new(2));
    let (one, other) = tokio::join!(
        both(world.store(), ["a", "b"], met.as_ref()),
        both(&second, ["b", "a"], met.as_ref()),
    );
    assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
    for refused in [&one, &other]
        .into_iter()
        .filter_map(|ended| ended.as_ref().err())
    {
        assert!(matches!(refused, Error::Database { .. }), "{refused:?}");
        assert_eq!(refused.outcome(), Outcome::Aborted);
    }
    // Who was rolled back has saved nothing, and keeps nothing.
    for (consumer, saved) in [("a", &other), ("b", &one)] {
        let offset = world.stream("s").get_offset(consumer).await.unwrap();
        assert_eq!(offset, i64::from(saved.is_ok()), "{consumer}");
    }
    both(&second, ["b", "a"], None).await.unwrap();
}

pub async fn cs_06_an_offset_that_commits_with_the_work_is_exactly_once(world: World) {
    const EVENTS: i64 = 20;
    publish(&world, 20).await;
    // Half of the attempts fail after the work, and each starts where it was saved.
    for attempt in 0.. {
        let saved = world.stream("s").get_offset("c").await.unwrap();
        if saved == EVENTS {
            break;
        }
        let mut transaction = world.store().begin().await.unwrap();
        let read = transaction.read_from_consumer("s", "c", 3).await.unwrap();
        for event in &read {
            transaction.publish("copy", event.payload.clone()).await.unwrap();
        }
        let last = read.last().expect("events are left").offset;
        transaction.save_offset("s", "c", last).await.unwrap();
        if attempt % 2 == 1 {
            transaction.commit().await.unwrap();
        }
    }
    let copy: Vec<_> = crate::world::events(&world.stream("copy"))
        .await
        .into_iter()
        .map(|e| e.payload)
        .collect();
    let all: Vec<_> = crate::world::events(&world.stream("s"))
        .await
        .into_iter()
        .map(|e| e.payload)
        .collect();
    assert_eq!(copy, all);
}
