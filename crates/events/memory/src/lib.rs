//! The smallest obviously right event store: what the other engines are compared with, and what a user's unit
//! tests run on. Nothing is kept on disk and nothing is indexed but the order of results.
//!
//! ```
//! use std::sync::Arc;
//!
//! use esker_events_api::{EventStore, Options, Outcome};
//! use esker_events_memory::MemoryStore;
//! use esker_nostr::{Filter, Keys};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = MemoryStore::open(Options::default());
//! let note = Keys::from_seed(1).sign(1, 1_700_000_000, &[vec!["t", "nostr"]], "hello");
//! assert_eq!(store.insert(Arc::new(note.clone())).await, Outcome::Stored);
//!
//! let tagged = Filter::parse(br##"{"#t":["nostr"]}"##).expect("a filter");
//! assert_eq!(store.query([tagged].into()).await.expect("an open store"), [note.json().clone()]);
//! # }
//! ```

mod rows;
mod store;

pub use store::MemoryStore;
