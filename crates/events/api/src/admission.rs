//! Whether an offered event is kept and what keeping it does: one order of decisions for every engine.

use esker_nostr::{Event, EventFields, EventId, PublicKey, kind};

use crate::{
    Address, Options, Outcome, Position, Rejection, deletion, deletion::Targets, replacement, vanish,
};

/// What the decision asks of a store, within the transaction of the insert (STORE-W09).
///
/// Everything that is stored counts, expired or not: an expired event goes by the sweep, not before (STORE-W05).
pub trait Facts {
    /// Why the store could not answer.
    type Error;

    /// Whether the event is stored.
    fn holds(&mut self, event: &Event) -> Result<bool, Self::Error>;

    /// `created_at` of the newest stored vanish request of this author that [`vanish::honours`] (STORE-D07).
    fn vanished_at(&mut self, author: PublicKey) -> Result<Option<i64>, Self::Error>;

    /// `created_at` of the newest stored kind 5 of this author that names the id, or the address (STORE-D04).
    fn deleted_at(
        &mut self,
        author: PublicKey,
        id: EventId,
        address: Option<&Address>,
    ) -> Result<Option<i64>, Self::Error>;

    /// The stored version at an address (STORE-W01, W02).
    fn version(&mut self, address: &Address) -> Result<Option<Position>, Self::Error>;
}

/// What is to be done with an offered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Not kept; nothing changes. Never [`Outcome::Stored`], [`Outcome::Ephemeral`] or [`Outcome::Failed`].
    Refuse(Outcome),
    /// Broadcast, not stored: [`Outcome::Ephemeral`] (STORE-W03).
    Broadcast,
    /// Stored, with these effects in the same savepoint: [`Outcome::Stored`].
    Keep(Effects),
}

/// What goes when an event is stored. At most one of the three is there, as an event has one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The version that lost (STORE-W01, W02).
    pub replaced: Option<Position>,
    /// What a kind 5 names. Of the ids those go that [`deletion::may_reach`] (STORE-D01, D05); of the versions at
    /// the addresses those that the request [`deletion::blocks`] (STORE-D02).
    pub deleted: Targets,
    /// Everything that this author owns and that is older than this `created_at` (STORE-D07).
    pub vanished: Option<(PublicKey, i64)>,
}

/// Decides about one event at `now`, in this order: expired on arrival, already stored, vanished owner, deleted,
/// ephemeral, beaten at its address, kept.
pub fn decide<F: Facts>(
    event: &Event,
    now: i64,
    options: &Options,
    facts: &mut F,
) -> Result<Decision, F::Error> {
    let refuse = |rejection| Ok(Decision::Refuse(Outcome::Rejected(rejection)));
    if is_expired(event.expiration(), now) {
        return refuse(Rejection::Expired);
    }
    if facts.holds(event)? {
        return Ok(Decision::Refuse(Outcome::Duplicate));
    }
    let owner = event.owner();
    if facts
        .vanished_at(owner)?
        .is_some_and(|vanished| vanished >= event.created_at())
    {
        return refuse(Rejection::Vanished);
    }
    let address = Address::of(event);
    if deletion::may_reach(owner, owner, event.kind(), options.revocable_deletions)
        && facts
            .deleted_at(owner, event.id(), address.as_ref())?
            .is_some_and(|deleted| deletion::blocks(deleted, event))
    {
        return refuse(Rejection::Deleted);
    }
    if kind::is_ephemeral(event.kind()) {
        return Ok(Decision::Broadcast);
    }
    let replaced = match &address {
        Some(address) => facts.version(address)?,
        None => None,
    };
    if replaced.is_some_and(|stored| !replacement::supersedes(position(event), stored)) {
        return Ok(Decision::Refuse(Outcome::Replaced));
    }
    let vanished = vanish::honours(event, options.relay_url.as_deref());
    Ok(Decision::Keep(Effects {
        replaced,
        deleted: Targets::of(event),
        vanished: vanished.then(|| (event.pubkey(), event.created_at())),
    }))
}

/// Whether an event with this expiration has expired: at its time, not after it (STORE-W04, W05).
pub fn is_expired(expiration: Option<i64>, now: i64) -> bool {
    expiration.is_some_and(|expiration| expiration <= now)
}

