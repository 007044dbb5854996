//! How ids, authors, tag values and addresses become the 64-bit keys of the index tables.

use std::hash::Hasher;

use esker_events_api::{Address, Position};
use esker_nostr::{EventFields, EventId, PublicKey};
use siphasher::sip::SipHasher13;

/// Where an event stands in the order of results, as the index tables hold it. Larger comes first: `place` holds
/// the id's first 64 bits inverted, so that walking an index backwards gives newest first and, at equal times,
/// ids ascending (STORE-F08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) time: i64,
    pub(crate) place: i64,
    pub(crate) seq: i64,
}

impl Key {
    /// Above every key.
    pub(crate) const TOP: Self = Self {
        time: i64::MAX,
        place: i64::MAX,
        seq: i64::MAX,
    };

    pub(crate) fn of(event: &impl EventFields, seq: i64) -> Self {
        Self {
            time: event.created_at(),
            place: id_place(event.id()),
            seq,
        }
    }

    /// The largest key that may belong to an event after `position`. The ids that share its first 64 bits are
    /// among what follows, and are told apart by the whole id.
    pub(crate) fn after(position: Position) -> Self {
        Self {
            time: position.created_at,
            place: id_place(position.id),
            seq: i64::MAX,
        }
    }

    /// The last position that any event with this time and place can have.
    pub(crate) fn position(self) -> Position {
        let mut id = [0xff; 32];
        id[..8].copy_from_slice(&(!self.place.cast_unsigned() ^ SIGN).to_be_bytes());
        Position {
            created_at: self.time,
            id: EventId(id),
        }
    }

    pub(crate) fn same_place(self, other: Self) -> bool {
        self.time == other.time && self.place == other.place
    }
}

const SIGN: u64 = 1 << 63;

fn first_eight(bytes: &[u8; 32]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    u64::from_be_bytes(first)
}

/// An id's place among ids: larger for lower ids.
pub(crate) fn id_place(id: EventId) -> i64 {
    (!first_eight(&id.0) ^ SIGN).cast_signed()
}

/// An author's key: the first 64 bits of the public key.
pub(crate) fn author(pubkey: PublicKey) -> i64 {
    first_eight(&pubkey.0).cast_signed()
}

/// The store's secret hash: nobody outside can aim a collision (STORE-F06), and whatever an index yields is
/// compared with the event itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret(pub(crate) u64, pub(crate) u64);

impl Secret {
    fn hash(self, parts: &[&[u8]]) -> i64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        for part in parts {
            // The length keeps ("ab", "c") and ("a", "bc") apart.
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        hasher.finish().cast_signed()
    }

    /// A tag by name and value.
    pub(crate) fn tag(self, name: char, value: &str) -> i64 {
        self.hash(&[name.encode_utf8(&mut [0; 4]).as_bytes(), value.as_bytes()])
    }

    /// A tag by name, value and the event's author: the conversation of two.
    pub(crate) fn tag_of(self, name: char, value: &str, author: PublicKey) -> i64 {
        self.hash(&[
            name.encode_utf8(&mut [0; 4]).as_bytes(),
            value.as_bytes(),
            &author.0,
        ])
    }

    pub(crate) fn address(self, address: &Address) -> i64 {
        self.hash(&[
            b"address",
            &address.kind.to_be_bytes(),
            &address.pubkey.0,
            address.identifier.as_bytes(),
        ])
    }

    pub(crate) fn deleted_id(self, id: EventId) -> i64 {
        self.hash(&[b"deleted id", &id.0])
    }

    pub(crate) fn deleted_address(self, address: &Address) -> i64 {
        self.hash(&[
            b"deleted",
            &address.kind.to_be_bytes(),
            &address.pubkey.0,
            address.identifier.as_bytes(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(first: u8) -> EventId {
        let mut id = [0; 32];
        id[0] = first;
        EventId(id)
    }

    #[test]
    fn store_f08_keys_order_as_positions_do() {
        let places = [
            (5, id(0)),
            (5, id(1)),
            (5, id(0x80)),
            (5, id(0xff)),
            (4, id(0)),
            (-1, id(9)),
        ];
        for pair in places.windows(2) {
            let [first, second] = [0, 1].map(|n| Position {
                created_at: pair[n].0,
                id: pair[n].1,
            });
            assert!(first < second);
            assert!(
                Key::after(first) > Key::after(second),
                "{first:?} stands before {second:?}"
            );
        }
    }

    #[test]
    fn a_keys_position_is_the_last_of_its_place() {
        let place = Position {
            created_at: 7,
            id: id(0x81),
        };
        let last = Key::after(place).position();
        assert!(place < last);
        assert_eq!(last.id.0[..8], place.id.0[..8]);
        assert!(Key::after(last).same_place(Key::after(place)));
    }
}
