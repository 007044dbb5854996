//! A store by its URL (CX-02).

use esker_coord_api::{Error, Result, Store};

use crate::location::Location;

/// Opens a store. The URL picks the engine, each a cargo feature of this crate:
///
/// - `sqlite:path.db`, `sqlite:/absolute/path.db`: a file, which is made when it is not there.
/// - `postgres://user@host/database`, `postgresql://…`: a database, in which a schema is made when it is not there. To be
///   called on a tokio runtime, to which the store then belongs.
/// - `memory:`: a new store, gone with the last of its clones.
///
/// After `?` come options, as `name=value` joined by `&`. What is special in a path or a value is percent-encoded
/// (`%3F` is a question mark). For `postgres:` they are libpq's and the engine's own (`schema`, `pool_size`, `listener`);
/// for `sqlite:` they are
///
/// | name | value |
/// |---|---|
/// | `synchronous` | `full` (default) or `normal`: when a commit is on the disk |
/// | `readers` | reader threads |
/// | `busy_timeout_ms` | how long a write waits for another process that holds the file |
/// | `read_budget_ms` | how long one read may take |
/// | `idle_transaction_ms` | how long a held transaction may do nothing before it is rolled back |
/// | `inotify` | `true` (default) or `false`, for a file system that does not tell of changes: whether it is asked to |
/// | `watch_interval_ms`, `safety_poll_ms` | how soon wakes of other processes are noticed |
/// | `writer_cache_kib`, `reader_cache_kib` | page caches |
/// | `wal_limit_bytes` | size of the write-ahead log at which it is started anew |
/// | `max_pages` | pages of 4 KiB that the file may grow to |
///
/// What they mean and their defaults are in the engines' own, `esker_coord::sqlite::Settings` and
/// `esker_coord::postgres::Options`; who has more to say than fits a URL opens the engine with these.
///
/// [`Error::InvalidOption`] for a URL that is none of these, has an unknown option, or names an engine that this build
/// has not.
pub async fn open(url: &str) -> Result<Store> {
    match Location::of(url)? {
        #[cfg(feature = "sqlite")]
        Location::Sqlite { path, options } => sqlite(path, &options).await,
        #[cfg(feature = "postgres")]
        Location::Postgres(url) => postgres(&url).await,
        #[cfg(feature = "memory")]
        Location::Memory => Ok(memory()),
        #[cfg(not(feature = "sqlite"))]
        Location::Sqlite { .. } => Err(left_out("sqlite")),
        #[cfg(not(feature = "postgres"))]
        Location::Postgres(_) => Err(left_out("postgres")),
        #[cfg(not(feature = "memory"))]
        Location::Memory => Err(left_out("memory")),
    }
}

/// What is told of an engine that was left out.
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "memory")))]
fn left_out(engine: &str) -> Error {
    crate::location::invalid(format!(
        "this build has no {engine} engine: enable the feature `{engine}` of `esker-coord`"
    ))
}

#[cfg(feature = "sqlite")]
async fn sqlite(path: std::path::PathBuf, options: &str) -> Result<Store> {
    let settings = crate::sqlite_url::settings(options)?;
    let (answer, opened) = tokio::sync::oneshot::channel();
    // Opening waits for the disk, and for other processes that open the same file.
    std::thread::spawn(move || {
        // Nobody waits for it any more if this fails.
        let _ = answer.send(esker_coord_sqlite::SqliteEngine::open(&path, settings));
    });
    match opened.await {
        Ok(engine) => Ok(Store::new(engine?)),
        Err(_) => Err(Error::Closed),
    }
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Store> {
    use esker_coord_postgres::{Options, PostgresEngine};

    Ok(Store::new(PostgresEngine::open(url, Options::default()).await?))
}

#[cfg(feature = "memory")]
fn memory() -> Store {
    use esker_coord_memory::{MemoryEngine, Options};

    Store::new(MemoryEngine::open(Options::default()))
}
