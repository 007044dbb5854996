//! What became of one offered event (STORE-W09).

/// Decided by asking the store, never by parsing a driver's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Kept, durably.
    Stored,
    /// Accepted and broadcast, never stored (STORE-W03).
    Ephemeral,
    /// The same event is stored already.
    Duplicate,
    /// A stored version of the same replaceable or addressable event wins (STORE-W01, W02).
    Replaced,
    /// The event's fault, and final.
    Rejected(Rejection),
    /// The store's fault: worth retrying. The text says what failed.
    Failed(String),
}

/// Why an event is refused for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// It had expired on arrival (STORE-W04).
    Expired,
    /// A stored deletion of its owner names it (STORE-D04).
    Deleted,
    /// Its owner has vanished (STORE-D07).
    Vanished,
}

impl Outcome {
    /// NIP-01's `OK`: whether the relay has the event, and the text with its standard prefix.
    pub fn reply(&self) -> (bool, String) {
        match self {
            Self::Stored | Self::Ephemeral => (true, String::new()),
            Self::Duplicate => (true, "duplicate: already have this event".into()),
            Self::Replaced => (false, "replaced: a newer version exists".into()),
            Self::Rejected(Rejection::Expired) => (false, "invalid: this event has expired".into()),
            Self::Rejected(Rejection::Deleted) => {
                (false, "blocked: a deletion event names this event".into())
            }
            Self::Rejected(Rejection::Vanished) => (false, "blocked: its owner asked to vanish".into()),
            Self::Failed(why) => (false, format!("error: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Rejection};

    #[test]
    fn store_w09_every_outcome_has_its_reply() {
        for (outcome, accepted, prefix) in [
            (Outcome::Stored, true, ""),
            (Outcome::Ephemeral, true, ""),
            (Outcome::Duplicate, true, "duplicate: "),
            (Outcome::Replaced, false, "replaced: "),
            (Outcome::Rejected(Rejection::Expired), false, "invalid: "),
            (Outcome::Rejected(Rejection::Deleted), false, "blocked: "),
            (Outcome::Rejected(Rejection::Vanished), false, "blocked: "),
            (Outcome::Failed("disk full".into()), false, "error: disk full"),
        ] {
            let (ok, text) = outcome.reply();
            assert_eq!(ok, accepted, "{outcome:?}");
            assert!(
                text.starts_with(prefix) && text.is_empty() == prefix.is_empty(),
                "{text:?}"
            );
        }
    }
}
