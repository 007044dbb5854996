//! Many listeners, one thread. Alone in its file: it counts the threads of the process.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

use esker_coord_api::Store;
use esker_coord_sqlite::{Settings, SqliteEngine};

fn watchers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "esker-watcher").count()
}

#[tokio::test]
async fn cw_06_many_listeners_share_one_thread_that_ends_with_the_store() {
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
