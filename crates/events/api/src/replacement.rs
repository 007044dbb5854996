//! Which of two versions of a replaceable or addressable event wins (STORE-W01, W02).

use crate::Position;

/// Whether `new` supersedes `stored`: it is newer, or at the same time its id is lower. An event never supersedes itself.
pub fn supersedes(new: Position, stored: Position) -> bool {
    // The order of results puts the winner first.
    new < stored
}

#[cfg(test)]
mod tests {
    use esker_nostr::EventId;

    use super::supersedes;
    use crate::Position;

    #[test]
    fn store_w01_newer_wins_and_at_the_same_time_the_lower_id() {
        let at = |created_at, id| Position {
            created_at,
            id: EventId([id; 32]),
        };
        assert!(supersedes(at(2, 9), at(1, 0)));
        assert!(!supersedes(at(1, 0), at(2, 9)));
        assert!(supersedes(at(1, 3), at(1, 4)));
        assert!(!supersedes(at(1, 4), at(1, 3)));
        assert!(
            !supersedes(at(1, 4), at(1, 4)),
            "an event never supersedes itself"
        );
        assert!(supersedes(at(i64::MAX, 0), at(i64::MIN, 0)));
    }
}
