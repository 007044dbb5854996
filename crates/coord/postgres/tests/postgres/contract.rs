//! The contract's suite, on Postgres.

use std::sync::Arc;

use esker_coord_api::{Clock, Store};
use esker_coord_postgres::{Options, PostgresEngine};

use crate::support::Database;

struct Postgres {
    database: Arc<Database>,
    clock: Clock,
    store: Store,
}

impl Postgres {
    async fn on(database: Arc<Database>, clock: Clock) -> Self {
        let store = database.open_with(options(&clock)).await;
        Self {
            database,
            clock,
            store,
        }
    }
}

/// Few connections, so that tests that run side by side find room on one server.
fn options(clock: &Clock) -> Options {
    Options {
        clock: Some(clock.clone()),
        pool_size: 6,
        ..Options::default()
    }
}

impl esker_coord_suite::Engine for Postgres {
    type Inner = PostgresEngine;
    const WRITERS_WAIT: bool = false;
    const PAYLOAD_LIMIT: Option<usize> = Some(7999);

    async fn open(clock: Clock) -> Self {
        Self::on(Arc::new(Database::new()), clock).await
    }

    fn store(&self) -> Store {
        self.store.clone()
    }

    async fn open_again(&self) -> Store {
        self.database.open_with(options(&self.clock)).await
    }

    async fn reopen(self) -> Self {
        Self::on(self.database, self.clock).await
    }

    async fn cut_connections(&self) -> bool {
        self.database.cut_connections().await;
        true
    }
}

esker_coord_suite::suite!(Postgres);
