//! A store by its URL (CX-02).

use esker_coord_api::{Error, Result, Store};

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
/// | `watch_interval_ms`, `safety_poll_ms` | how soon wakes of other processes are noticed |
/// | `writer_cache_kib`, `reader_cache_kib` | page caches |
/// | `wal_limit_bytes` | size of the write-ahead log at which it is started anew |
/// | `max_pages` | pages of 4 KiB that the file may grow to |
///
/// What they mean and their defaults are in the engines' own options, `esker_coord::sqlite::Options` and
/// `esker_coord::postgres::Options`; who has more to say than fits a URL opens the engine with these.
///
/// [`Error::InvalidOption`] for a URL that is none of these, has an unknown option, or names an engine that this build
/// has not.
pub async fn open(url: &str) -> Result<Store> {
    match url.split_once(':') {
        Some(("sqlite", rest)) => sqlite(rest).await,
        Some(("postgres" | "postgresql", _)) => postgres(url).await,
        Some(("memory", "")) => memory(),
        // The URL may hold a password: only what comes before it is repeated.
        Some((scheme, _)) if scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            Err(invalid(format!("`{scheme}:` is no store; {KNOWN}")))
        }
        _ => Err(invalid(format!("it begins with no engine; {KNOWN}"))),
    }
}

const KNOWN: &str = "there are `sqlite:path.db`, `postgres://user@host/database` and `memory:`";

pub(crate) fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidOption {
        option: "url",
        reason: reason.into(),
    }
}

/// What is told of an engine that was left out.
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "memory")))]
fn left_out(engine: &str) -> Error {
    invalid(format!(
        "this build has no {engine} engine: enable the feature `{engine}` of `esker-coord`"
    ))
}

#[cfg(feature = "sqlite")]
async fn sqlite(rest: &str) -> Result<Store> {
    let (path, settings) = crate::sqlite_url::parse(rest)?;
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

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_rest: &str) -> Result<Store> {
    Err(left_out("sqlite"))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Store> {
    use esker_coord_postgres::{Options, PostgresEngine};

    Ok(Store::new(PostgresEngine::open(url, Options::default()).await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_url: &str) -> Result<Store> {
    Err(left_out("postgres"))
}

#[cfg(feature = "memory")]
#[expect(clippy::unnecessary_wraps, reason = "a build without this engine fails here")]
fn memory() -> Result<Store> {
    use esker_coord_memory::{MemoryEngine, Options};

    Ok(Store::new(MemoryEngine::open(Options::default())))
}

#[cfg(not(feature = "memory"))]
fn memory() -> Result<Store> {
    Err(left_out("memory"))
}
