//! CS-01 to CS-03, CS-05, CS-06, CS-08: events by offset.

use esker_coord_api::{Error, NewEvent, Payload};

use crate::{
    World,
    world::{NOW, event, events, stream, texts},
};

pub async fn cs_01_a_key_is_carried_and_orders_nothing(world: World) {
    let stream = world.stream("s");
    for (offset, key) in [
        (1, Some("b")),
        (2, None),
        (3, Some("a")),
        (4, Some("b")),
        (5, Some(" ")),
    ] {
        assert_eq!(stream.publish_with_key(key, "same").await.unwrap(), offset);
    }
    let keys: Vec<_> = events(&stream).await.into_iter().map(|event| event.key).collect();
    let keys: Vec<_> = keys.iter().map(|key| key.as_deref()).collect();
    assert_eq!(keys, [Some("b"), None, Some("a"), Some("b"), Some(" ")]);
}

pub async fn cs_01_an_empty_key_is_refused(world: World) {
    let stream = world.stream("s");
    let refused = stream.publish_with_key(Some(""), "x").await;
    assert!(matches!(refused, Err(Error::InvalidName { .. })));
    let mut transaction = world.store().begin().await.unwrap();
    let refused = transaction.publish_with_key("s", Some(""), "x").await;
    assert!(matches!(refused, Err(Error::InvalidName { .. })));
    transaction.commit().await.unwrap();
    assert!(events(&stream).await.is_empty());
}

pub async fn cs_02_an_event_is_read_as_it_was_published(world: World) {
    let stream = world.stream("orders/é");
    world.advance(3).await;
    let payload = Payload::json(&serde_json::json!({"n": 1})).unwrap();
    stream.publish_with_key(Some("k"), payload.clone()).await.unwrap();
    let read = &events(&stream).await[0];
    assert_eq!(
        (read.offset, read.stream.as_str(), read.created_at),
        (1, "orders/é", NOW + 3)
    );
    assert_eq!((read.key.as_deref(), &read.payload), (Some("k"), &payload));
    assert_eq!(read.payload_as::<serde_json::Value>().unwrap()["n"], 1);
}

pub async fn cs_03_offsets_count_from_one_in_each_stream(world: World) {
    let (a, b) = (world.stream("a"), world.stream("b"));
    assert_eq!(a.publish("1").await.unwrap(), 1);
    assert_eq!(b.publish("1").await.unwrap(), 1);
    assert_eq!(
        a.publish_batch(vec![event("2"), event("3")]).await.unwrap(),
        [2, 3]
    );
    assert_eq!(a.publish("4").await.unwrap(), 4);
    assert_eq!(b.publish("2").await.unwrap(), 2);
    assert!(a.publish_batch(Vec::<NewEvent>::new()).await.unwrap().is_empty());
    let expected = [1, 2, 3, 4].map(|n: i64| (n, n.to_string()));
    assert_eq!(texts(&events(&a).await), expected);
}

pub async fn cs_03_a_rolled_back_publish_leaves_no_gap(world: World) {
    let stream = world.stream("s");
    stream.publish("one").await.unwrap();
    for _ in 0..3 {
        let mut transaction = world.store().begin().await.unwrap();
        transaction.publish("s", "ghost").await.unwrap();
        transaction.publish("other", "ghost").await.unwrap();
        drop(transaction);
    }
    assert_eq!(stream.publish("two").await.unwrap(), 2);
    assert_eq!(world.stream("other").publish("first").await.unwrap(), 1);
}

pub async fn cs_03_no_offset_is_used_twice(world: World) {
    let stream = world.stream("s");
    stream
        .publish_batch(vec![event("1"), event("2"), event("3")])
        .await
        .unwrap();
    assert_eq!(stream.trim_to(i64::MAX).await.unwrap(), 3);
    assert_eq!(stream.publish("4").await.unwrap(), 4);
    assert_eq!(stream.trim_to(4).await.unwrap(), 1);
    let world = world.reopen().await;
    let stream = world.stream("s");
    assert_eq!(stream.publish("5").await.unwrap(), 5);
    assert_eq!(texts(&events(&stream).await), [(5, "5".to_owned())]);
}

