//! Wakes: in the process at once, from other handles by the watcher.

use std::time::Duration;

use esker_coord_api::RECONNECTED;
use esker_coord_sqlite::{Options, Settings, rusqlite::Connection};

use crate::support::{Fixture, engine, open, queue, stats};

/// A watcher that is only as good as what tells it.
fn told() -> Settings {
    Settings {
        database: Options {
            safety_poll: Duration::from_hours(1),
            ..Options::default()
        },
        ..Settings::default()
    }
}

#[tokio::test]
async fn cw_06_in_the_process_a_wake_is_there_when_the_call_returns() {
    let fx = Fixture::with(told());
    let mut channel = fx.store.listen("channel").await.unwrap();
    let mut jobs = fx.queue().listen().await.unwrap();
    let stream = fx.store.stream("events").unwrap();
    let mut events = stream.listen().await.unwrap();
    fx.store.notify("channel", "x").await.unwrap();
    assert_eq!(channel.try_recv().unwrap().unwrap().channel, "channel");
    assert_eq!(
        (jobs.try_recv().unwrap(), events.try_recv().unwrap()),
        (None, None)
    );
    fx.queue().enqueue("1").await.unwrap();
    assert!(jobs.try_recv().unwrap().is_some());
    stream.publish("x").await.unwrap();
    assert!(events.try_recv().unwrap().is_some());
    assert_eq!(
        (channel.try_recv().unwrap(), jobs.try_recv().unwrap()),
        (None, None)
    );
}

#[tokio::test]
async fn cw_06_another_handles_wake_reaches_its_channel_and_no_other() {
    let fx = Fixture::with(told());
    let mut channel = fx.store.listen("channel").await.unwrap();
    let mut other = fx.store.listen("other").await.unwrap();
    let mut jobs = fx.queue().listen().await.unwrap();
    let mut last = fx.store.listen("last").await.unwrap();
    let second = fx.second();
    for _ in 0..50 {
        second.notify("channel", "x").await.unwrap();
        channel.recv().await.unwrap();
        queue(&second).enqueue("1").await.unwrap();
        jobs.recv().await.unwrap();
    }
    second.notify("last", "x").await.unwrap();
    last.recv().await.unwrap();
    assert_eq!(other.try_recv().unwrap(), None);
}

#[tokio::test]
async fn cw_06_a_transaction_of_another_handle_wakes_after_its_commit_alone() {
    let fx = Fixture::with(told());
    let mut channel = fx.store.listen("channel").await.unwrap();
    let mut last = fx.store.listen("last").await.unwrap();
    let second = fx.second();
    let mut dropped = second.begin().await.unwrap();
    dropped.notify("channel", "x").await.unwrap();
    drop(dropped);
    let mut kept = second.begin().await.unwrap();
    kept.notify("last", "x").await.unwrap();
    assert_eq!(last.try_recv().unwrap(), None);
    kept.commit().await.unwrap();
    last.recv().await.unwrap();
    assert_eq!(channel.try_recv().unwrap(), None);
}

#[tokio::test]
async fn cw_03_who_missed_wakes_is_told_to_read_again() {
    let fx = Fixture::with(told());
    let mut quiet = fx.store.listen("quiet").await.unwrap();
    let second = fx.second();
    // More than are kept, in one commit, so that the watcher cannot have seen the first.
    let mut many = second.begin().await.unwrap();
    for n in 0..2000 {
        many.notify(&format!("channel {n}"), "x").await.unwrap();
    }
    many.commit().await.unwrap();
    assert_eq!(quiet.recv().await.unwrap().channel, RECONNECTED);
    // And from there on it goes on as before.
    second.notify("quiet", "x").await.unwrap();
    assert_eq!(quiet.recv().await.unwrap().channel, "quiet");
}

#[tokio::test]
async fn cw_07_the_rows_of_wakes_stay_bounded() {
    let fx = Fixture::with(told());
    let mut rows = 0;
    for n in 0..30 {
        let notify = |effects: &mut esker_coord_sqlite::Effects<'_, '_>| {
            for channel in 0..100 {
                effects.notify(&format!("channel {channel}"))?;
            }
            Ok::<_, esker_coord_api::Error>(())
        };
        engine(&fx.store).write(notify).await.unwrap();
        rows = fx.ask("SELECT count(*) FROM coord_wake");
        assert!(rows <= 1024 + 256 + 100, "{rows} after {n}");
    }
    assert!(rows >= 1024);
    assert_eq!(fx.ask("SELECT max(id) FROM coord_wake"), 3000);
}

#[tokio::test]
async fn cw_06_nothing_is_asked_while_nothing_happens() {
    let fx = Fixture::with(told());
    let mut listeners = Vec::new();
    for n in 0..100 {
        listeners.push(fx.store.listen(&format!("channel {n}")).await.unwrap());
    }
    // Reads change nothing that rings.
    for _ in 0..100 {
        assert!(fx.queue().claim_one("worker").await.unwrap().is_none());
        fx.store.inspect().await.unwrap();
    }
    let idle = fx.stats();
    assert_eq!((idle.watcher_looks, idle.watcher_reads), (0, 0));
    let second = fx.second();
    second.notify("channel 7", "x").await.unwrap();
    listeners[7].recv().await.unwrap();
    let woken = fx.stats();
    // One look for each write of the log that was heard by itself, and some after the last.
    assert!((1..=30).contains(&woken.watcher_looks), "{woken:?}");
    assert_eq!(woken.closures, 0);
    // The handle that nobody listens through has no watcher.
    assert_eq!(stats(&second).watcher_looks, 0);
}

