//! The listening connection: what it hears, and that its quiet death is noticed.

use std::time::Duration;

use esker_coord_api::{RECONNECTED, Store, WakeReceiver};
use esker_coord_postgres::{Error, Options, PostgresEngine};
use esker_testing::wire::Wire;

use crate::{
    support::{Database, engine},
    wakes::only_wakes,
};

#[tokio::test(flavor = "multi_thread")]
async fn cw_01_a_notification_is_heard_whatever_its_payload() {
    let database = Database::new();
    let stores = [
        database.open_with(only_wakes()).await,
        database.open_with(only_wakes()).await,
    ];
    // By which the stores know what they sent themselves.
    let numbers = [engine(&stores[0]).number(), engine(&stores[1]).number()];
    assert_ne!(numbers[0], numbers[1]);
    for hears in &stores {
        let mut news = hears.listen("news").await.unwrap();
        let mut end = hears.listen("end").await.unwrap();
        for sends in &stores {
            for payload in numbers {
                sends.notify("news", payload).await.unwrap();
                sends.notify("end", "end").await.unwrap();
                assert!(end.recv().await.is_some());
                assert!(news.try_recv().unwrap().is_some(), "{payload} was not heard");
            }
        }
    }
}

/// Hears by way of the wire, and does all else without.
fn by(wire: &Wire, heartbeat: Duration) -> Options {
    Options {
        listener_url: Some(wire.url().to_owned()),
        heartbeat,
        ..only_wakes()
    }
}

/// Whether a notification arrives, however often the connection is lost under it.
async fn is_heard(store: &Store, news: &mut WakeReceiver) {
    loop {
        store.notify("news", "heard").await.unwrap();
        // If it was lost, everybody is woken after it.
        if news.recv().await.unwrap().channel == "news" {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_08_a_listening_connection_that_died_quietly_is_noticed() {
    let database = Database::new();
    let wire = Wire::to(&database.url());
    let store = database.open_with(by(&wire, Duration::from_millis(300))).await;
    let mut news = store.listen("news").await.unwrap();
    wire.stall();
    wire.mend();
    while news.recv().await.unwrap().channel != RECONNECTED {}
    is_heard(&store, &mut news).await;
    assert!(engine(&store).stats().reconnects > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_08_a_channel_that_a_connection_died_under_is_listened_to_by_the_next() {
    let database = Database::new();
    let wire = Wire::to(&database.url());
    let store = database.open_with(by(&wire, Duration::from_secs(1))).await;
    wire.stall();
    wire.mend();
    // Before the heartbeat, most likely: then nothing answers the LISTEN.
    let mut news = store.listen("news").await.unwrap();
    is_heard(&store, &mut news).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_08_a_listening_connection_that_hangs_while_it_is_made_is_given_up() {
    let database = Database::new();
    let wire = Wire::to(&database.url());
    let options = Options {
        operation_timeout: Duration::from_secs(2),
        ..by(&wire, Duration::from_millis(300))
    };
    let store = database.open_with(options).await;
    let mut news = store.listen("news").await.unwrap();
    wire.stall();
    while wire.made_while_stalled() == 0 {
        tokio::task::yield_now().await;
    }
    // Who wishes to listen meanwhile will be woken.
    drop(store.listen("more").await.unwrap());
    wire.mend();
    while news.recv().await.unwrap().channel != RECONNECTED {}
    is_heard(&store, &mut news).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_08_opening_gives_up_where_nothing_answers() {
    let database = Database::new();
    database.open().await.close().await;
    let wire = Wire::to(&database.url());
    wire.stall();
    let deaf = Options {
        operation_timeout: Duration::from_secs(2),
        ..by(&wire, Duration::from_secs(1))
    };
    let refused = PostgresEngine::open(&database.url(), deaf).await.err().unwrap();
    assert!(matches!(refused, Error::Timeout { .. }), "{refused:?}");
    assert_eq!(wire.made_while_stalled(), 1, "the listening connection was tried");

    // Another process makes the schema, and does not come to an end.
    let client = database.client().await;
    let hold = "BEGIN; SELECT pg_advisory_xact_lock(x'45534b52'::int, hashtext('held'))";
    client.batch_execute(hold).await.unwrap();
    let waits_for_it = Options {
        schema: "held".to_owned(),
        operation_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    let refused = PostgresEngine::open(&database.url(), waits_for_it)
        .await
        .err()
        .unwrap();
    assert!(matches!(refused, Error::Timeout { .. }), "{refused:?}");
    // What waited is cancelled.
    let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while !client.query(waits, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}
