//! Opening the coordination store: its tables are in the same place as the events.

use std::time::Duration;

use anyhow::Context as _;
use esker_coord::{
    Error, Queue, QueueOptions, Store,
    postgres::{Options, PostgresEngine},
    sqlite::{Settings, SqliteStore},
};

use crate::{
    config::Config,
    exit::Usage,
    store::{self, Location, Missing},
};

/// Opens the configured store.
pub(crate) async fn open(config: &Config, missing: Missing) -> anyhow::Result<Store> {
    let location = Location::parse(config.text("store")).map_err(Usage)?;
    open_at(config, location, missing).await
}

/// Opens a store at another place, with the configured settings.
pub(crate) async fn open_at(config: &Config, location: Location, missing: Missing) -> anyhow::Result<Store> {
    match location {
        Location::Memory => {
            Err(Usage("a store in memory is this process's alone: use `sqlite:PATH`".into()).into())
        }
        Location::Postgres(url) => {
            let engine = PostgresEngine::open(&url, Options::default()).await;
            Ok(Store::new(engine.context("cannot open the store on PostgreSQL")?))
        }
        Location::Sqlite(path) => {
            anyhow::ensure!(
                missing == Missing::Create || path.exists(),
                "no store at {}",
                path.display()
            );
            let settings = Settings {
                database: store::database(config),
                ..Settings::default()
            };
            let engine = SqliteStore::open(&path, settings)
                .with_context(|| format!("cannot open the store at {}", path.display()))?;
            Ok(Store::new(engine))
        }
    }
}

/// How long a database that failed is left alone: a server needs its time to come back.
const AGAIN: Duration = Duration::from_secs(1);

/// For a command that runs until it is stopped, after a failure: waits a little, or gives the error back where trying again
/// is of no use.
pub(crate) async fn outlast(store: &Store, error: Error) -> Result<(), Error> {
    let ended = match store.listen("alive").await {
        Ok(mut wakes) => wakes.try_recv().is_err(),
        Err(error) => matches!(error, Error::Closed),
    };
    if ended || !matches!(error, Error::Database { .. }) {
        return Err(error);
    }
    tracing::warn!(error = error.report(), "the store failed; trying again");
    tokio::time::sleep(AGAIN).await;
    Ok(())
}

/// A queue by the name that `queue list` shows, which may be an outbox's.
pub(crate) fn queue(store: &Store, name: &str) -> esker_coord::Result<Queue> {
    match name.strip_prefix("__alkstore_outbox:") {
        Some(outbox) => Ok(store.outbox(outbox)?.queue().clone()),
        None => store.queue(name, QueueOptions::default()),
    }
}
