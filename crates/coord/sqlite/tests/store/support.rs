//! What the tests share: a file in a temporary folder, and handles on it.

use std::path::Path;

use esker_coord_api::{EnqueueOptions, Payload, Queue, QueueOptions, Store};
use esker_coord_sqlite::{Settings, SqliteEngine, Stats, rusqlite::Connection};
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), settings);
        Self { folder, store }
    }

    /// Another handle on the file, as another process would have one.
    pub(crate) fn second(&self) -> Store {
        open(self.folder.path(), Settings::default())
    }

    pub(crate) fn stats(&self) -> Stats {
        stats(&self.store)
    }

    pub(crate) fn queue(&self) -> Queue {
        queue(&self.store)
    }

    /// One number, as another connection sees it.
    pub(crate) fn ask(&self, sql: &str) -> i64 {
        ask(self.folder.path(), sql)
    }
}

pub(crate) fn ask(folder: &Path, sql: &str) -> i64 {
    let conn = Connection::open(folder.join("coord.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

pub(crate) fn open(folder: &Path, settings: Settings) -> Store {
    Store::new(SqliteEngine::open(&folder.join("coord.db"), settings).unwrap())
}

pub(crate) fn engine(store: &Store) -> &SqliteEngine {
    store.engine().unwrap()
}

pub(crate) fn stats(store: &Store) -> Stats {
    engine(store).database().stats()
}

pub(crate) fn queue(store: &Store) -> Queue {
    store.queue("jobs", QueueOptions::default()).unwrap()
}

/// So many jobs for a batch.
pub(crate) fn batch(count: usize) -> Vec<(Payload, EnqueueOptions)> {
    (0..count)
        .map(|n| (n.to_string().into(), EnqueueOptions::default()))
        .collect()
}
