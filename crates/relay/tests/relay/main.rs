//! The relay over real sockets: each rule by its id, with clients of other people's make and with raw bytes.
// What a test unwraps is what it asserts.
#![allow(clippy::unwrap_used, clippy::decimal_bitwise_operands)]

mod backpressure;
mod events;
mod gated;
mod http;
mod messages;
mod shutdown;
mod subscriptions;
mod support;
mod websocket;