#[tokio::test]
async fn cw_03_a_replaced_file_ends_all_receivers() {
    let fx = Fixture::with(told());
    let mut first = fx.store.listen("channel").await.unwrap();
    let mut second = fx.queue().listen().await.unwrap();
    let path = fx.folder.path().join("coord.db");
    std::fs::rename(&path, fx.folder.path().join("away.db")).unwrap();
    assert_eq!(first.recv().await, None);
    assert_eq!(second.recv().await, None);
    assert!(matches!(first.try_recv(), Err(esker_coord_api::Error::Closed)));
    assert!(fx.store.listen("channel").await.is_err());
    assert!(fx.store.notify("channel", "x").await.is_err());
}

#[tokio::test]
async fn cw_03_a_file_that_another_is_renamed_over_ends_all_receivers() {
    let fx = Fixture::with(told());
    let mut receiver = fx.store.listen("channel").await.unwrap();
    let elsewhere = tempfile::tempdir_in(fx.folder.path()).unwrap();
    let other = open(elsewhere.path(), Settings::default());
    other.notify("channel", "x").await.unwrap();
    other.close().await;
    std::fs::rename(
        elsewhere.path().join("coord.db"),
        fx.folder.path().join("coord.db"),
    )
    .unwrap();
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn cw_03_dropping_the_store_ends_its_receivers() {
    let fx = Fixture::with(told());
    let mut receiver = fx.store.listen("channel").await.unwrap();
    drop(fx.store);
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cw_06_a_burst_of_another_handle_is_not_lost() {
    let fx = Fixture::with(told());
    let stream = fx.store.stream("events").unwrap();
    let mut events = stream.subscribe("consumer").await.unwrap();
    let second = fx.second();
    let publishers: Vec<_> = (0..8)
        .map(|_| {
            let stream = second.stream("events").unwrap();
            tokio::spawn(async move {
                for _ in 0..100 {
                    stream.publish("x").await.unwrap();
                }
            })
        })
        .collect();
    // With no poll to fall back on, a wake that is lost is a test that hangs.
    for offset in 1..=800 {
        assert_eq!(events.recv().await.unwrap().unwrap().offset, offset);
    }
    for publisher in publishers {
        publisher.await.unwrap();
    }
}

#[tokio::test]
async fn cw_06_a_ring_that_comes_before_its_commit_is_not_lost() {
    let fx = Fixture::with(told());
    let mut receiver = fx.store.listen("channel").await.unwrap();
    // Its log is flushed between the writing, which rings, and the index, which shows the commit.
    let conn = Connection::open(fx.folder.path().join("coord.db")).unwrap();
    conn.pragma_update(None, "synchronous", "full").unwrap();
    for _ in 0..30 {
        conn.execute(
            "INSERT INTO coord_wake (origin, channel) VALUES (0, 'channel')",
            [],
        )
        .unwrap();
        assert_eq!(receiver.recv().await.unwrap().channel, "channel");
    }
}

#[tokio::test]
async fn cw_06_a_watcher_does_not_repeat_its_own_handles_wakes() {
    // It looks so seldom that mostly it does after a wake was received.
    let mut settings = told();
    settings.database.inotify = false;
    settings.database.watch_interval = Duration::from_millis(20);
    let fx = Fixture::with(settings);
    let mut channel = fx.store.listen("channel").await.unwrap();
    let mut last = fx.store.listen("last").await.unwrap();
    let second = fx.second();
    for _ in 0..10 {
        fx.store.notify("channel", "x").await.unwrap();
        assert!(channel.try_recv().unwrap().is_some());
        // Read after the one before.
        second.notify("last", "x").await.unwrap();
        last.recv().await.unwrap();
        assert_eq!(channel.try_recv().unwrap(), None);
    }
}

#[tokio::test]
async fn cw_06_where_nothing_tells_the_watcher_looks_at_intervals() {
    let mut settings = told();
    settings.database.inotify = false;
    let fx = Fixture::with(settings);
    let mut receiver = fx.store.listen("channel").await.unwrap();
    let second = fx.second();
    for _ in 0..10 {
        second.notify("channel", "x").await.unwrap();
        assert_eq!(receiver.recv().await.unwrap().channel, "channel");
    }
    // And it ends when asked to, as one that waits for a ring does.
    fx.store.close().await;
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn cw_06_the_safety_poll_finds_what_nothing_told_of() {
    let fx = Fixture::with(Settings {
        database: Options {
            safety_poll: Duration::from_millis(1),
            ..Options::default()
        },
        ..Settings::default()
    });
    let mut receiver = fx.store.listen("channel").await.unwrap();
    let before = fx.stats().watcher_looks;
    while fx.stats().watcher_looks < before + 5 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fx.stats().watcher_reads, 0);
    assert_eq!(receiver.try_recv().unwrap(), None);
}
