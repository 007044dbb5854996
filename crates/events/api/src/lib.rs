//! The event store contract: what every engine promises, as a trait, values, and the rules that are decision
//! rather than storage. No driver, no runtime; an engine never re-derives a rule, it calls it.
//!
//! Rule ids (`STORE-…`) name the contract in `docs/contracts/event-store.md`.

pub mod address;
pub mod admission;
pub mod change;
pub mod deletion;
pub mod outcome;
pub mod query;
pub mod replacement;
pub mod search;
pub mod store;
pub mod vanish;

pub use address::Address;
pub use admission::{Decision, Effects, Facts, decide};
pub use change::{Accepted, Change, Observer};
pub use deletion::Targets;
pub use esker_coord_api::Clock;
pub use outcome::{Outcome, Rejection};
pub use query::{Filters, Page, PageLimits, Position, Query};
pub use store::{BoxFuture, Error, EventStore, KindStats, Options, Stats};
