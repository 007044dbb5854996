//! The smallest obviously right coordination store: what the other engines are compared with, and what a user's unit
//! tests run on. Nothing is kept on disk and nothing is indexed but ids and names.
//!
//! ```
//! use esker_coord_api::{QueueOptions, Store};
//! use esker_coord_memory::{MemoryEngine, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> esker_coord_api::Result<()> {
//! let store = Store::new(MemoryEngine::open(Options::default()));
//! let mails = store.queue("mails", QueueOptions::default())?;
//!
//! let mut transaction = store.begin().await?;
//! transaction.enqueue("mails", "welcome").await?;
//! assert!(mails.claim_one("worker").await?.is_none());
//! transaction.commit().await?;
//!
//! let job = mails.claim_one("worker").await?.expect("a committed job");
//! assert_eq!(job.job().payload.as_bytes(), b"welcome");
//! assert!(job.ack().await?);
//! # Ok(())
//! # }
//! ```

mod engine;
mod inspect;
mod jobs;
mod keeps;
mod locks;
mod schedules;
mod state;
mod streams;
mod transaction;

use esker_coord_api::Clock;

pub use engine::MemoryEngine;

/// What a store in memory can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its time comes from (CX-04). Default: the system's clock.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
        }
    }
}
