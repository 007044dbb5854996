//! The coordination store on SQLite, beyond what the contract's suite asks of every engine.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

mod costs;
mod processes;
mod sharing;
mod support;
mod wakes;
