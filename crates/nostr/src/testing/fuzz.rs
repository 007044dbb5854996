//! The fuzz loop over event, filter and message parsing: seeded, so that each failure can be had again.

use std::{fmt, panic};

use super::{Rng, json, naive_match};
use crate::{
    Canonical, ClientMessage, Event, EventFields, EventId, Filter, PublicKey, RelayMessage,
    event::peek_id,
    message::{MAX_ID_CHARACTERS, Subject},
    scan::Scanner,
    testing,
};

/// A round that failed.
#[derive(Debug)]
pub struct Failure {
    /// Runs the same round again.
    pub seed: u64,
    /// What was parsed.
    pub input: Vec<u8>,
    /// What did not hold.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, input, what } = self;
        write!(f, "seed {seed}: {what}\ninput: {}", input.escape_ascii())
    }
}

/// Runs the round of a seed: some inputs, each through every parser.
pub fn round(seed: u64) -> Result<(), Failure> {
    let mut rng = Rng::new(seed);
    let events: Vec<Event> = (0..3).map(|_| testing::event(&mut rng)).collect();
    for _ in 0..16 {
        let filter = testing::filter(&mut rng, &events);
        if let Err(what) = check_matching(&filter, &events) {
            return Err(Failure {
                seed,
                input: filter.to_string().into_bytes(),
                what,
            });
        }
    }
    for _ in 0..8 {
        let input = input(&mut rng, &events);
        let outcome = panic::catch_unwind(|| check(&input, &events));
        let what = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(what)) => what,
            Err(_) => "it panicked".into(),
        };
        return Err(Failure { seed, input, what });
    }
    Ok(())
}

/// Something valid, something alike, or either broken.
fn input(rng: &mut Rng, events: &[Event]) -> Vec<u8> {
    let event = rng.pick(events);
    let mut input = match rng.below(8) {
        0 => event.json().to_vec(),
        1 | 2 => json::respelled(rng, event),
        3 => testing::filter(rng, events).to_string().into_bytes(),
        4 => json::object(rng).into_bytes(),
        5 => json::message(rng).into_bytes(),
        6 => {
            let event = json::respelled(rng, event);
            [b"[\"EVENT\",", event.as_slice(), b"]"].concat()
        }
        _ => {
            let filters = rng.list(3, |rng| format!(",{}", testing::filter(rng, events)));
            format!("[\"{}\",\"s\"{}]", rng.pick(&["REQ", "COUNT"]), filters.concat()).into_bytes()
        }
    };
    if rng.one_in(2) {
        json::mutate(rng, &mut input);
    }
    input
}

fn check(input: &[u8], events: &[Event]) -> Result<(), String> {
    check_event(input)?;
    check_filter(input, events)?;
    check_message(input)
}

