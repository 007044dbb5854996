//! The coordination store, whose tables are in the same place as the events: opened, and had again after it failed.

use std::time::Duration;

use anyhow::Context as _;
use esker_coord::{
    Error, Location, Store,
    postgres::{Options, PostgresEngine},
    sqlite::{Settings, SqliteEngine},
};

use crate::{
    config::Config,
    exit::Usage,
    store::{self, Missing},
};

/// Opens the configured store. A file that was not there is told of: what was meant may be another's.
pub(crate) async fn open(config: &Config, missing: Missing) -> anyhow::Result<Store> {
    let location = store::location(config.text("store")).map_err(Usage)?;
    let new = match &location {
        Location::Sqlite { path, .. } if !path.exists() => Some(path.clone()),
        _ => None,
    };
    let store = open_at(config, location, missing).await?;
    if let Some(path) = new {
        eprintln!("made a new store at {}", path.display());
    }
    Ok(store)
}

/// Opens a store at another place, with the configured settings.
pub(crate) async fn open_at(config: &Config, location: Location, missing: Missing) -> anyhow::Result<Store> {
    match location {
        Location::Memory => {
            Err(Usage("a store in memory is this process's alone: use `sqlite:PATH`".into()).into())
        }
        Location::Postgres(url) => {
            let options = Options {
                create: missing == Missing::Create,
                ..Options::default()
            };
            let engine = PostgresEngine::open(&url, options).await;
            Ok(Store::new(engine.context("cannot open the store on PostgreSQL")?))
        }
        Location::Sqlite { path, .. } => {
            anyhow::ensure!(
                missing == Missing::Create || path.exists(),
                "no store at {}; --store names another place",
                path.display()
            );
            let settings = Settings {
                database: store::database(config),
                ..Settings::default()
            };
            let engine = SqliteEngine::open(&path, settings)
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
    if store.is_closed() || !matches!(error, Error::Database { .. }) {
        return Err(error);
    }
    tracing::warn!(error = error.report(), "the store failed; trying again");
    tokio::time::sleep(AGAIN).await;
    Ok(())
}
