//! The program as its users meet it: a real process, real files, a real socket, clients that others wrote.

#![allow(clippy::unwrap_used)]

mod bench;
mod configuration;
mod coordination;
mod crash;
mod locking;
mod nostr_tools;
mod outages;
mod rust_nostr;
mod serving;
mod support;
mod transfer;
