//! Servers that stop, wires that are cut, answers that are lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use esker_coord_api::{Error, Outcome, QueueOptions, RECONNECTED, Store};
use esker_coord_postgres::{Options, PostgresEngine, PostgresTransaction};
use esker_testing::wire::Wire;
use tokio::runtime::Runtime;

use crate::support::{Database, Server, engine};

/// Publishes until told to stop, and gives what was acknowledged and what may have been done.
async fn publish(store: Store, stop: Arc<AtomicBool>, publisher: usize) -> (Vec<String>, BTreeSet<String>) {
    let stream = store.stream("load").unwrap();
    let (mut sure, mut unsure) = (Vec::new(), BTreeSet::new());
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let payload = format!("{publisher}/{number}");
        match stream.publish(payload.clone()).await {
            Ok(_) => sure.push(payload),
            Err(error) if error.outcome() == Outcome::Unknown => drop(unsure.insert(payload)),
            // The server is away; asking it all the time would keep it from coming back.
            Err(Error::Database { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
    (sure, unsure)
}

#[tokio::test(flavor = "multi_thread")]
async fn cs_04_a_server_that_stops_and_crashes_under_load_loses_no_event_and_waiters_wake() {
    let server = Server::start();
    let database = Database::on(&server.admin());
    let options = || Options {
        pool_size: 4,
        ..Options::default()
    };
    let (one, other) = (
        database.open_with(options()).await,
        database.open_with(options()).await,
    );
    let stop = Arc::new(AtomicBool::new(false));
    let publishers: Vec<_> = (0..6)
        .map(|publisher| tokio::spawn(publish(one.clone(), stop.clone(), publisher)))
        .collect();
    let mut follower = other.stream("load").unwrap().subscribe("follower").await.unwrap();
    let mut wakes = other.listen("elsewhere").await.unwrap();
    let mut seen = Vec::new();
    for mode in ["fast", "immediate", "immediate"] {
        // Some events come through before each stop, and some after it.
        for _ in 0..50 {
            receive(&mut follower, &mut seen).await;
        }
        server.stop(mode);
        server.start_again();
    }
    for _ in 0..50 {
        receive(&mut follower, &mut seen).await;
    }
    stop.store(true, Ordering::SeqCst);
    let (mut sure, mut unsure) = (BTreeSet::new(), BTreeSet::new());
    for publisher in publishers {
        let (more, maybe) = publisher.await.unwrap();
        sure.extend(more);
        unsure.extend(maybe);
    }
    one.stream("load").unwrap().publish("end").await.unwrap();
    while receive(&mut follower, &mut seen).await != "end" {}
    let last = seen.pop();
    assert_eq!(last.as_deref(), Some("end"));
    let all: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(all.len(), seen.len(), "an event was seen twice");
    assert!(
        sure.is_subset(&all),
        "lost: {:?}",
        sure.difference(&all).collect::<Vec<_>>()
    );
    let known: BTreeSet<String> = sure.union(&unsure).cloned().collect();
    assert!(
        all.is_subset(&known),
        "nobody was told of {:?}",
        all.difference(&known).collect::<Vec<_>>()
    );
    // Events may have been read by their own connections before the listening one was back.
    assert_eq!(wakes.recv().await.unwrap().channel, RECONNECTED);
    assert!(engine(&other).stats().reconnects >= 1);
    one.close().await;
    other.close().await;
}

/// The next event, however often the server is away; each is the one after the last.
async fn receive(follower: &mut esker_coord_api::EventReceiver, seen: &mut Vec<String>) -> String {
    loop {
        let last = follower.offset();
        match follower.recv().await.expect("the store is open") {
            Ok(event) => {
                assert_eq!(event.offset, last + 1);
                let payload = String::from_utf8(event.payload.as_bytes().to_vec()).unwrap();
                seen.push(payload.clone());
                return payload;
            }
            Err(Error::Database { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn through(wire: &Wire, database: &Database) -> Store {
    let options = Options {
        listener_url: Some(database.url()),
        ..Options::default()
    };
    Store::new(PostgresEngine::open(wire.url(), options).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_07_a_commit_that_lost_its_answer_may_have_been_done() {
    let database = Database::new();
    let wire = Wire::to(&database.url());
    let store = through(&wire, &database).await;
    let stream = store.stream("s").unwrap();
    stream.publish("sure").await.unwrap();

    wire.lose_next_answer();
    let error = stream.publish("unsure").await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database {
                outcome: Outcome::Unknown,
                ..
            }
        ),
        "{error:?}"
    );
    let mut transaction = store.begin().await.unwrap();
    transaction.publish("s", "unsure, too").await.unwrap();
    transaction.enqueue("q", "unsure, too").await.unwrap();
    wire.lose_next_answer();
    let error = transaction.commit().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database {
                outcome: Outcome::Unknown,
                ..
            }
        ),
        "{error:?}"
    );

    // And here it had been: once.
    let events = database
        .open()
        .await
        .stream("s")
        .unwrap()
        .read_since(0, 9)
        .await
        .unwrap();
    let payloads: Vec<_> = events.iter().map(|event| event.payload.as_bytes()).collect();
    assert_eq!(payloads, [&b"sure"[..], b"unsure", b"unsure, too"]);
    assert!(
        store
            .queue("q", QueueOptions::default())
            .unwrap()
            .claim_one("w")
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_07_what_was_lost_before_the_commit_was_undone() {
    let database = Database::new();
    let store = database.open().await;
    let mut transaction = store.begin().await.unwrap();
    transaction.enqueue("q", "undone").await.unwrap();
    database.cut_connections().await;
    let error = transaction.enqueue("q", "too late").await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database {
                outcome: Outcome::Aborted,
                ..
            }
        ),
        "{error:?}"
    );
    let error = transaction.commit().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database {
                outcome: Outcome::Aborted,
                ..
            }
        ),
        "{error:?}"
    );
    let queue = database.open().await.queue("q", QueueOptions::default()).unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_07_a_server_that_is_not_there_did_nothing() {
    let nowhere = "postgres://postgres@127.0.0.1:1/none";
    let error = PostgresEngine::open(nowhere, Options::default())
        .await
        .err()
        .unwrap();
    assert_eq!(error.outcome(), Outcome::Aborted);
    assert!(error.to_string().starts_with("connecting to Postgres"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_07_an_operation_out_of_time_is_cancelled_on_the_server() {
    let database = Database::new();
    let options = Options {
        operation_timeout: Duration::from_secs(2),
        ..Options::default()
    };
    let store = database.open_settled(options).await;
    let stream = store.stream("s").unwrap();
    stream.publish("first").await.unwrap();
    let client = database.client().await;
    client
        .batch_execute("BEGIN; SELECT * FROM esker.streams FOR UPDATE")
        .await
        .unwrap();
    let error = stream.publish("waits").await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    let waiting =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while !client.query(waiting, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        stream.publish("second").await.unwrap(),
        2,
        "what was cancelled left no gap"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ct_02_the_callers_own_writes_commit_with_their_side_effects() {
    let database = Database::new();
    let store = database.open().await;
    let client = database.client().await;
    client
        .batch_execute("CREATE TABLE orders (name text)")
        .await
        .unwrap();
    for commits in [false, true] {
        let mut transaction = store.begin().await.unwrap();
        let own = transaction.engine_mut::<PostgresTransaction>().unwrap();
        own.client()
            .unwrap()
            .batch_execute("INSERT INTO orders VALUES ('one')")
            .await
            .unwrap();
        transaction.publish("orders", "one").await.unwrap();
        assert_eq!(client.query("SELECT * FROM orders", &[]).await.unwrap().len(), 0);
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    assert_eq!(client.query("SELECT * FROM orders", &[]).await.unwrap().len(), 1);
    assert_eq!(
        store
            .stream("orders")
            .unwrap()
            .read_since(0, 9)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ct_02_a_transaction_in_which_something_failed_never_seems_to_commit() {
    let database = Database::new();
    let store = database.open().await;
    for publishes in [false, true] {
        let mut transaction = store.begin().await.unwrap();
        transaction.enqueue("q", "undone").await.unwrap();
        if publishes {
            transaction.publish("s", "undone").await.unwrap();
        }
        let own = transaction.engine_mut::<PostgresTransaction>().unwrap();
        // The caller overlooks it; Postgres answers the COMMIT that follows as if all were well.
        assert!(own.client().unwrap().batch_execute("SELECT 1 / 0").await.is_err());
        let error = transaction.commit().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Database {
                    outcome: Outcome::Aborted,
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(store.stream("s").unwrap().publish("first").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct_03_a_dropped_transaction_gives_its_connection_back_rolled_back() {
    let database = Database::new();
    let options = Options {
        pool_size: 2,
        ..Options::default()
    };
    let store = database.open_with(options).await;
    for _ in 0..20 {
        let mut transaction = store.begin().await.unwrap();
        transaction.save_offset("s", "c", 5).await.unwrap();
        drop(transaction);
    }
    assert_eq!(store.stream("s").unwrap().get_offset("c").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_10_what_was_submitted_is_done_though_nobody_waits_for_it() {
    let database = Database::new();
    let store = database.open().await;
    let stream = store.stream("s").unwrap();
    stream.publish("first").await.unwrap();
    let client = database.client().await;
    client
        .batch_execute("BEGIN; SELECT * FROM esker.streams FOR UPDATE")
        .await
        .unwrap();
    let mut publishing = Box::pin(stream.publish("second"));
    assert!(futures_util::poll!(&mut publishing).is_pending());
    drop(publishing);
    let mut transaction = store.begin().await.unwrap();
    transaction.publish("s", "third").await.unwrap();
    let mut committing = Box::pin(transaction.commit());
    assert!(futures_util::poll!(&mut committing).is_pending());
    drop(committing);
    client.batch_execute("COMMIT").await.unwrap();
    // Closing waits for what was submitted.
    store.close().await;
    let events = database
        .open()
        .await
        .stream("s")
        .unwrap()
        .read_since(0, 9)
        .await
        .unwrap();
    assert_eq!(events.len(), 3);
}

#[test]
fn cx_10_calls_on_a_store_whose_runtime_has_ended_fail_and_nothing_else() {
    let own = Runtime::new().unwrap();
    let database = Database::new();
    let store = own.block_on(database.open());
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    // Some wait for their batch when it ends.
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            own.spawn(async move { queue.enqueue("job").await })
        })
        .collect();
    own.shutdown_background();
    let other = Runtime::new().unwrap();
    other.block_on(async {
        for call in calls {
            let _ended_either_way = call.await;
        }
        for _ in 0..3 {
            assert!(queue.enqueue("job").await.is_err());
            assert!(queue.claim_one("worker").await.is_err());
        }
    });
}
