//! Opening the coordination store: its tables are in the same place as the events.

use std::time::Duration;

use anyhow::Context as _;
use esker_coord::{
    Error, Queue, QueueOptions, Store,
    postgres::{Options, PostgresEngine},
    sqlite::{Settings, SqliteEngine},
};

use crate::{
    config::{Config, nearest},
    exit::Usage,
    payloads::printable,
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
            let options = Options {
                create: missing == Missing::Create,
                ..Options::default()
            };
            let engine = PostgresEngine::open(&url, options).await;
            Ok(Store::new(engine.context("cannot open the store on PostgreSQL")?))
        }
        Location::Sqlite(path) => {
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

/// What was named is not in the store.
#[derive(Debug, thiserror::Error)]
#[error("no {what} `{}` in the store; {instead}", printable(.name))]
pub(crate) struct Absent {
    what: &'static str,
    name: String,
    instead: String,
}

/// Finds what was named among all that there are, by its kind.
pub(crate) fn find<T>(
    what: &'static str,
    name: &str,
    mut all: Vec<T>,
    name_of: impl Fn(&T) -> &str,
) -> Result<T, Absent> {
    match all.iter().position(|one| name_of(one) == name) {
        Some(place) => Ok(all.swap_remove(place)),
        None => Err(Absent {
            what,
            name: name.to_owned(),
            instead: instead(name, &all.iter().map(name_of).collect::<Vec<_>>()),
        }),
    }
}

/// Names that are shown where none is near.
const SHOWN: usize = 10;

fn instead(name: &str, names: &[&str]) -> String {
    if let Some(near) = nearest(name, names.iter().map(|&name| name.to_owned())) {
        return format!("did you mean `{}`?", printable(&near));
    }
    let shown = names.iter().take(SHOWN);
    let shown: Vec<String> = shown.map(|name| format!("`{}`", printable(name))).collect();
    match names.len() {
        0 => "there is none".to_owned(),
        1 => format!("there is {}", shown[0]),
        all if all <= SHOWN => format!("there are {}", shown.join(", ")),
        all => format!("there are {} and {} more", shown.join(", "), all - SHOWN),
    }
}

/// A queue by the name that `queue list` shows, which may be an outbox's.
pub(crate) fn queue(store: &Store, name: &str) -> esker_coord::Result<Queue> {
    match name.strip_prefix("__alkstore_outbox:") {
        Some(outbox) => Ok(store.outbox(outbox)?.queue().clone()),
        None => store.queue(name, QueueOptions::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn of_a_name_that_is_not_there_it_is_told_what_there_is() {
        let told = |name: &str, names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            find("queue", name, names, String::as_str).map_err(|absent| absent.to_string())
        };
        assert_eq!(told("mails", &["work", "mails"]), Ok("mails".into()));
        let none = |rest: &str| Err(format!("no queue `mials` in the store; {rest}"));
        assert_eq!(told("mials", &["mails", "work"]), none("did you mean `mails`?"));
        assert_eq!(told("mials", &[]), none("there is none"));
        assert_eq!(told("mials", &["work"]), none("there is `work`"));
        assert_eq!(told("mials", &["work", "play"]), none("there are `work`, `play`"));
        let many: Vec<String> = (10..23).map(|n| format!("work-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let told = told("mials", &many).unwrap_err();
        assert!(
            told.contains("`work-10`, ") && told.ends_with(", `work-19` and 3 more"),
            "{told}"
        );
    }
}
