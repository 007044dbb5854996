//! CS-04: every committed event is readable by every consumer that has not passed its offset.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use esker_coord_api::{Store, Stream, StreamEvent};
use esker_testing::random::Random;
use tokio::sync::Barrier;

use crate::{
    World,
    world::{event, events, stream, texts},
};

const PUBLISHERS: usize = 16;
const READERS: usize = 8;
/// What each publisher does, one after the other.
const ROUNDS: usize = 12;

/// Publishes in every way, delays commits and rolls back; gives what it committed, in its order.
async fn publisher(store: Store, number: usize, committed: Arc<AtomicI64>) -> Vec<String> {
    let random = &mut Random::new(number as u64);
    let stream = stream(&store, "s");
    let mut mine = Vec::new();
    for round in 0..ROUNDS {
        let texts: Vec<_> = (0..=random.below(3))
            .map(|n| format!("{number}/{round}/{n}"))
            .collect();
        match random.below(4) {
            0 => {
                stream.publish(texts[0].clone()).await.unwrap();
                committed.fetch_add(1, Ordering::SeqCst);
                mine.push(texts[0].clone());
                continue;
            }
            1 => {
                let batch = texts.iter().cloned().map(event).collect();
                let offsets = stream.publish_batch(batch).await.unwrap();
                // One batch has no other's events between its own.
                assert!(offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            }
            way => {
                let mut transaction = store.begin().await.unwrap();
                for text in &texts {
                    transaction.publish("s", text.clone()).await.unwrap();
                    for _ in 0..random.below(6) {
                        tokio::task::yield_now().await;
                    }
                }
                if way == 3 && random.once_in(2) {
                    continue;
                }
                transaction.commit().await.unwrap();
            }
        }
        committed.fetch_add(i64::try_from(texts.len()).unwrap(), Ordering::SeqCst);
        mine.extend(texts);
    }
    mine
}

/// Offsets come one after the other, none twice and none missing.
struct Reader {
    read: Vec<StreamEvent>,
}

impl Reader {
    fn take(&mut self, event: StreamEvent) {
        assert_eq!(event.offset, self.last() + 1);
        self.read.push(event);
    }

    fn last(&self) -> i64 {
        self.read.last().map_or(0, |event| event.offset)
    }
}

/// Reads to the end of what was committed, by `done`, from a cursor of its own.
async fn polls(stream: Stream, limit: i64, done: impl Fn(i64) -> bool) -> Reader {
    let mut reader = Reader { read: Vec::new() };
    while !done(reader.last()) {
        for event in stream.read_since(reader.last(), limit).await.unwrap() {
            reader.take(event);
        }
        tokio::task::yield_now().await;
    }
    reader
}

/// The same, as a subscriber.
async fn follows(
    stream: Stream,
    consumer: String,
    total: tokio::sync::watch::Receiver<Option<i64>>,
) -> Reader {
    let mut reader = Reader { read: Vec::new() };
    let mut receiver = stream.subscribe(&consumer).await.unwrap();
    let mut total = total;
    while total.borrow().is_none_or(|total| reader.last() < total) {
        tokio::select! {
            event = receiver.recv() => reader.take(event.expect("the store lives").unwrap()),
            changed = total.changed() => changed.expect("the test lives"),
        }
    }
    reader
}

pub async fn cs_04_every_reader_sees_each_committed_event_once_in_order(world: World) {
    let stores = [world.store().clone(), world.second().await];
    let committed = Arc::new(AtomicI64::new(0));
    let (finished, total) = tokio::sync::watch::channel(None);
    let mut readers = Vec::new();
    for n in 0..READERS {
        let stream = stream(&stores[n % 2], "s");
        if n < READERS / 2 {
            let total = total.clone();
            let done = move |last| total.borrow().is_some_and(|total| last >= total);
            let limit = [1, 3, 100, i64::MAX][n];
            readers.push(tokio::spawn(polls(stream, limit, done)));
        } else {
            readers.push(tokio::spawn(follows(stream, format!("c{n}"), total.clone())));
        }
    }
    let mut publishers = Vec::new();
    for number in 0..PUBLISHERS {
        let store = stores[number % 2].clone();
        publishers.push(tokio::spawn(publisher(store, number, committed.clone())));
    }
    let mut expected = BTreeMap::new();
    for (number, publisher) in publishers.into_iter().enumerate() {
        expected.insert(number.to_string(), publisher.await.unwrap());
    }
    finished.send_replace(Some(committed.load(Ordering::SeqCst)));
    for reader in readers {
        let read = reader.await.unwrap().read;
        // Exactly what was committed, each publisher's in its order.
        let mut seen: BTreeMap<_, Vec<_>> = expected.keys().map(|key| (key.clone(), Vec::new())).collect();
        for (_, text) in texts(&read) {
            let (number, _) = text.split_once('/').expect("a publisher's text");
            seen.get_mut(number).expect("a publisher").push(text);
        }
        assert_eq!(seen, expected);
    }
}

pub async fn cs_04_a_late_commit_is_not_lost_to_who_reads_ahead(world: World) {
    let second = world.second().await;
    let reader = stream(&second, "s");
    let mut late = world.store().begin().await.unwrap();
    late.publish("s", "late 1").await.unwrap();
    late.publish("s", "late 2").await.unwrap();
    let mut early = vec!["early 1", "early 2", "early 3"];
    let other = stream(&second, "s");
    let early = tokio::spawn(async move {
        for text in early.drain(..) {
            other.publish(text).await.unwrap();
        }
    });
    let mut read = Vec::new();
    if world.writers_wait() {
        assert!(events(&reader).await.is_empty());
        late.commit().await.unwrap();
        early.await.unwrap();
    } else {
        early.await.unwrap();
        read = reader.read_since(0, 9).await.unwrap();
        assert_eq!(read.len(), 3);
        late.commit().await.unwrap();
    }
    // Where it was read before, what was committed later stands above.
    let after = read.last().map_or(0, |event| event.offset);
    read.extend(reader.read_since(after, 9).await.unwrap());
    let offsets: Vec<_> = read.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, [1, 2, 3, 4, 5]);
    assert_eq!(read, events(&world.stream("s")).await);
}

