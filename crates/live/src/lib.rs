//! From one accepted event to those who asked for it.
//!
//! [`FilterIndex`] finds the subscriptions that an event could match without asking each; the [`Dispatcher`]
//! owns one on a thread of its own, fed with each commit in order, and hands the event to the [`Sink`]s and
//! [`Observation`]s that match. A [`Subscription`] is the sink of one `REQ`: the gate where its stored and
//! its live events meet, so that each arrives once. An [`Outbound`] is what one connection still has to send,
//! bounded, so that a reader that stops reading harms itself alone.
//!
//! How a `REQ` is served without loss or double (LIVE-10):
//!
//! 1. make a [`Subscription`] on the connection's [`Outbound`], and [`Dispatcher::register`] it;
//! 2. query the store page by page; before each page wait for [`Outbound::room`], after it call
//!    [`Subscription::stored`] with the page's events and `as_of`;
//! 3. when the result is complete, [`Subscription::stored_done`];
//! 4. at `CLOSE`, [`Subscription::cancel`] and drop the [`Registration`].
//!
//! Rule ids (`LIVE-…`) name the contract in `docs/contracts/live.md`.

mod queue;

pub mod counters;
pub mod dispatcher;
pub mod frame;
pub mod index;
pub mod observation;
pub mod outbound;
pub mod subscription;

pub use counters::Counters;
pub use dispatcher::{Dispatcher, Options, Registration, Sink};
pub use frame::Frame;
pub use index::FilterIndex;
pub use observation::{Ended, Observation, Observed};
pub use outbound::{Closing, Outbound, OutboundLimits, Room};
pub use subscription::Subscription;
