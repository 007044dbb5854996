//! A second opinion on what is an event: `serde_json`, and each rule said plainly.

use std::collections::HashSet;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Rng, json};
use crate::{Event, EventFields, hex, testing};

/// An object's members as they stand, so that doubles show.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// An event's canonical JSON, if it is one.
fn canonical(input: &[u8]) -> Option<String> {
    let Members(members) = serde_json::from_slice(input).ok()?;
    let keys: HashSet<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
    if keys.len() != members.len() {
        return None;
    }
    let get = |key: &str| {
        members
            .iter()
            .find(|member| member.0 == key)
            .map(|member| &member.1)
    };
    let digits = |key: &str, length: usize| {
        let text = get(key)?.as_str()?;
        let lower = text.chars().all(|char| matches!(char, '0'..='9' | 'a'..='f'));
        (text.len() == length && lower).then_some(text)
    };
    let (id, pubkey, sig) = (digits("id", 64)?, digits("pubkey", 64)?, digits("sig", 128)?);
    let created_at = get("created_at")?.as_i64()?;
    let kind = get("kind")?.as_u64().filter(|kind| *kind <= 65_535)?;
    let tags: Vec<Vec<String>> = serde_json::from_value(get("tags")?.clone()).ok()?;
    let content = get("content")?.as_str()?;
    let hashed = serde_json::to_string(&json!([0, pubkey, created_at, kind, tags, content])).ok()?;
    if hex::encode(&Sha256::digest(hashed)) != id {
        return None;
    }
    Some(format!(
        "{{\"id\":\"{id}\",\"pubkey\":\"{pubkey}\",\"created_at\":{created_at},\"kind\":{kind},\"tags\":{},\
        \"content\":{},\"sig\":\"{sig}\"}}",
        json!(tags),
        json!(content)
    ))
}

#[test]
fn relay_02_a_second_parser_takes_and_refuses_the_same_events() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let event = testing::event(&mut rng);
        let mut input = json::respelled(&mut rng, &event);
        if rng.one_in(2) {
            json::mutate(&mut rng, &mut input);
        }
        let ours = Event::parse(&input);
        let theirs = canonical(&input);
        match (&ours, &theirs) {
            (Ok(event), Some(canonical)) => {
                taken += 1;
                assert_eq!(event.json(), canonical.as_bytes(), "seed {seed}");
                assert_eq!(
                    event.id(),
                    Event::from_canonical(event.json().clone()).unwrap().id()
                );
            }
            (Err(_), None) => refused += 1,
            _ => panic!(
                "seed {seed}: {ours:?} but {theirs:?} for {}",
                input.escape_ascii()
            ),
        }
    }
    // Neither side of the comparison is idle.
    assert!(
        taken > 5_000 && refused > 5_000,
        "{taken} taken, {refused} refused"
    );
}

#[test]
fn store_w10_each_spelling_of_an_event_is_kept_as_the_same_bytes() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let event = testing::event(&mut rng);
        let input = json::respelled(&mut rng, &event);
        let parsed = Event::parse(&input).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(parsed.json(), event.json(), "seed {seed}");
    }
}
