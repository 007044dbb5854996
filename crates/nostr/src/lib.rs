//! Nostr as pure values: events, filters, messages, kinds. No I/O, no clock, no runtime.

pub mod canonical;
mod escape;
pub mod event;
pub mod filter;
pub mod hex;
pub mod keys;
pub mod kind;
mod layout;
pub mod message;
mod scan;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use canonical::Canonical;
pub use event::{Event, EventError, EventFields, EventId, PublicKey, Tag};
pub use filter::{Filter, FilterError, SortedList, TagCondition};
pub use keys::Keys;
pub use message::{ClientMessage, MessageError, RelayMessage};
