//! What an event must be to be taken, beyond being one: decided from the event and the limits alone.

use esker_nostr::{Event, EventFields, kind};

use crate::{Limits, counters::Refusal};

/// Why an event is refused, and the text of its OK; `None` if it is not.
///
/// `size` is how many bytes it was sent in.
pub(super) fn refusal(event: &Event, size: usize, limits: &Limits, now: i64) -> Option<(Refusal, String)> {
    if size > limits.event_bytes {
        let max = limits.event_bytes;
        return Some((
            Refusal::Size,
            format!("invalid: an event may have at most {max} bytes, this has {size}"),
        ));
    }
    let tags = event.tags().len();
    if tags > limits.event_tags {
        let max = limits.event_tags;
        return Some((
            Refusal::Tags,
            format!("invalid: an event may have at most {max} tags, this has {tags}"),
        ));
    }
    if event.kind() == kind::AUTH {
        return Some((
            Refusal::Kind,
            "invalid: kind 22242 belongs into an AUTH message".into(),
        ));
    }
    let ahead = i64::from(limits.created_at_ahead_secs);
    if event.created_at() > now.saturating_add(ahead) {
        return Some((
            Refusal::Future,
            format!("invalid: created_at is more than {ahead} seconds ahead"),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use esker_nostr::{Keys, kind};

    use super::refusal;
    use crate::{Limits, counters::Refusal};

    #[test]
    fn relay_02_each_policy_refuses_with_its_reason() {
        let limits = Limits {
            event_bytes: 2000,
            event_tags: 2,
            created_at_ahead_secs: 900,
            ..Limits::default()
        };
        let now = 1_700_000_000;
        let check = |kind, created_at, tags: &[Vec<&str>], size| {
            let event = Keys::from_seed(1).sign(kind, created_at, tags, "");
            refusal(&event, size, &limits, now).map(|(refusal, _)| refusal)
        };
        let tag = vec!["t", "x"];
        assert_eq!(check(1, now + 900, &[tag.clone(), tag.clone()], 2000), None);
        assert_eq!(check(1, 0, &[], 2000), None);
        assert_eq!(check(1, i64::MAX, &[], 2000), Some(Refusal::Future));
        assert_eq!(check(1, now + 901, &[], 2000), Some(Refusal::Future));
        assert_eq!(
            check(1, now, &[tag.clone(), tag.clone(), tag], 2000),
            Some(Refusal::Tags)
        );
        assert_eq!(check(1, now, &[], 2001), Some(Refusal::Size));
        assert_eq!(check(kind::AUTH, now, &[], 2000), Some(Refusal::Kind));
    }
}
