//! Kinds and the ranges that decide how an event is kept (NIP-01).

/// Profile metadata.
pub const METADATA: u16 = 0;
/// A short text note.
pub const TEXT_NOTE: u16 = 1;
/// A follow list.
pub const CONTACTS: u16 = 3;
/// A deletion request (NIP-09).
pub const DELETION: u16 = 5;
/// A request to vanish (NIP-62).
pub const VANISH: u16 = 62;
/// A gift wrap (NIP-59).
pub const GIFT_WRAP: u16 = 1059;
/// A relay list (NIP-65).
pub const RELAY_LIST: u16 = 10002;
/// Client authentication (NIP-42).
pub const AUTH: u16 = 22242;

/// One stored version per author: 0, 3, 10000 to 19999.
pub const fn is_replaceable(kind: u16) -> bool {
    matches!(kind, 0 | 3 | 10_000..=19_999)
}
/// Broadcast and never stored: 20000 to 29999.
pub const fn is_ephemeral(kind: u16) -> bool {
    matches!(kind, 20_000..=29_999)
}
/// One stored version per author and `d` tag: 30000 to 39999.
pub const fn is_addressable(kind: u16) -> bool {
    matches!(kind, 30_000..=39_999)
}
