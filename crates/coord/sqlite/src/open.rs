//! Opening the file: what is refused, how connections are set up.

use std::{
    ffi::c_int,
    path::{Path, PathBuf, absolute},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use rusqlite::{Connection, DEFAULT_NAME, ErrorCode, FileControl, OpenFlags, config::DbConfig};

use crate::{Error, Options, Schema, Synchronous, filesystem, library, place, schema, stats::Counters, wal};

/// Pause between two tries for a lock. Short and the same for every try, so that each process that waits has the same
/// chance: SQLite's own handler slows down, and starves whoever waited longest.
pub(crate) const LOCK_POLL: Duration = Duration::from_millis(1);

/// The writer's connection, with what steers its callbacks.
pub(crate) struct WriterConnection {
    pub(crate) conn: Connection,
    /// Lets the next commit through. A commit that the writer did not ask for is turned into a rollback.
    pub(crate) may_commit: Arc<AtomicBool>,
    pub(crate) patience: Patience,
}

/// How long the connection waits for a lock that another holds.
#[derive(Clone)]
pub(crate) struct Patience(Arc<AtomicU64>);

impl Patience {
    fn new(wait: Duration) -> Self {
        let patience = Self(Arc::default());
        patience.set(wait);
        patience
    }

    pub(crate) fn set(&self, wait: Duration) {
        self.0
            .store(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn handler(&self) -> impl FnMut(i32) -> bool + Send + 'static {
        let patience = self.0.clone();
        let mut began = Instant::now();
        move |tries| {
            if tries == 0 {
                began = Instant::now();
            }
            if began.elapsed() >= Duration::from_millis(patience.load(Relaxed)) {
                return false;
            }
            sleep(LOCK_POLL);
            true
        }
    }
}

/// The file's absolute path, so that a change of the working folder changes nothing.
pub(crate) fn file_path(path: &Path) -> Result<PathBuf, Error> {
    let text = path.to_string_lossy();
    if text.is_empty() || text == ":memory:" || text.starts_with("file:") {
        return Err(Error::NotAPath(path.to_owned()));
    }
    absolute(path).map_err(|e| Error::io(path, e))
}

/// Opens or makes the file, brings its tables up to date, and gives the connection that writes.
pub(crate) fn open_writer(
    path: &Path,
    options: &Options,
    schemas: &[Schema],
    counters: &Arc<Counters>,
) -> Result<WriterConnection, Error> {
    library::check(rusqlite::version_number())?;
    place::check(path)?;
    filesystem::check(path)?;
    prepare(path, options, schemas, counters).map_err(|error| place::explain(path, error))
}

fn prepare(
    path: &Path,
    options: &Options,
    schemas: &[Schema],
    counters: &Arc<Counters>,
) -> Result<WriterConnection, Error> {
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut conn = connect(path, create, options)?;
    let patience = Patience::new(options.busy_timeout);
    conn.busy_handler(Some(patience.handler()))?;

    let began = Instant::now();
    loop {
        match prepare_file(&mut conn, path, options, schemas) {
            // SQLite does not wait where waiting could be a deadlock, as when two processes change the journal mode.
            Err(Error::Busy) if began.elapsed() < options.busy_timeout => sleep(LOCK_POLL),
            done => break done?,
        }
    }

    // What was done so far is durable as asked for; from here on the flusher sees to that.
    conn.pragma_update(None, "synchronous", "normal")?;
    let may_commit = Arc::new(AtomicBool::new(false));
    let gate = may_commit.clone();
    conn.commit_hook(Some(move || !gate.swap(false, Relaxed)))?;
    let counters = counters.clone();
    conn.wal_hook(Some(move |_: &mut _, pages: c_int| {
        counters.wal_pages.set(u64::try_from(pages).unwrap_or(0));
        Ok(())
    }))?;
    Ok(WriterConnection {
        conn,
        may_commit,
        patience,
    })
}

/// Opens a connection that only reads a file that [`open_writer`] prepared.
pub(crate) fn open_reader(path: &Path, options: &Options) -> Result<Connection, Error> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, options)?;
    conn.busy_timeout(options.busy_timeout)?;
    set_cache(&conn, options.reader_cache)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// Whether the path no longer leads to the file that the connection has open. One `stat`, and no descriptor.
pub(crate) fn was_replaced(conn: &Connection) -> bool {
    let mut moved: c_int = 0;
    let asked = conn.file_control(DEFAULT_NAME, FileControl::HasMoved(&mut moved));
    asked.is_ok() && moved != 0
}

/// Each connection is used by one thread, so SQLite need not guard it. No URI flag: the path is taken as it is.
fn connect(path: &Path, flags: OpenFlags, options: &Options) -> Result<Connection, Error> {
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.set_prepared_statement_cache_capacity(options.statement_cache);
    // A plan is made once for a statement, not anew for each value bound to it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "temp_store", "memory")?;
    Ok(conn)
}

/// This, unlike what [`connect`] does, reads the file.
fn set_cache(conn: &Connection, kib: u32) -> rusqlite::Result<()> {
    conn.pragma_update(None, "cache_size", -i64::from(kib))
}

fn prepare_file(
    conn: &mut Connection,
    path: &Path,
    options: &Options,
    schemas: &[Schema],
) -> Result<(), Error> {
    // Before anything is changed.
    schema::is_ours(conn, path).map_err(|error| match &error {
        Error::Sqlite(cause) if cause.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Error::NotADatabase(path.to_owned())
        }
        _ => error,
    })?;
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        conn.pragma_update(None, "page_size", wal::PAGE)?;
        let mode: String = conn.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(Error::NoWal {
                path: path.to_owned(),
                mode,
            });
        }
    }
    set_cache(conn, options.writer_cache)?;
    let synchronous = match options.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // The writer checkpoints by its own rule, see wal.rs.
    conn.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    let limit = i64::try_from(options.wal_limit).unwrap_or(i64::MAX);
    conn.query_row(&format!("PRAGMA journal_size_limit = {limit}"), [], |_| Ok(()))?;
    if let Some(pages) = options.max_pages {
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    schema::migrate(conn, path, schemas)
}
