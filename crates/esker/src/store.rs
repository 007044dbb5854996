//! Opening a store by its URL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use esker_coord::{Location, sqlite};
use esker_events_api::{EventStore, Options};
use esker_events_memory::MemoryStore;
use esker_events_sqlite::{Settings, SqliteStore};

use crate::{config::Config, exit::Usage};

/// Whether a store that is not there yet is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Make it.
    Create,
    /// Say that it is not there: an empty answer from a mistyped path misleads.
    Refuse,
}

/// Reads a URL or a path; the error says what is wrong with it.
pub(crate) fn location(text: &str) -> Result<Location, String> {
    match Location::parse(text) {
        Ok(None) if text.is_empty() => Err("it is empty; use `sqlite:PATH`".into()),
        Ok(None) => Ok(file(text.into())),
        Ok(Some(Location::Sqlite { options, .. })) if !options.is_empty() => Err(
            "options after `?` are not taken here: a file is opened as the configuration says \
                 (`%3F` is a question mark in the file's name)"
                .into(),
        ),
        Ok(Some(location)) => Ok(location),
        // What begins as one of ours was meant as a URL, and may hold a password.
        Err(esker_coord::Error::InvalidOption { reason, .. }) if text.contains("//") || is_ours(text) => {
            Err(reason)
        }
        Err(esker_coord::Error::InvalidOption { reason, .. }) => {
            Err(format!("{reason} (`./{text}` is a file of that name)"))
        }
        Err(error) => Err(error.report()),
    }
}

fn is_ours(url: &str) -> bool {
    let schemes = ["sqlite:", "postgres:", "postgresql:", "memory:"];
    schemes.iter().any(|scheme| url.starts_with(scheme))
}

/// A file by its path.
pub(crate) fn file(path: PathBuf) -> Location {
    Location::Sqlite {
        path,
        options: String::new(),
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
        &location(config.text("store")).map_err(Usage)?,
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
        Location::Sqlite { path, .. } => {
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
pub(crate) fn database(config: &Config) -> sqlite::Options {
    let default = sqlite::Options::default();
    let readers = config.integer("sqlite.readers");
    let max_bytes = config.integer("sqlite.max_bytes");
    let cache = |name| u32::try_from(config.integer(name)).expect("the table of keys bounds it");
    sqlite::Options {
        synchronous: match config.text("sqlite.durability") {
            "normal" => sqlite::Synchronous::Normal,
            _ => sqlite::Synchronous::Full,
        },
        readers: if readers == 0 {
            default.readers
        } else {
            size(readers)
        },
        reader_cache: cache("sqlite.reader_cache_kib"),
        writer_cache: cache("sqlite.writer_cache_kib"),
        wal_limit: config.integer("sqlite.wal_bytes"),
        inotify: config.bool("sqlite.inotify"),
        max_pages: (max_bytes > 0)
            .then(|| u32::try_from((max_bytes / PAGE_BYTES).max(1)).unwrap_or(u32::MAX)),
        ..default
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Location, database, file, location, sqlite};
    use crate::config::Config;

    #[test]
    fn urls_and_paths_name_stores() {
        for (text, path) in [
            ("sqlite:esker.db", "esker.db"),
            ("sqlite:/var/lib/esker.db", "/var/lib/esker.db"),
            ("sqlite:///var/lib/esker.db", "/var/lib/esker.db"),
            ("data/esker.db", "data/esker.db"),
            ("./odd:name.db", "./odd:name.db"),
            ("c:name.db", "c:name.db"),
            ("name-2:b.db", "name-2:b.db"),
        ] {
            assert_eq!(location(text), Ok(file(path.into())), "{text}");
        }
        assert_eq!(location("memory:"), Ok(Location::Memory));
        for url in ["postgres://app@db/app", "postgresql://db/app"] {
            assert_eq!(location(url), Ok(Location::Postgres(url.into())));
        }
        for wrong in [
            "",
            "sqlite:",
            "sqlite://",
            "sqlite:a.db?readers=2",
            "postgres:app",
            "mysql://localhost",
            "mysql:foo",
            "memory:x",
            "odd:name.db",
        ] {
            assert!(location(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_url_is_decoded_and_a_path_is_taken_as_it_is() {
        assert_eq!(location("sqlite:a%20b%3F.db"), Ok(file("a b?.db".into())));
        assert_eq!(location("a%20b?.db"), Ok(file("a%20b?.db".into())));
        let refused = location("postgres:app:secret@db/app").unwrap_err();
        assert!(!refused.contains("secret"), "{refused}");
    }

    #[test]
    fn the_configuration_says_how_the_file_is_opened() {
        let set = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| format!("sqlite.{set}")).collect();
            database(&Config::load(None, Vec::new(), &sets).unwrap())
        };
        let (default, unset) = (sqlite::Options::default(), set(&[]));
        assert_eq!(format!("{unset:?}"), format!("{default:?}"));
        let options = set(&[
            "durability=normal",
            "readers=3",
            "reader_cache_kib=300",
            "writer_cache_kib=400",
            "wal_bytes=2000000",
            "inotify=false",
            "max_bytes=8192",
        ]);
        let expected = sqlite::Options {
            synchronous: sqlite::Synchronous::Normal,
            readers: 3,
            reader_cache: 300,
            writer_cache: 400,
            wal_limit: 2_000_000,
            inotify: false,
            max_pages: Some(2),
            ..default
        };
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
        // As little as there can be.
        assert_eq!(set(&["max_bytes=1"]).max_pages, Some(1));
    }
}
