//! From commit to connection, with every interleaving forced.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod bounds;
mod dispatch;
mod interleavings;
mod observe;
mod support;
