//! The database handle from outside, as the engines use it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

mod held;
mod open;
mod processes;
mod readers;
mod support;
mod wal;
mod writer;
