//! Opening a store by its URL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use esker_coord_sqlite as database;
use esker_events_api::{EventStore, Options};
use esker_events_memory::MemoryStore;
use esker_events_sqlite::{Settings, SqliteStore};

use crate::{config::Config, exit::Usage};

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// In memory, gone with the process.
    Memory,
    /// A PostgreSQL database, by its URL.
    Postgres(String),
}

/// Whether a store that is not there yet is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Make it.
    Create,
    /// Say that it is not there: an empty answer from a mistyped path misleads.
    Refuse,
}

impl Location {
    /// Reads a URL or a path; the error says what is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        match scheme {
            "sqlite" if rest.trim_start_matches('/').is_empty() => {
                Err("the path is missing, as in `sqlite:esker.db`".into())
            }
            "sqlite" if rest.contains('?') => Err(
                "options after `?` are not taken here: a file is opened as the configuration says \
                 (a file of that name is `./NAME`)"
                    .into(),
            ),
            "sqlite" => Ok(Self::Sqlite(rest.strip_prefix("//").unwrap_or(rest).into())),
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "postgres" | "postgresql" if rest.starts_with("//") => Ok(Self::Postgres(url.into())),
            // One letter is no scheme: it may be a drive.
            _ if rest.starts_with("//")
                || (scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())) =>
            {
                Err(format!(
                    "`{scheme}:` is no store; use `sqlite:PATH`, `memory:`, or `postgres://HOST/DATABASE` for queues and streams (`./{url}` is a file of that name)"
                ))
            }
            _ if url.is_empty() => Err("it is empty; use `sqlite:PATH`".into()),
            _ => Ok(Self::Sqlite(url.into())),
        }
    }
}

/// Opens the configured store. `query_budget` is how long one query may work; none for commands that a person
/// waits for and can stop.
pub(crate) fn open(
    config: &Config,
    missing: Missing,
    query_budget: Option<Duration>,
) -> anyhow::Result<Arc<dyn EventStore>> {
    open_at(
        config,
        &Location::parse(config.text("store")).map_err(Usage)?,
        missing,
        query_budget,
    )
}

/// Opens a store at another place, with the configured settings.
pub(crate) fn open_at(
    config: &Config,
    location: &Location,
    missing: Missing,
    query_budget: Option<Duration>,
) -> anyhow::Result<Arc<dyn EventStore>> {
    let options = Options {
        relay_url: config.some_text("relay.url"),
        hide_expired: config.bool("events.hide_expired"),
        revocable_deletions: config.bool("events.revocable_deletions"),
        query_budget: query_budget.unwrap_or(A_YEAR),
        ..Options::default()
    };
    match location {
        Location::Memory if missing == Missing::Refuse => {
            Err(Usage("a store in memory is empty: only `serve` and `import` take `memory:`".into()).into())
        }
        Location::Memory => Ok(Arc::new(MemoryStore::open(options))),
        Location::Postgres(_) => Err(Usage(
            "events are kept in a SQLite file, `sqlite:PATH`; on PostgreSQL there are `queue`, `stream`, `lock` and \
             `schedule`"
                .into(),
        )
        .into()),
        Location::Sqlite(path) => {
            anyhow::ensure!(
                missing == Missing::Create || path.exists(),
                "no store at {}; --store names another place",
                path.display()
            );
            let store = SqliteStore::open(path, options, settings(config))
                .with_context(|| format!("cannot open the store at {}", path.display()))?;
            Ok(Arc::new(store))
        }
    }
}

const A_YEAR: Duration = Duration::from_hours(365 * 24);
const PAGE_BYTES: u64 = 4096;

/// What `[sqlite]` says.
fn settings(config: &Config) -> Settings {
    Settings {
        database: database(config),
        waiting_tag_rows: size(config.integer("sqlite.waiting_tag_rows")),
    }
}

/// What `[sqlite]` says of the file.
pub(crate) fn database(config: &Config) -> database::Options {
    let default = database::Options::default();
    let readers = config.integer("sqlite.readers");
    let max_bytes = config.integer("sqlite.max_bytes");
    let cache = |name| u32::try_from(config.integer(name)).expect("the table of keys bounds it");
    database::Options {
        synchronous: match config.text("sqlite.durability") {
            "normal" => database::Synchronous::Normal,
            _ => database::Synchronous::Full,
        },
        readers: if readers == 0 {
            default.readers
        } else {
            size(readers)
        },
        reader_cache: cache("sqlite.reader_cache_kib"),
        writer_cache: cache("sqlite.writer_cache_kib"),
        wal_limit: config.integer("sqlite.wal_bytes"),
        max_pages: (max_bytes > 0).then(|| u32::try_from(max_bytes / PAGE_BYTES).unwrap_or(u32::MAX)),
        ..default
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn urls_and_paths_name_stores() {
        let sqlite = |path: &str| Ok(Location::Sqlite(path.into()));
        assert_eq!(Location::parse("sqlite:esker.db"), sqlite("esker.db"));
        assert_eq!(
            Location::parse("sqlite:/var/lib/esker.db"),
            sqlite("/var/lib/esker.db")
        );
        assert_eq!(
            Location::parse("sqlite:///var/lib/esker.db"),
            sqlite("/var/lib/esker.db")
        );
        assert_eq!(Location::parse("data/esker.db"), sqlite("data/esker.db"));
        assert_eq!(Location::parse("./odd:name.db"), sqlite("./odd:name.db"));
        assert_eq!(Location::parse("c:name.db"), sqlite("c:name.db"));
        assert_eq!(Location::parse("name-2:b.db"), sqlite("name-2:b.db"));
        assert_eq!(Location::parse("memory:"), Ok(Location::Memory));
        for url in ["postgres://app@db/app", "postgresql://db/app"] {
            assert_eq!(Location::parse(url), Ok(Location::Postgres(url.into())));
        }
        for wrong in [
            "",
            "sqlite:",
            "sqlite://",
            "postgres:app",
            "mysql://localhost",
            "mysql:foo",
            "memory:x",
            "odd:name.db",
        ] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
    }
}
