//! What a deletion request (NIP-09, kind 5) reaches.

use std::collections::HashSet;

use esker_nostr::{Event, EventFields, EventId, PublicKey, kind};

use crate::Address;

/// What a kind 5 names that its author may delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Events named by `e` tags: deleted if their owner is the author, whatever the times (STORE-D01).
    pub ids: Vec<EventId>,
    /// The author's own addresses named by `a` tags: their versions up to the request's time go (STORE-D02).
    pub addresses: Vec<Address>,
}

impl Targets {
    /// The targets of a kind 5, each once, in order; nothing for other kinds.
    pub fn of(request: &Event) -> Self {
        let mut targets = Self::default();
        if request.kind() != kind::DELETION {
            return targets;
        }
        // A request may name thousands: a set tells what was seen, so that the whole stays linear.
        let (mut ids, mut addresses) = (HashSet::new(), HashSet::new());
        for tag in request.tags() {
            match (tag.name(), tag.value()) {
                ("e", Some(value)) => {
                    targets
                        .ids
                        .extend(EventId::from_hex(value).filter(|id| ids.insert(*id)));
                }
                ("a", Some(value)) => {
                    let own = Address::parse(value).filter(|address| address.pubkey == request.pubkey());
                    targets
                        .addresses
                        .extend(own.filter(|address| addresses.insert(address.clone())));
                }
                _ => {}
            }
        }
        targets
    }

    /// Whether the request names an event, by its id or by its address.
    pub fn name(&self, id: EventId, address: Option<&Address>) -> bool {
        self.ids.contains(&id) || address.is_some_and(|address| self.addresses.contains(address))
    }
}

/// Whether a kind 5 by `author` may delete or block an event of this owner and kind: the owner's own, and
/// neither a deletion nor a vanish request unless deletions are revocable (STORE-D05).
pub fn may_reach(author: PublicKey, owner: PublicKey, kind: u16, revocable: bool) -> bool {
    author == owner && (revocable || !matches!(kind, kind::DELETION | kind::VANISH))
}

/// Whether a stored kind 5 that names the event blocks it (STORE-D04): made at the event's time or after it.
/// An older one named by id deleted what was there when it came, and blocks nothing.
///
/// The same comparison tells whether a kind 5 that names an address deletes the version stored there (STORE-D02).
pub fn blocks(request_created_at: i64, event: &impl EventFields) -> bool {
    request_created_at >= event.created_at()
}

#[cfg(test)]
mod tests {
    use esker_nostr::{Event, EventFields, Keys, kind};

    use super::{Targets, blocks, may_reach};
    use crate::Address;

    #[test]
    fn store_d01_targets_are_the_e_tags_that_are_ids() {
        let keys = Keys::from_seed(1);
        let (a, b) = (
            keys.sign(1, 1, &[[""; 0].to_vec()], "a"),
            keys.sign(1, 1, &[[""; 0].to_vec()], "b"),
        );
        let (id_a, id_b) = (a.id().to_string(), b.id().to_string());
        let upper = id_a.to_uppercase();
        let request = keys.sign(
            5,
            9,
            &[
                vec!["e", &id_b, "wss://hint"],
                vec!["e", &id_a],
                vec!["e", &id_b],
                vec!["e", &upper],
                vec!["e", &id_a[..63]],
                vec!["e", ""],
                vec!["e"],
                vec!["E", &id_a],
                vec!["p", &id_a],
                vec!["k", "1"],
            ],
            "",
        );
        assert_eq!(
            Targets::of(&request),
            Targets {
                ids: vec![b.id(), a.id()],
                addresses: Vec::new()
            }
        );
        assert!(Targets::of(&request).name(a.id(), None));
        let other_kind = keys.sign(6, 9, &[vec!["e", &id_a]], "");
        assert_eq!(Targets::of(&other_kind), Targets::default());
    }

    #[test]
    fn store_d02_targets_are_the_authors_own_addresses() {
        let (keys, other) = (Keys::from_seed(1), Keys::from_seed(2));
        let (own, foreign) = (keys.public(), other.public());
        let request = keys.sign(
            5,
            9,
            &[
                vec!["a".into(), format!("30023:{own}:a:b")],
                vec!["a".into(), format!("30023:{foreign}:a:b")],
                vec!["a".into(), format!("10002:{own}")],
                vec!["a".into(), format!("10002:{own}:")],
                vec!["a".into(), "nonsense".to_owned()],
                vec!["a".into()],
            ],
            "",
        );
        let address = |kind, identifier: &str| Address {
            kind,
            pubkey: own,
            identifier: identifier.into(),
        };
        let targets = Targets::of(&request);
        assert_eq!(
            targets,
            Targets {
                ids: vec![],
                addresses: vec![address(30023, "a:b"), address(10002, "")]
            }
        );
        let named = |event: &Event| targets.name(event.id(), Address::of(event).as_ref());
        assert!(named(&keys.sign(30023, 1, &[vec!["d", "a:b"]], "")));
        assert!(named(&keys.sign(10002, 1, &[vec!["d", "any"]], "")));
        assert!(!named(&keys.sign(30023, 1, &[vec!["d", "a"]], "")));
        assert!(!named(&other.sign(30023, 1, &[vec!["d", "a:b"]], "")));
    }

    #[test]
    fn store_d03_a_request_reaches_only_its_authors_own() {
        let (author, stranger) = (Keys::from_seed(1).public(), Keys::from_seed(2).public());
        assert!(may_reach(author, author, 1, false));
        assert!(!may_reach(author, stranger, 1, false));
        assert!(!may_reach(author, stranger, 1, true));
    }

    #[test]
    fn store_d04_a_request_blocks_up_to_its_own_time() {
        let event = Keys::from_seed(1).sign(1, 100, &[vec!["t"]], "");
        assert!(!blocks(99, &event));
        assert!(blocks(100, &event));
        assert!(blocks(101, &event));
    }

    #[test]
    fn store_d05_deletions_and_vanish_requests_are_out_of_reach_unless_revocable() {
        let author = Keys::from_seed(1).public();
        for kind in [kind::DELETION, kind::VANISH] {
            assert!(!may_reach(author, author, kind, false));
            assert!(may_reach(author, author, kind, true));
        }
    }
}
