//! The database handle of one SQLite file: one writer with group commit, a pool of readers.
//!
//! A [`Database`] owns every connection that this process has on the file. Whatever writes hands it a
//! closure ([`Database::write`]); closures that wait together share one `BEGIN IMMEDIATE` transaction, each in a
//! savepoint of its own, and one commit, and each caller is answered with its own result after that commit. Whatever
//! reads hands it a closure too ([`Database::read`]), which runs in one read transaction under a time budget. A
//! transaction that spans several awaits is [`Database::begin`].
//!
//! No runtime is needed: the threads are this crate's own, and the futures wake whoever polls them.
//!
//! Nothing else in the process may open the database file or its `-shm` file, not even to look: closing any
//! descriptor of them drops the locks that SQLite holds.
//!
//! ```
//! # use esker_coord_sqlite::{Database, Error, Options, Schema};
//! # use std::time::Duration;
//! # async fn tour(folder: &std::path::Path) -> Result<(), Error> {
//! let notes = Schema { component: "notes", migrations: &["CREATE TABLE note (text TEXT NOT NULL) STRICT"] };
//! let database = Database::open(&folder.join("notes.db"), Options::default(), &[notes])?;
//! database
//!     .write(|tx| {
//!         tx.sql().prepare_cached("INSERT INTO note VALUES (?1)")?.execute(["durable when this returns"])?;
//!         Ok::<_, Error>(())
//!     })
//!     .await?;
//! let count: i64 = database
//!     .read(Duration::from_secs(1), |snapshot| {
//!         Ok::<_, Error>(snapshot.sql().query_row("SELECT count(*) FROM note", [], |row| row.get(0))?)
//!     })
//!     .await?;
//! assert_eq!(count, 1);
//! database.close().await;
//! # Ok(())
//! # }
//! # let folder = tempfile::tempdir().unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(tour(folder.path())).unwrap();
//! ```

pub use rusqlite;

mod database;
mod error;
mod filesystem;
mod flusher;
mod held;
mod library;
mod open;
mod options;
mod queue;
mod readers;
mod schema;
mod snapshot;
mod stats;
mod task;
mod transaction;
mod wal;
mod writer;

pub use database::Database;
pub use error::{Error, Outcome};
pub use held::HeldTransaction;
pub use options::{Options, Synchronous};
pub use schema::Schema;
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use transaction::Transaction;
