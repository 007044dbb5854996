//! The rows of the tag index that an event has.

use esker_nostr::{EventFields, kind};

use crate::keys::{Key, Secret};

/// An event's tag keys, each once, in order, with what its rows share.
#[derive(Debug, Clone)]
pub(crate) struct TagRows {
    pub(crate) kind: u16,
    pub(crate) key: Key,
    pub(crate) tags: Box<[i64]>,
}

impl TagRows {
    pub(crate) fn of(event: &impl EventFields, seq: i64, secret: Secret) -> Self {
        let kind = event.kind();
        let author = event.pubkey();
        // Many events of one author are of a replaceable kind only where the index by author tells them apart
        // already; for the others "this author, about that" has keys of its own.
        let paired = has_pair_rows(kind);
        let mut tags = Vec::new();
        event.any_tag(&mut |name, value| {
            tags.push(secret.tag(name, value));
            if paired {
                tags.push(secret.tag_of(name, value, author));
            }
            false
        });
        tags.sort_unstable();
        tags.dedup();
        Self {
            kind,
            key: Key::of(event, seq),
            tags: tags.into(),
        }
    }
}

/// Whether events of this kind have rows by tag and author together.
pub(crate) fn has_pair_rows(kind: u16) -> bool {
    !kind::is_replaceable(kind) && !kind::is_addressable(kind)
}
