//! The coordination store on PostgreSQL: many hosts share one database, 14 or newer.
//!
//! [`PostgresEngine::open`] gives the engine under a [`Store`](esker_coord_api::Store). Everything lives in one schema.
//! Nothing depends on a session, so that pooled connections work; the one that listens may have a URL of its own.
//!
//! ```no_run
//! # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
//! use esker_coord_api::Store;
//! use esker_coord_postgres::{Options, PostgresEngine, PostgresTransaction};
//!
//! let engine = PostgresEngine::open("postgres://app@localhost/app", Options::default()).await?;
//! let store = Store::new(engine);
//! let mut transaction = store.begin().await?;
//! transaction.enqueue("mails", "welcome").await?;
//! let own = transaction.engine_mut::<PostgresTransaction>().expect("the store is on Postgres");
//! own.client()?.batch_execute("INSERT INTO users (name) VALUES ('new')").await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```

pub use tokio_postgres;

mod batch;
mod channel;
mod database;
mod engine;
mod error;
mod held;
mod inspect;
mod job;
mod listener;
mod locks;
mod notify;
mod open;
mod options;
mod queues;
mod schedules;
mod schema;
mod shared;
mod stats;
mod streams;
mod text;
mod tls;
mod transaction;
mod url;
mod vacuum;

pub use engine::PostgresEngine;
pub use error::Error;
pub use listener::WakeMode;
pub use options::Options;
pub use stats::Stats;
pub use transaction::PostgresTransaction;