fn that(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn check_event(input: &[u8]) -> Result<(), String> {
    look_at(&Canonical::new(input));
    if let Ok(event) = Event::from_canonical(input.to_vec().into()) {
        look_at(&event);
    }
    let peeked = peek_id(input);
    let event = match Event::parse(input) {
        Ok(event) => event,
        Err(error) => return check_text(&error.to_string()),
    };
    that(peeked == Some(event.id()) || input.contains(&b'\\'), || {
        format!("peek_id gave {peeked:?}")
    })?;
    let again = Event::parse(event.json()).map_err(|error| format!("canonical JSON refused: {error}"))?;
    that(again == event, || format!("canonical JSON changed: {again:?}"))?;
    let trusted = Event::from_canonical(event.json().clone()).map_err(|error| error.to_string())?;
    that(look_at(&trusted) == look_at(&event), || {
        "from_canonical differs".into()
    })?;
    let view = Canonical::new(event.json());
    that(look_at(&view) == look_at(&event), || "Canonical differs".into())?;
    that(view.owner() == event.owner(), || "the owner differs".into())?;
    that(view.expiration() == event.expiration(), || {
        "the expiration differs".into()
    })?;
    that(view.identifier() == event.identifier(), || {
        "the identifier differs".into()
    })?;
    let tags: Vec<Vec<&str>> = event.tags().map(|tag| tag.elements().collect()).collect();
    let rebuilt = testing::unsigned(
        event.pubkey(),
        event.kind(),
        event.created_at(),
        &tags,
        &event.content(),
    );
    that(rebuilt.id() == event.id(), || {
        "the decoded fields have another id".into()
    })
}

/// All that the matcher can see.
#[derive(PartialEq)]
struct Seen(EventId, PublicKey, i64, u16, Vec<(char, String)>);

fn look_at(event: &impl EventFields) -> Seen {
    let mut tags = Vec::new();
    event.any_tag(&mut |name, value| {
        tags.push((name, value.to_owned()));
        false
    });
    Seen(event.id(), event.pubkey(), event.created_at(), event.kind(), tags)
}

fn check_filter(input: &[u8], events: &[Event]) -> Result<(), String> {
    let filter = match Filter::parse(input) {
        Ok(filter) => filter,
        Err(error) => return check_text(&error.to_string()),
    };
    let shown = filter.to_string();
    let again = Filter::parse(shown.as_bytes()).map_err(|error| format!("{shown} refused: {error}"))?;
    that(again == filter, || format!("shown as {shown}"))?;
    check_matching(&filter, events)
}

fn check_matching(filter: &Filter, events: &[Event]) -> Result<(), String> {
    for event in events {
        let expected = naive_match(filter, event);
        that(filter.matches(event) == expected, || {
            format!("expected {expected} of {event:?}")
        })?;
        that(filter.matches(&Canonical::new(event.json())) == expected, || {
            format!("stored, of {event:?}")
        })?;
        that(!(expected && filter.matches_nothing()), || {
            format!("matches_nothing, yet {event:?}")
        })?;
    }
    Ok(())
}

fn check_message(input: &[u8]) -> Result<(), String> {
    let error = match ClientMessage::parse(input) {
        Err(error) => error,
        Ok(ClientMessage::Event(body) | ClientMessage::Auth(body)) => {
            that(body.starts_with(b"{") && input.len() > body.len(), || {
                "no event".into()
            })?;
            return check_event(body);
        }
        Ok(ClientMessage::Req { id, filters } | ClientMessage::Count { id, filters }) => {
            that(!filters.is_empty(), || "no filter".into())?;
            return check_id(&id);
        }
        Ok(
            ClientMessage::Close(id)
            | ClientMessage::NegOpen { id, .. }
            | ClientMessage::NegMsg { id, .. }
            | ClientMessage::NegClose(id),
        ) => return check_id(&id),
    };
    let prefixed = ["invalid: ", "unsupported: "]
        .iter()
        .any(|prefix| error.reason.starts_with(prefix));
    that(prefixed, || format!("no prefix: {error}"))?;
    check_text(&error.reason)?;
    if let Subject::Subscription(id) | Subject::Negentropy(id) = &error.subject {
        that(id.chars().count() <= MAX_ID_CHARACTERS, || {
            format!("long id: {id}")
        })?;
        return check_json(&RelayMessage::Closed(id, &error.reason).to_json());
    }
    check_json(&RelayMessage::Notice(&error.reason).to_json())
}

fn check_id(id: &str) -> Result<(), String> {
    that((1..=MAX_ID_CHARACTERS).contains(&id.chars().count()), || {
        format!("an id of wrong length: {id}")
    })
}

/// What a refusal says is short.
fn check_text(text: &str) -> Result<(), String> {
    that((1..=200).contains(&text.chars().count()), || {
        format!("a text of wrong length: {text}")
    })
}

fn check_json(json: &str) -> Result<(), String> {
    let mut scanner = Scanner::new(json);
    let read = scanner.skip().and_then(|()| scanner.end());
    that(read.is_ok(), || format!("wrote no JSON: {json}"))
}

#[cfg(test)]
mod tests {
    use super::round;

    /// `cargo run -p esker-nostr --features testing --example fuzz` goes on for ever.
    #[test]
    fn parsers_hold_what_they_promise_on_generated_input() {
        for seed in 0..10_000 {
            if let Err(failure) = round(seed) {
                panic!("{failure}");
            }
        }
    }
}
