//! The event store on one SQLite file: statements and transactions; every decision is `esker_events_api`'s.

mod counting;
mod deferred;
mod execution;
mod facts;
mod feed;
mod flush;
mod keys;
mod plan;
#[cfg(test)]
mod query_plans;
mod remove;
mod rows;
mod schema;
mod slices;
mod source;
mod store;
mod tally;
mod upkeep;
mod view;
mod write;

pub use source::Cost;
pub use store::{Settings, SqliteStore};
