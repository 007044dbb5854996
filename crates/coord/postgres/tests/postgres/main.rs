//! The store on a real server.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

mod clock;
mod contract;
mod faults;
mod inspect;
mod listening;
mod open;
mod processes;
mod queues;
mod schedules;
mod streams;
mod support;
mod tls;
mod wakes;
