//! The contract's suite on SQLite, once for each state that the tag index can be in: every row waiting in memory,
//! every row in the file, and slices flushed in between.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use esker_events_api::{EventStore, Options};
use esker_events_sqlite::{Settings, SqliteStore};
use esker_events_suite::Engine;
use tempfile::TempDir;

/// A store whose tag index lets `WAITING` rows wait.
struct Sqlite<const WAITING: usize> {
    store: SqliteStore,
    options: Options,
    folder: TempDir,
}

impl<const WAITING: usize> Sqlite<WAITING> {
    fn handle(folder: &TempDir, options: &Options) -> SqliteStore {
        let settings = Settings {
            waiting_tag_rows: WAITING,
            ..Settings::default()
        };
        SqliteStore::open(&folder.path().join("events.db"), options.clone(), settings).unwrap()
    }
}

impl<const WAITING: usize> Engine for Sqlite<WAITING> {
    async fn open(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            store: Self::handle(&folder, &options),
            options,
            folder,
        }
    }

    fn store(&self) -> Arc<dyn EventStore> {
        Arc::new(self.store.clone())
    }

    async fn reopen(self) -> Self {
        self.store.close().await;
        let Self { options, folder, .. } = self;
        Self {
            store: Self::handle(&folder, &options),
            options,
            folder,
        }
    }

    async fn second(&self) -> Option<Arc<dyn EventStore>> {
        Some(Arc::new(Self::handle(&self.folder, &self.options)))
    }
}

mod all_rows_wait {
    esker_events_suite::suite!(super::Sqlite<1_000_000>);
}

mod some_rows_wait {
    esker_events_suite::suite!(super::Sqlite<60>);
}

mod no_row_waits {
    esker_events_suite::suite!(super::Sqlite<0>);
}
