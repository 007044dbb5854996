//! Many listeners, one thread. Alone in their file, and one after the other: they count the threads of the process.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

use std::{
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use esker_coord_api::Store;
use esker_coord_sqlite::{Settings, SqliteEngine};
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

fn watchers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "esker-watcher").count()
}

#[tokio::test]
async fn cw_06_many_listeners_share_one_thread_that_ends_with_the_store() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coord.db");
    let store = Store::new(SqliteEngine::open(&path, Settings::default()).unwrap());
    assert_eq!(watchers(), 0);
    let mut listeners = Vec::new();
    for n in 0..200 {
        listeners.push(store.listen(&format!("channel {n}")).await.unwrap());
        assert_eq!(watchers(), 1);
    }
    drop(listeners);
    store.close().await;
    assert_eq!(watchers(), 0);
}

#[tokio::test]
async fn cw_06_a_listener_that_gives_up_while_the_thread_starts_leaves_it_to_the_next() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    // With no poll to fall back on, a thread that is not told of the end is a test that hangs.
    settings.database.safety_poll = Duration::from_hours(1);
    let store = Store::new(SqliteEngine::open(&folder.path().join("coord.db"), settings).unwrap());
    for n in 0..10 {
        let channel = format!("channel {n}");
        let mut gives_up = pin!(store.listen(&channel));
        let _ = gives_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    let mut listener = store.listen("channel").await.unwrap();
    assert_eq!(watchers(), 1);
    store.close().await;
    assert_eq!(watchers(), 0);
    assert_eq!(listener.recv().await, None);
}