/// An event's place in the order of results.
pub fn position(event: &impl EventFields) -> Position {
    Position {
        created_at: event.created_at(),
        id: event.id(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use esker_nostr::{Event, EventFields, EventId, Keys, PublicKey};

    use super::{Address, Decision, Effects, Facts, Position, Targets, decide, is_expired};
    use crate::{Options, Outcome, Rejection};

    /// A store that answers what it is told to, so that each decision stands alone.
    #[derive(Default, Clone)]
    struct Told {
        holds: bool,
        vanished_at: Option<(PublicKey, i64)>,
        deleted_at: Option<(PublicKey, i64)>,
        version: Option<Position>,
    }

    impl Facts for Told {
        type Error = Infallible;
        fn holds(&mut self, _: &Event) -> Result<bool, Infallible> {
            Ok(self.holds)
        }
        fn vanished_at(&mut self, author: PublicKey) -> Result<Option<i64>, Infallible> {
            Ok(self
                .vanished_at
                .filter(|(who, _)| *who == author)
                .map(|(_, at)| at))
        }
        fn deleted_at(
            &mut self,
            author: PublicKey,
            _: EventId,
            _: Option<&Address>,
        ) -> Result<Option<i64>, Infallible> {
            Ok(self
                .deleted_at
                .filter(|(who, _)| *who == author)
                .map(|(_, at)| at))
        }
        fn version(&mut self, _: &Address) -> Result<Option<Position>, Infallible> {
            Ok(self.version)
        }
    }

    fn keys() -> Keys {
        Keys::from_seed(1)
    }

    fn event(kind: u16, created_at: i64, tags: &[[&str; 2]]) -> Event {
        let tags: Vec<_> = tags.iter().map(|tag| tag.to_vec()).collect();
        keys().sign(kind, created_at, &tags, "")
    }

    fn decided(event: &Event, told: &Told) -> Decision {
        decide(event, 1_000, &Options::default(), &mut told.clone()).expect("a told store never fails")
    }

    fn refused(event: &Event, told: &Told) -> Option<Outcome> {
        match decided(event, told) {
            Decision::Refuse(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Every reason to refuse at once.
    fn everything_against() -> Told {
        Told {
            holds: true,
            vanished_at: Some((keys().public(), 500)),
            deleted_at: Some((keys().public(), 500)),
            version: Some(Position {
                created_at: 501,
                id: EventId([0; 32]),
            }),
        }
    }

    #[test]
    fn store_w04_an_event_has_expired_at_its_very_second() {
        assert!(!is_expired(None, i64::MAX));
        assert!(!is_expired(Some(1_001), 1_000));
        assert!(is_expired(Some(1_000), 1_000));
        assert!(is_expired(Some(0), 1_000) && is_expired(Some(i64::MIN), 1_000));
        let fresh = event(1, 1, &[["expiration", "1001"]]);
        let late = event(1, 1, &[["expiration", "1000"]]);
        assert_eq!(refused(&fresh, &Told::default()), None);
        assert_eq!(
            refused(&late, &Told::default()),
            Some(Outcome::Rejected(Rejection::Expired))
        );
    }

    #[test]
    fn store_w09_decisions_have_one_order() {
        let mut told = everything_against();
        let expired = event(10_002, 500, &[["expiration", "1000"]]);
        assert_eq!(
            refused(&expired, &told),
            Some(Outcome::Rejected(Rejection::Expired))
        );
        let event = event(10_002, 500, &[]);
        assert_eq!(refused(&event, &told), Some(Outcome::Duplicate));
        told.holds = false;
        assert_eq!(
            refused(&event, &told),
            Some(Outcome::Rejected(Rejection::Vanished))
        );
        told.vanished_at = None;
        assert_eq!(
            refused(&event, &told),
            Some(Outcome::Rejected(Rejection::Deleted))
        );
        told.deleted_at = None;
        assert_eq!(refused(&event, &told), Some(Outcome::Replaced));
        told.version = None;
        assert_eq!(decided(&event, &told), Decision::Keep(Effects::default()));
    }

    #[test]
    fn store_w03_an_ephemeral_event_is_broadcast_unless_blocked() {
        let ephemeral = event(20_001, 500, &[]);
        assert_eq!(decided(&ephemeral, &Told::default()), Decision::Broadcast);
        let blocked = Told {
            holds: false,
            ..everything_against()
        };
        assert_eq!(
            refused(&ephemeral, &blocked),
            Some(Outcome::Rejected(Rejection::Vanished))
        );
    }

    #[test]
    fn store_w01_the_winner_names_the_version_it_replaces() {
        let new = event(10_002, 500, &[]);
        for (stored, wins) in [
            (
                Position {
                    created_at: 499,
                    id: EventId([0; 32]),
                },
                true,
            ),
            (
                Position {
                    created_at: 500,
                    id: EventId([0xff; 32]),
                },
                true,
            ),
            (
                Position {
                    created_at: 500,
                    id: EventId([0; 32]),
                },
                false,
            ),
            (
                Position {
                    created_at: 501,
                    id: EventId([0xff; 32]),
                },
                false,
            ),
        ] {
            let expected = if wins {
                Decision::Keep(Effects {
                    replaced: Some(stored),
                    ..Effects::default()
                })
            } else {
                Decision::Refuse(Outcome::Replaced)
            };
            assert_eq!(
                decided(
                    &new,
                    &Told {
                        version: Some(stored),
                        ..Told::default()
                    }
                ),
                expected
            );
        }
    }

    #[test]
    fn store_w06_a_wrap_is_blocked_by_its_recipients_requests_alone() {
        let recipient = Keys::from_seed(2).public();
        let wrap = event(1059, 500, &[["p", &recipient.to_string()]]);
        let by = |who| {
            [
                Told {
                    vanished_at: Some((who, 500)),
                    ..Told::default()
                },
                Told {
                    deleted_at: Some((who, 500)),
                    ..Told::default()
                },
            ]
        };
        for told in by(recipient) {
            assert!(refused(&wrap, &told).is_some());
        }
        for told in by(keys().public()) {
            assert_eq!(refused(&wrap, &told), None);
        }
    }

    #[test]
    fn store_d04_a_deletion_blocks_up_to_its_own_time() {
        let told = |at| Told {
            deleted_at: Some((keys().public(), at)),
            ..Told::default()
        };
        let note = event(1, 500, &[]);
        assert_eq!(refused(&note, &told(499)), None);
        assert_eq!(
            refused(&note, &told(500)),
            Some(Outcome::Rejected(Rejection::Deleted))
        );
    }

    #[test]
    fn store_d05_a_deletion_blocks_no_deletion_unless_revocable() {
        let told = Told {
            deleted_at: Some((keys().public(), 600)),
            ..Told::default()
        };
        let revocable = Options {
            revocable_deletions: true,
            ..Options::default()
        };
        for kind in [5, 62] {
            let request = event(kind, 500, &[]);
            assert_eq!(refused(&request, &told), None);
            let decision = decide(&request, 1_000, &revocable, &mut told.clone());
            assert_eq!(
                decision,
                Ok(Decision::Refuse(Outcome::Rejected(Rejection::Deleted)))
            );
        }
    }

    #[test]
    fn store_d07_a_vanish_request_blocks_up_to_and_including_its_time() {
        let told = |at| Told {
            vanished_at: Some((keys().public(), at)),
            ..Told::default()
        };
        for kind in [1, 5, 62] {
            let event = event(kind, 500, &[]);
            assert_eq!(refused(&event, &told(499)), None);
            assert_eq!(
                refused(&event, &told(500)),
                Some(Outcome::Rejected(Rejection::Vanished))
            );
        }
    }

    #[test]
    fn store_d07_an_honoured_request_takes_its_authors_older_events() {
        let all = event(62, 500, &[["relay", "ALL_RELAYS"]]);
        let elsewhere = event(62, 500, &[["relay", "wss://other.example"]]);
        let vanished = Some((keys().public(), 500));
        assert_eq!(
            decided(&all, &Told::default()),
            Decision::Keep(Effects {
                vanished,
                ..Effects::default()
            })
        );
        assert_eq!(
            decided(&elsewhere, &Told::default()),
            Decision::Keep(Effects::default())
        );
    }

    #[test]
    fn store_d01_a_deletion_carries_its_targets() {
        let id = event(1, 1, &[]).id();
        let request = event(5, 500, &[["e", &id.to_string()]]);
        let deleted = Targets {
            ids: vec![id],
            addresses: Vec::new(),
        };
        assert_eq!(
            decided(&request, &Told::default()),
            Decision::Keep(Effects {
                deleted,
                ..Effects::default()
            })
        );
    }
}
