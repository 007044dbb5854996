//! The contract's suite on SQLite.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use esker_coord_api::{Clock, Store};
use esker_coord_sqlite::{Settings, SqliteEngine};
use esker_coord_suite::Engine;
use tempfile::TempDir;

struct Sqlite {
    folder: TempDir,
    clock: Clock,
    store: Store,
}

fn open(folder: &TempDir, clock: &Clock) -> Store {
    let settings = Settings {
        clock: clock.clone(),
        ..Settings::default()
    };
    Store::new(SqliteEngine::open(&folder.path().join("coord.db"), settings).unwrap())
}

impl Engine for Sqlite {
    type Inner = SqliteEngine;
    const WRITERS_WAIT: bool = true;

    async fn open(clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder, &clock);
        Self { folder, clock, store }
    }

    fn store(&self) -> Store {
        self.store.clone()
    }

    async fn open_again(&self) -> Store {
        open(&self.folder, &self.clock)
    }

    async fn reopen(self) -> Self {
        let store = open(&self.folder, &self.clock);
        Self { store, ..self }
    }
}

esker_coord_suite::suite!(Sqlite);
