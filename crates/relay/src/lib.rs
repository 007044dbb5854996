//! The relay: sessions over WebSocket on an event store, and the pages beside them.
//!
//! [`Server::bind`] listens, [`Server::run`] serves until it is told to end. A connection is read, queried for
//! and written side by side (`connection`); what it says is handled without its socket (`session`); the events
//! of all connections go through one bounded intake, where threads made for it check signatures (`ingest`);
//! what is committed comes back through [`esker_live`].
//!
//! Rule ids (`RELAY-…`) name the contract in `docs/contracts/relay.md`.

mod connection;
mod counters;
mod error;
mod http;
mod info;
mod ingest;
mod limits;
mod relay;
mod server;
mod session;
mod transport;

pub use counters::{Counter, Counters, Refusal};
pub use error::Error;
pub use info::Info;
pub use limits::Limits;
pub use server::{Config, Server, serve};
