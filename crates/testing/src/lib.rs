//! What the tests of several crates share, on every floor; it knows neither the coordination store nor events.
// In tests, an error that was not expected is a failure of the test.
#![allow(clippy::unwrap_used)]

pub mod histories;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod processes;
pub mod random;
pub mod rules;
pub mod wire;