pub async fn cs_04_a_rolled_back_publisher_holds_nobody_up(world: World) {
    let mut receiver = world.stream("s").subscribe("c").await.unwrap();
    for expected in 1..=5 {
        let mut gone = world.store().begin().await.unwrap();
        gone.publish("s", "ghost").await.unwrap();
        if !world.writers_wait() {
            world.stream("s").publish(expected.to_string()).await.unwrap();
        }
        drop(gone);
        if world.writers_wait() {
            world.stream("s").publish(expected.to_string()).await.unwrap();
        }
        let event = receiver.recv().await.expect("the store lives").unwrap();
        assert_eq!(
            (event.offset, event.payload),
            (expected, expected.to_string().into())
        );
    }
}

pub async fn cs_04_transactions_over_several_streams_commit_in_any_order(world: World) {
    const STREAMS: [&str; 3] = ["a", "b", "c"];
    let stores = [world.store().clone(), world.second().await];
    for _ in 0..5 {
        let barrier = Arc::new(Barrier::new(6));
        let mut tasks = Vec::new();
        for (n, store) in stores.iter().cycle().take(6).cloned().enumerate() {
            let barrier = barrier.clone();
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                let mut transaction = store.begin().await.unwrap();
                for step in 0..3 {
                    // Each task names them in another order.
                    let stream = STREAMS[if n % 2 == 0 {
                        (n + step) % 3
                    } else {
                        (n + 3 - step) % 3
                    }];
                    transaction.publish(stream, n.to_string()).await.unwrap();
                    tokio::task::yield_now().await;
                }
                transaction.commit().await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
    for name in STREAMS {
        let offsets: Vec<_> = events(&world.stream(name))
            .await
            .iter()
            .map(|event| event.offset)
            .collect();
        assert_eq!(offsets, (1..=30).collect::<Vec<_>>());
    }
}
