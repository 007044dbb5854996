//! A second matcher, as plain as can be, so that the one that the stores use is compared with something.

use esker_nostr::{Event, EventFields, EventId, Filter, TagCondition, kind};

/// Whether an event matches a filter, limit and search aside (STORE-F01 to F05, F11).
pub(crate) fn matches(filter: &Filter, event: &Event) -> bool {
    let tags = indexed(event);
    let has = |condition: &TagCondition, value: &str| {
        tags.iter()
            .any(|(name, tag)| *name == condition.name && tag == value)
    };
    let listed = |list: Option<bool>| list.unwrap_or(true);
    listed(
        filter
            .ids
            .as_ref()
            .map(|ids| ids.iter().any(|id| *id == event.id())),
    ) && listed(
        filter
            .authors
            .as_ref()
            .map(|authors| authors.iter().any(|key| *key == event.pubkey())),
    ) && listed(
        filter
            .kinds
            .as_ref()
            .map(|kinds| kinds.iter().any(|kind| *kind == event.kind())),
    ) && filter
        .tags
        .iter()
        .all(|condition| condition.values.iter().any(|value| has(condition, value)))
        && filter.tags_all.iter().all(|condition| {
            !condition.values.is_empty() && condition.values.iter().all(|value| has(condition, value))
        })
        && filter.since.is_none_or(|since| since <= event.created_at())
        && filter.until.is_none_or(|until| event.created_at() <= until)
        && !filter.unindexed_tag
}

/// The indexed tags (STORE-F04), with the one `d` that an addressable event has (STORE-F05).
fn indexed(event: &Event) -> Vec<(char, String)> {
    let addressable = kind::is_addressable(event.kind());
    let mut tags: Vec<(char, String)> = Vec::new();
    for tag in event.tags() {
        let mut name = tag.name().chars();
        if let (Some(name), None, Some(value)) = (name.next(), name.next(), tag.value())
            && !(addressable && name == 'd')
        {
            tags.push((name, value.into()));
        }
    }
    if addressable {
        tags.push(('d', first_d(event)));
    }
    tags
}

fn first_d(event: &Event) -> String {
    event
        .tags()
        .filter(|tag| tag.name() == "d")
        .find_map(|tag| tag.value())
        .unwrap_or_default()
        .into()
}

/// The id in canonical JSON, read where the layout puts it.
pub(crate) fn id(json: &[u8]) -> EventId {
    let digits = json
        .get(b"{\"id\":\"".len()..)
        .and_then(|rest| rest.get(..64))
        .expect("canonical JSON");
    let digits = std::str::from_utf8(digits).expect("canonical JSON");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("canonical JSON");
    EventId(std::array::from_fn(|at| byte(2 * at)))
}
