//! Streams on Postgres: commit order is offset order, and appends share commits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use esker_coord_api::{Error, Outcome, Store};
use esker_coord_postgres::Options;
use futures_util::future::join_all;
use tokio::sync::Barrier;

use crate::support::{Database, engine};

const PUBLISHERS: u64 = 16;
const EACH: u64 = 40;
const READERS: usize = 8;

/// A number that looks random, the same in every run.
fn mix(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// What a publisher does, one after the other: alone, in a transaction that dawdles, in one that is dropped, and in one
/// that reads its own stream and so has its offsets early.
async fn publish(store: Store, publisher: u64) -> u64 {
    let stream = store.stream("fire").unwrap();
    let mut committed = 0;
    for number in 0..EACH {
        let payload = format!("{publisher}/{number}");
        let chance = mix(publisher * 1000 + number);
        let dawdle = Duration::from_micros(chance % 3000);
        match chance % 4 {
            0 => {
                stream.publish(payload).await.unwrap();
                committed += 1;
            }
            kind => {
                let mut transaction = store.begin().await.unwrap();
                transaction.publish("fire", payload).await.unwrap();
                if kind == 3 {
                    let read = transaction.read_since("fire", 0, 1).await.unwrap();
                    assert_eq!(read.len(), 1);
                }
                tokio::time::sleep(dawdle).await;
                if chance.is_multiple_of(5) {
                    drop(transaction);
                } else {
                    transaction.commit().await.unwrap();
                    committed += 1;
                }
            }
        }
    }
    committed
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_04_every_reader_sees_each_committed_event_once_in_offset_order() {
    let database = Database::new();
    let stores = [database.open().await, database.open().await];
    // A transaction elsewhere in the database that has written and does nothing more.
    let idle = database.client().await;
    idle.batch_execute("CREATE TABLE elsewhere (n int); BEGIN; INSERT INTO elsewhere VALUES (1)")
        .await
        .unwrap();

    let begin = Arc::new(Barrier::new(READERS + usize::try_from(PUBLISHERS).unwrap()));
    let end = "end".to_owned();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (store, begin, end) = (stores[reader % 2].clone(), begin.clone(), end.clone());
            tokio::spawn(async move {
                let mut events = store
                    .stream("fire")
                    .unwrap()
                    .subscribe(&format!("reader {reader}"))
                    .await
                    .unwrap();
                begin.wait().await;
                let (mut seen, mut last) = (Vec::new(), 0);
                loop {
                    let event = events.recv().await.unwrap().unwrap();
                    assert_eq!(
                        event.offset,
                        last + 1,
                        "an event was skipped, repeated or out of order"
                    );
                    last = event.offset;
                    let payload = String::from_utf8(event.payload.as_bytes().to_vec()).unwrap();
                    if payload == end {
                        return seen;
                    }
                    seen.push(payload);
                }
            })
        })
        .collect();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let (store, begin) = (
                stores[usize::try_from(publisher % 2).unwrap()].clone(),
                begin.clone(),
            );
            tokio::spawn(async move {
                begin.wait().await;
                publish(store, publisher).await
            })
        })
        .collect();
    let mut committed = 0;
    for publisher in publishers {
        committed += publisher.await.unwrap();
    }
    stores[0].stream("fire").unwrap().publish(end).await.unwrap();
    for reader in readers {
        let seen = reader.await.unwrap();
        assert_eq!(seen.len() as u64, committed);
        // Each publisher's own order is kept, too.
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        for payload in &seen {
            let (publisher, number) = payload.split_once('/').unwrap();
            let number = number.parse().unwrap();
            assert!(
                newest
                    .insert(publisher, number)
                    .is_none_or(|earlier| earlier < number)
            );
        }
    }
    for store in &stores {
        assert_eq!(engine(store).stats().reconnects, 0);
    }
    idle.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_04_a_transaction_that_is_held_keeps_no_publisher_waiting() {
    let database = Database::new();
    let store = database.open().await;
    let (a, b) = (store.stream("a").unwrap(), store.stream("b").unwrap());
    let mut held = store.begin().await.unwrap();
    held.publish("a", "late").await.unwrap();
    held.publish("b", "late").await.unwrap();
    let mut other = store.begin().await.unwrap();
    other.publish("b", "early").await.unwrap();
    other.publish("a", "early").await.unwrap();
    assert_eq!(a.publish("first").await.unwrap(), 1);
    other.commit().await.unwrap();
    held.commit().await.unwrap();
    for (stream, expected) in [(a, &["first", "early", "late"][..]), (b, &["early", "late"][..])] {
        let events = stream.read_since(0, 10).await.unwrap();
        let payloads: Vec<_> = events.iter().map(|event| event.payload.as_bytes()).collect();
        assert_eq!(
            payloads,
            expected.iter().map(|text| text.as_bytes()).collect::<Vec<_>>()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_04_transactions_on_the_same_streams_in_another_order_do_not_lock_each_other_out() {
    let database = Database::new();
    let store = database.open().await;
    let transactions = (0..24).map(|number| {
        let store = store.clone();
        async move {
            let mut transaction = store.begin().await?;
            let streams = if number % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            for stream in streams {
                transaction.publish(stream, "event").await?;
            }
            transaction.commit().await
        }
    });
    for committed in join_all(transactions).await {
        committed.unwrap();
    }
    assert_eq!(
        store.stream("a").unwrap().read_since(23, 10).await.unwrap().len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_01_publishes_that_wait_together_share_a_commit() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let stream = store.stream("shared").unwrap();
    stream.publish("makes the counter").await.unwrap();
    let before = engine(&store).stats();

    let client = database.client().await;
    client
        .batch_execute("BEGIN; SELECT * FROM esker.streams WHERE name = 'shared' FOR UPDATE")
        .await
        .unwrap();
    let mut publishes = Box::pin(join_all((0..64).map(|_| stream.publish("one of many"))));
    // All have asked, and none can be answered.
    assert!(futures_util::poll!(&mut publishes).is_pending());
    client.batch_execute("COMMIT").await.unwrap();
    let mut offsets: Vec<i64> = publishes.await.into_iter().map(Result::unwrap).collect();

    let after = engine(&store).stats();
    let batches = after.batches - before.batches;
    assert!(batches <= 4, "64 publishes took {batches} commits");
    // One of them may still be of the first.
    assert!(after.notifications - before.notifications <= batches + 1);
    offsets.sort_unstable();
    assert_eq!(offsets, (2..=65).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_01_what_cannot_be_published_does_not_fail_what_shares_its_commit() {
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let (full, other) = (store.stream("full").unwrap(), store.stream("other").unwrap());
    full.publish("first").await.unwrap();
    let client = database.client().await;
    client
        .batch_execute(
            "UPDATE esker.streams SET last_offset = 9223372036854775807; INSERT INTO esker.streams VALUES ('held', 0); \
             BEGIN; SELECT * FROM esker.streams WHERE name = 'held' FOR UPDATE",
        )
        .await
        .unwrap();
    // Two that wait keep the slots taken, so that the next two go together. Within one transaction, the server shows the
    // connections that there were when it was first asked.
    let observer = database.client().await;
    let locked =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let mut waiting = Vec::new();
    for number in 1..=2 {
        let stream = store.stream("held").unwrap();
        waiting.push(tokio::spawn(async move { stream.publish("waits").await }));
        while observer.query(locked, &[]).await.unwrap().len() < number {
            tokio::task::yield_now().await;
        }
    }
    let before = engine(&store).stats().batches;
    let mut both = Box::pin(futures_util::future::join(
        full.publish("no room"),
        other.publish("room"),
    ));
    assert!(futures_util::poll!(&mut both).is_pending());
    client.batch_execute("COMMIT").await.unwrap();
    let (refused, published) = both.await;
    assert_eq!(engine(&store).stats().batches - before, 1, "they went together");
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Database {
                outcome: Outcome::Aborted,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(refused.report().contains("22003"), "{refused}");
    assert_eq!(published.unwrap(), 1);
    for waited in waiting {
        waited.await.unwrap().unwrap();
    }
}
