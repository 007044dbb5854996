//! Wakes on Postgres: told after the commit, heard by a connection that may be lost, polled for behind a pooler.

use std::time::Duration;

use esker_coord_api::{EnqueueOptions, Error, QueueOptions, Store};
use esker_coord_postgres::{Options, PostgresEngine, WakeMode};

use crate::support::{Database, Pooler, Server, engine};

/// Longer than any test: what comes, comes by a wake.
pub(crate) const NEVER: Duration = Duration::from_hours(1);

pub(crate) fn only_wakes() -> Options {
    Options {
        safety_interval: NEVER,
        poll_interval: NEVER,
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_05_a_commit_wakes_other_processes() {
    let database = Database::new();
    let (one, other) = (
        database.open_with(only_wakes()).await,
        database.open_with(only_wakes()).await,
    );
    let mut follower = other
        .stream("orders")
        .unwrap()
        .subscribe("follower")
        .await
        .unwrap();
    let queue = other.queue("mails", QueueOptions::default()).unwrap();
    let mut waiting = queue.listen().await.unwrap();

    let mut transaction = one.begin().await.unwrap();
    transaction.publish("orders", "first").await.unwrap();
    transaction.enqueue("mails", "welcome").await.unwrap();
    assert!(waiting.try_recv().unwrap().is_none());
    transaction.commit().await.unwrap();
    assert_eq!(follower.recv().await.unwrap().unwrap().offset, 1);
    assert!(waiting.recv().await.is_some());
    assert!(queue.claim_one("w").await.unwrap().is_some());
    assert_eq!(engine(&other).stats().lost_wakes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_05_no_commit_waits_for_its_turn_to_notify() {
    let server = Server::start();
    let database = Database::on(&server.admin());
    let (client, notifier) = (database.client().await, database.client().await);
    // Who asks for it waits for a standby that is not there, with all that its commit holds.
    for set in [
        "ALTER SYSTEM SET synchronous_commit = local",
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        "SELECT pg_reload_conf()",
    ] {
        client.batch_execute(set).await.unwrap();
    }
    let local = "SHOW synchronous_commit";
    let fresh = async || database.client().await.query_one(local, &[]).await.unwrap();
    while fresh().await.get::<_, String>(0) != "local" {
        tokio::task::yield_now().await;
    }
    let store = database.open_with(only_wakes()).await;
    let (stream, queue) = (
        store.stream("orders").unwrap(),
        store.queue("mails", QueueOptions::default()).unwrap(),
    );
    tokio::spawn(async move {
        notifier
            .batch_execute("SET synchronous_commit = on")
            .await
            .unwrap();
        // It waits as soon as the server has taken notice.
        while notifier.batch_execute("NOTIFY elsewhere").await.is_ok() {}
    });
    let waits = "SELECT 1 FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE a.wait_event = 'SyncRep' \
        AND l.classid = 'pg_database'::regclass AND l.objid = 0 AND l.mode = 'AccessExclusiveLock' AND l.granted";
    while client.query(waits, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }

    for reads in [false, true] {
        let mut transaction = store.begin().await.unwrap();
        transaction.publish("orders", "event").await.unwrap();
        transaction.enqueue("mails", "job").await.unwrap();
        if reads {
            assert_eq!(transaction.read_since("orders", 1, 9).await.unwrap().len(), 1);
        }
        transaction.commit().await.unwrap();
    }
    assert_eq!(stream.publish("event").await.unwrap(), 3);
    queue.enqueue("job").await.unwrap();
    for job in queue.claim_batch("worker", 3).await.unwrap() {
        assert!(job.heartbeat(60).await.unwrap() && job.retry(None, Some(0)).await.unwrap());
    }
    let every = EnqueueOptions::default();
    store
        .schedule("hourly", "@every 1h", "mails", "job", every)
        .await
        .unwrap();
    let lock = store.try_lock("lock", "owner", 60).await.unwrap().unwrap();
    assert!(lock.release().await.unwrap());
    assert!(!client.query(waits, &[]).await.unwrap().is_empty());
    server.stop("immediate");
}

#[tokio::test(flavor = "multi_thread")]
async fn cq_07_a_heartbeat_wakes_who_waits_only_when_the_claim_lapses_sooner() {
    let database = Database::new();
    let store = database.open_with(only_wakes()).await;
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    queue.enqueue("job").await.unwrap();
    let claimed = queue.claim_one("worker").await.unwrap().unwrap();
    let mut waiting = queue.listen().await.unwrap();
    // In one process who waits is woken before the call returns.
    for (extend, wakes) in [
        (1000, false),
        (1000, false),
        (2000, false),
        (100, true),
        (300, false),
    ] {
        assert!(claimed.heartbeat(extend).await.unwrap());
        assert_eq!(waiting.try_recv().unwrap().is_some(), wakes, "{extend}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_05_a_rollback_wakes_nobody() {
    let database = Database::new();
    let store = database.open_with(only_wakes()).await;
    let mut wakes = store.stream("orders").unwrap().listen().await.unwrap();
    let mut news = store.listen("news").await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    transaction.publish("orders", "ghost").await.unwrap();
    transaction.notify("news", "ghost").await.unwrap();
    drop(transaction);
    // Whatever the ghost had sent would have come before this.
    store.notify("news", "real").await.unwrap();
    assert!(news.recv().await.is_some());
    assert!(news.try_recv().unwrap().is_none());
    assert!(wakes.try_recv().unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_06_in_one_process_a_wake_follows_without_notifications() {
    let (database, elsewhere) = (Database::new(), Database::new());
    // Notifications do not cross databases, so that this store hears none.
    let deaf = Options {
        listener_url: Some(elsewhere.url()),
        probe_timeout: Duration::from_millis(1),
        ..only_wakes()
    };
    let store = database.open_with(deaf).await;
    assert_eq!(engine(&store).wake_mode(), WakeMode::Polling);
    let stream = store.stream("orders").unwrap();
    let mut follower = stream.subscribe("follower").await.unwrap();
    let mut queue = store
        .queue("mails", QueueOptions::default())
        .unwrap()
        .listen()
        .await
        .unwrap();
    let mut news = store.listen("news").await.unwrap();
    let receiving = tokio::spawn(async move { follower.recv().await });
    stream.publish("first").await.unwrap();
    assert_eq!(receiving.await.unwrap().unwrap().unwrap().offset, 1);
    store
        .queue("mails", QueueOptions::default())
        .unwrap()
        .enqueue("welcome")
        .await
        .unwrap();
    assert!(queue.recv().await.is_some());
    store.notify("news", "heard").await.unwrap();
    assert!(news.recv().await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_05_a_wake_that_was_lost_costs_latency_and_is_counted() {
    let database = Database::new();
    let options = Options {
        safety_interval: Duration::from_millis(20),
        ..Options::default()
    };
    let store = database.open_settled(options).await;
    let mut follower = store
        .stream("orders")
        .unwrap()
        .subscribe("follower")
        .await
        .unwrap();
    let client = database.client().await;
    let before = engine(&store).stats();
    let receiving = tokio::spawn(async move { follower.recv().await });
    // It has read, found nothing, waited and begins to read again: whatever it finds from now on, no wake told of.
    while engine(&store).stats().statements < before.statements + 2 {
        tokio::task::yield_now().await;
    }
    // As if the publisher had crashed between its commit and its wakes.
    let silent = "SELECT esker.publish(NULL, ARRAY['orders'], ARRAY[1], ARRAY[1], ARRAY[1], ARRAY[NULL], ARRAY['p'::bytea])";
    client.batch_execute(silent).await.unwrap();
    assert_eq!(receiving.await.unwrap().unwrap().unwrap().offset, 1);
    assert_eq!(engine(&store).stats().lost_wakes - before.lost_wakes, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_03_after_the_listening_connection_was_cut_everybody_reads_again_and_hears_again() {
    let database = Database::new();
    let (one, other) = (
        database.open_with(only_wakes()).await,
        database.open_with(only_wakes()).await,
    );
    let mut follower = other
        .stream("orders")
        .unwrap()
        .subscribe("follower")
        .await
        .unwrap();
    let mut news = other.listen("news").await.unwrap();
    for round in 1..=3 {
        // What is published here, or while nobody listens, is found by reading again.
        database.cut_connections().await;
        let stream = one.stream("orders").unwrap();
        let published = loop {
            match stream.publish("event").await {
                Ok(offset) => break offset,
                // The pool learns of its dead connections one by one.
                Err(Error::Database { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        while follower.recv().await.unwrap().unwrap().offset < published {}
        assert_eq!(
            news.recv().await.unwrap().channel,
            "__alkstore_listener_reconnected__"
        );
        while engine(&other).wake_mode() != WakeMode::Listening
            || engine(&one).wake_mode() != WakeMode::Listening
        {
            tokio::task::yield_now().await;
        }
        assert!(engine(&other).stats().reconnects >= round);
        while news.try_recv().unwrap().is_some() {}
        one.notify("news", "heard again").await.unwrap();
        assert_eq!(news.recv().await.unwrap().channel, "news");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_03_closing_ends_who_listens() {
    let database = Database::new();
    let store = database.open().await;
    let mut news = store.listen("news").await.unwrap();
    let mut follower = store
        .stream("orders")
        .unwrap()
        .subscribe("follower")
        .await
        .unwrap();
    store.close().await;
    assert_eq!(news.recv().await, None);
    assert!(follower.recv().await.is_none());
    assert!(matches!(store.listen("news").await, Err(Error::Closed)));
    // Its sessions end with it; the last one is the test's own.
    let client = database.client().await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    while client.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_01_channels_that_nobody_hears_any_more_are_forgotten() {
    let database = Database::new();
    let options = Options {
        heartbeat: Duration::from_millis(10),
        ..only_wakes()
    };
    let store = database.open_with(options).await;
    let kept = store.listen("kept").await.unwrap();
    for number in 0..20 {
        drop(store.listen(&format!("gone {number}")).await.unwrap());
    }
    while engine(&store).stats().channels > 1 {
        tokio::task::yield_now().await;
    }
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn cw_08_behind_a_pooler_the_store_says_that_it_polls_and_all_works() {
    let database = Database::new();
    let pooler = Pooler::start(&database).await;
    let polling = Options {
        poll_interval: Duration::from_millis(20),
        probe_timeout: Duration::from_millis(200),
        safety_interval: NEVER,
        ..Options::default()
    };
    let one = Store::new(
        PostgresEngine::open(&pooler.url(), polling.clone())
            .await
            .unwrap(),
    );
    let other = Store::new(
        PostgresEngine::open(&pooler.url(), polling.clone())
            .await
            .unwrap(),
    );
    assert_eq!(engine(&one).wake_mode(), WakeMode::Polling);
    let mut follower = other
        .stream("orders")
        .unwrap()
        .subscribe("follower")
        .await
        .unwrap();
    assert_eq!(one.stream("orders").unwrap().publish("first").await.unwrap(), 1);
    assert_eq!(follower.recv().await.unwrap().unwrap().offset, 1);
    assert!(engine(&other).stats().polls > 0);
    everything(&one, &other).await;

    // The listener has a way around the pooler, and hears again.
    let around = Options {
        listener_url: Some(database.url()),
        ..only_wakes()
    };
    let direct = Store::new(PostgresEngine::open(&pooler.url(), around).await.unwrap());
    assert_eq!(engine(&direct).wake_mode(), WakeMode::Listening);
    let mut news = direct.listen("news").await.unwrap();
    one.notify("news", "heard").await.unwrap();
    assert_eq!(news.recv().await.unwrap().channel, "news");
}

/// A bit of everything, through connections that change under it.
async fn everything(one: &Store, other: &Store) {
    let queue = one.queue("jobs", QueueOptions::default()).unwrap();
    for number in 0..20 {
        queue.enqueue(format!("{number}")).await.unwrap();
    }
    let elsewhere = other.queue("jobs", QueueOptions::default()).unwrap();
    let claimed = elsewhere.claim_batch("w", 15).await.unwrap();
    assert_eq!(elsewhere.ack_batch(&claimed).await.unwrap(), 15);
    let transactions = (0..12).map(|number| async move {
        let store = if number % 2 == 0 { one } else { other };
        let mut transaction = store.begin().await?;
        transaction.publish("pooled", "event").await?;
        transaction.enqueue("jobs", "job").await?;
        transaction.save_offset("pooled", "c", number).await?;
        transaction.commit().await
    });
    for committed in futures_util::future::join_all(transactions).await {
        committed.unwrap();
    }
    assert_eq!(
        one.stream("pooled")
            .unwrap()
            .read_since(0, 99)
            .await
            .unwrap()
            .len(),
        12
    );
    assert_eq!(other.stream("pooled").unwrap().get_offset("c").await.unwrap(), 11);
    let lock = one.try_lock("leader", "one", 60).await.unwrap().unwrap();
    assert!(other.try_lock("leader", "other", 60).await.unwrap().is_none());
    assert!(lock.renew(60).await.unwrap() && lock.release().await.unwrap());
    let inspection = one.inspect().await.unwrap();
    assert_eq!(inspection.queues[0].ready, 17);
}
