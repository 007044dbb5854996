//! The coordination store on one SQLite file, and the database handle beneath it, on which other stores stand too.
//!
//! # The store
//!
//! A [`SqliteEngine`] has streams, queues, locks, wakes and schedules, for one host and many processes; consumers use it
//! through [`esker_coord_api::Store`]. Each operation is one closure in the writer's next group commit, or one read, so
//! calls that are made at the same time share a commit and a flush. Business rows and their side effects commit together in
//! [`SqliteEngine::write`], or in a transaction that its caller holds ([`SqliteTransaction`]).
//!
//! A commit leaves the channels that it wakes as rows beside it. In the same process they are woken at once; in others one
//! watcher thread is told by the system that the log was written, and wakes who listens to these channels and nobody else.
//!
//! ```
//! # use esker_coord_api::{QueueOptions, Store};
//! # use esker_coord_sqlite::{Error, Settings, SqliteEngine};
//! # async fn tour(folder: &std::path::Path) -> Result<(), esker_coord_api::Error> {
//! let engine = SqliteEngine::open(&folder.join("shop.db"), Settings::default())?;
//! let store = Store::new(engine.clone());
//! let mut placed = store.listen("placed").await?;
//! engine
//!     .write(|effects| {
//!         effects.transaction().sql().execute_batch("CREATE TABLE placed (n INTEGER)").map_err(Error::from)?;
//!         effects.enqueue("shipping", "order 1")?;
//!         effects.notify("placed")
//!     })
//!     .await?;
//! assert!(placed.recv().await.is_some());
//! let shipping = store.queue("shipping", QueueOptions::default())?;
//! let job = shipping.claim_one("worker").await?.expect("the order");
//! assert!(job.ack().await?);
//! store.close().await;
//! # Ok(())
//! # }
//! # let folder = tempfile::tempdir().unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(tour(folder.path())).unwrap();
//! ```
//!
//! # The handle
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
mod engine;
mod error;
mod filesystem;
mod flusher;
mod held;
mod library;
mod open;
mod options;
mod place;
mod queue;
mod readers;
mod schema;
mod snapshot;
mod stats;
mod task;
mod transaction;
mod wakes;
mod wal;
mod watcher;
mod writer;

pub use database::Database;
pub use engine::{Effects, SCHEMA, Settings, SqliteEngine, SqliteTransaction};
pub use error::Error;
pub use esker_coord_api::{Clock, Outcome};
pub use held::HeldTransaction;
pub use options::{Options, Synchronous};
pub use schema::Schema;
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use transaction::Transaction;
