//! The loops that run on a store: workers (CQ-07, CQ-10, CO-02), the runner of schedules (CD-02) and the keeping of locks
//! (CL-02), on an engine that fails and halts where a test says so.

#![allow(clippy::unwrap_used)]

mod heartbeats;
mod locking;
mod scheduling;
mod scripted;
mod stopping;
mod storage;
mod working;
mod world;