pub async fn cs_05_reads_are_beyond_the_cursor_ascending_and_bounded(world: World) {
    let stream = world.stream("s");
    let batch = (1..=7).map(|n: i32| event(n.to_string())).collect();
    stream.publish_batch(batch).await.unwrap();
    world.stream("t").publish("other").await.unwrap();
    let read = async |after, limit| -> Vec<i64> {
        let events = stream.read_since(after, limit).await.unwrap();
        events.iter().map(|event| event.offset).collect()
    };
    assert_eq!(read(0, 3).await, [1, 2, 3]);
    assert_eq!(read(3, 3).await, [4, 5, 6]);
    assert_eq!(read(6, 3).await, [7]);
    assert!(read(7, 3).await.is_empty() && read(i64::MAX, 3).await.is_empty());
    assert_eq!(read(i64::MIN, i64::MAX).await, [1, 2, 3, 4, 5, 6, 7]);
    for limit in [0, -1, i64::MIN] {
        assert!(read(0, limit).await.is_empty());
        assert!(stream.read_from_consumer("c", limit).await.unwrap().is_empty());
    }
    assert!(events(&world.stream("unknown")).await.is_empty());
}

pub async fn cs_05_a_consumer_reads_from_its_saved_offset(world: World) {
    let stream = world.stream("s");
    stream
        .publish_batch(vec![event("1"), event("2"), event("3")])
        .await
        .unwrap();
    let read = async |consumer: &str| texts(&stream.read_from_consumer(consumer, 2).await.unwrap());
    assert_eq!(read("c").await, [(1, "1".to_owned()), (2, "2".to_owned())]);
    // Reading saves nothing.
    assert_eq!(stream.get_offset("c").await.unwrap(), 0);
    stream.save_offset("c", 2).await.unwrap();
    assert_eq!(read("c").await, [(3, "3".to_owned())]);
    assert_eq!(read("d").await.len(), 2);
}

pub async fn cs_06_saved_offsets_only_grow(world: World) {
    let (s, t) = (world.stream("s"), world.stream("t"));
    assert_eq!(s.get_offset("c").await.unwrap(), 0);
    for (save, saved) in [
        (-5, 0),
        (5, 5),
        (3, 5),
        (i64::MIN, 5),
        (5, 5),
        (9, 9),
        (0, 9),
        (i64::MAX, i64::MAX),
    ] {
        s.save_offset("c", save).await.unwrap();
        assert_eq!(s.get_offset("c").await.unwrap(), saved, "after {save}");
    }
    assert_eq!(s.get_offset("d").await.unwrap(), 0);
    assert_eq!(t.get_offset("c").await.unwrap(), 0);
    assert!(s.read_from_consumer("c", 9).await.unwrap().is_empty());
    let mut transaction = world.store().begin().await.unwrap();
    transaction.save_offset("t", "c", 7).await.unwrap();
    transaction.save_offset("t", "c", 2).await.unwrap();
    assert_eq!(transaction.get_offset("t", "c").await.unwrap(), 7);
    transaction.commit().await.unwrap();
    assert_eq!(t.get_offset("c").await.unwrap(), 7);
}

pub async fn cs_06_concurrent_saves_leave_the_highest(world: World) {
    let second = world.second().await;
    let mut saves = Vec::new();
    for offset in 1..=24 {
        let stream = stream(if offset % 2 == 0 { world.store() } else { &second }, "s");
        saves.push(tokio::spawn(async move {
            stream.save_offset("c", offset * 7 % 25).await
        }));
    }
    for save in saves {
        save.await.unwrap().unwrap();
    }
    assert_eq!(world.stream("s").get_offset("c").await.unwrap(), 24);
}

pub async fn cs_08_trimming_keeps_offsets(world: World) {
    let stream = world.stream("s");
    world.stream("t").publish("other").await.unwrap();
    let batch = (1..=6).map(|n: i32| event(n.to_string())).collect();
    stream.publish_batch(batch).await.unwrap();
    stream.save_offset("c", 1).await.unwrap();
    for (horizon, deleted) in [(i64::MIN, 0), (0, 0), (-1, 0), (3, 3), (3, 0), (1, 0), (4, 1)] {
        assert_eq!(stream.trim_to(horizon).await.unwrap(), deleted, "to {horizon}");
    }
    let rest = [(5, "5".to_owned()), (6, "6".to_owned())];
    assert_eq!(texts(&events(&stream).await), rest);
    // A saved offset below the horizon stays, and the next read begins at the first survivor.
    assert_eq!(stream.get_offset("c").await.unwrap(), 1);
    assert_eq!(texts(&stream.read_from_consumer("c", 9).await.unwrap()), rest);
    assert_eq!(events(&world.stream("t")).await.len(), 1);
    assert_eq!(world.stream("unknown").trim_to(9).await.unwrap(), 0);
}
