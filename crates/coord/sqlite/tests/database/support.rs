//! What the tests share: a file in a temporary folder, a writer that waits on command.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use esker_coord_sqlite::{Database, Error, Options, Schema, Transaction, rusqlite::Connection};
use tempfile::TempDir;

pub(crate) const NOTES: Schema = Schema {
    component: "notes",
    migrations: &[
        "CREATE TABLE note (n INTEGER PRIMARY KEY, body BLOB) STRICT",
        "CREATE TABLE parent (n INTEGER PRIMARY KEY) STRICT;
         CREATE TABLE child (n INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED) STRICT",
    ],
};

/// Long enough for whatever a test reads.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) db: Database,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(&folder.path().join("notes.db"), options, &[NOTES]).unwrap();
        Self { folder, db }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("notes.db")
    }

    /// The log's size; the log may be looked at, the database may not.
    pub(crate) fn wal_bytes(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("notes.db-wal")).map_or(0, |found| found.len())
    }

    /// The notes as another connection sees them.
    pub(crate) fn notes(&self) -> Vec<i64> {
        notes(&self.path())
    }

    /// Makes the writer wait inside a closure, until the gate is opened.
    pub(crate) async fn shut(&self) -> Gate {
        let (open, opened) = mpsc::channel::<()>();
        let (enter, entered) = tokio::sync::oneshot::channel();
        let inside = started(self.db.clone(), move |db| async move {
            db.write(move |_| {
                enter.send(()).unwrap();
                opened.recv().unwrap();
                Ok::<_, Error>(())
            })
            .await
        });
        entered.await.unwrap();
        Gate { open, inside }
    }
}

pub(crate) type Started<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(crate) struct Gate {
    open: mpsc::Sender<()>,
    inside: Started<Result<(), Error>>,
}

impl Gate {
    pub(crate) async fn open(self) -> Result<(), Error> {
        self.open.send(()).unwrap();
        self.inside.await
    }
}

/// A future that has run as far as it can, such as to have submitted its work.
pub(crate) fn started<F>(db: Database, call: impl FnOnce(Database) -> F) -> Started<F::Output>
where
    F: Future + Send + 'static,
{
    let mut future = Box::pin(call(db));
    assert!(poll(future.as_mut()).is_pending());
    future
}

pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Submits a write that inserts one note.
pub(crate) fn submit_note(db: &Database, n: i64) -> Started<Result<(), Error>> {
    submit(db, move |tx| note(tx, n))
}

pub(crate) fn submit<T: Send + 'static>(
    db: &Database,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error> + Send + 'static,
) -> Started<Result<T, Error>> {
    started(db.clone(), |db| async move { db.write(work).await })
}

pub(crate) fn note(tx: &Transaction<'_>, n: i64) -> Result<(), Error> {
    tx.sql()
        .prepare_cached("INSERT INTO note (n) VALUES (?1)")?
        .execute([n])?;
    Ok(())
}

pub(crate) async fn write_note(db: &Database, n: i64) -> Result<(), Error> {
    db.write(move |tx| note(tx, n)).await
}

pub(crate) fn notes(path: &Path) -> Vec<i64> {
    let conn = Connection::open(path).unwrap();
    let mut all = conn.prepare("SELECT n FROM note ORDER BY n").unwrap();
    all.query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}
