//! Other spellings of the same JSON, other JSON, and bytes that are hardly JSON at all.

use super::Rng;
use crate::{Event, EventFields, hex};

/// The same event in another layout: members in any order, white space, needless escapes, unknown members.
pub fn respelled(rng: &mut Rng, event: &Event) -> Vec<u8> {
    let tags: Vec<String> = event
        .tags()
        .map(|tag| {
            let elements: Vec<String> = tag.elements().map(|element| string(rng, element)).collect();
            list(rng, '[', &elements, ']')
        })
        .collect();
    let fields = [
        ("id", string(rng, &event.id().to_string())),
        ("pubkey", string(rng, &event.pubkey().to_string())),
        ("created_at", event.created_at().to_string()),
        ("kind", event.kind().to_string()),
        ("tags", list(rng, '[', &tags, ']')),
        ("content", string(rng, &event.content())),
        ("sig", string(rng, &hex::encode(&event.sig()))),
    ];
    let mut members: Vec<String> = fields
        .iter()
        .map(|(key, value)| member(rng, key, value))
        .collect();
    for unknown in 0..rng.below(3) {
        let value = value(rng, 4);
        members.push(member(rng, &format!("x{unknown}"), &value));
    }
    for at in (1..members.len()).rev() {
        members.swap(at, rng.below(at + 1));
    }
    list(rng, '{', &members, '}').into_bytes()
}

/// A string in any of its spellings.
fn string(rng: &mut Rng, text: &str) -> String {
    let mut json = String::from('"');
    for char in text.chars() {
        let short = match char {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        let may_stand = !matches!(char, '"' | '\\' | '\0'..=' ') || char == ' ';
        match short {
            _ if may_stand && !rng.one_in(16) => json.push(char),
            Some(short) if !rng.one_in(4) => json.push_str(short),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let digits = hex::encode(&unit.to_be_bytes());
                    json.push_str("\\u");
                    json.push_str(&if rng.one_in(2) {
                        digits.to_uppercase()
                    } else {
                        digits
                    });
                }
            }
        }
    }
    json.push('"');
    json
}

fn space(rng: &mut Rng) -> &'static str {
    const SPACES: [&str; 5] = [" ", "\n", "\t", "\r\n", "  "];
    SPACES.get(rng.below(40)).copied().unwrap_or_default()
}

fn member(rng: &mut Rng, key: &str, value: &str) -> String {
    let (before, after) = (space(rng), space(rng));
    format!("{}{before}:{after}{value}", string(rng, key))
}

fn list(rng: &mut Rng, open: char, members: &[String], close: char) -> String {
    let mut json = format!("{}{open}{}", space(rng), space(rng));
    for (index, member) in members.iter().enumerate() {
        if index > 0 {
            json.push_str(space(rng));
            json.push(',');
            json.push_str(space(rng));
        }
        json.push_str(member);
    }
    json.push_str(space(rng));
    json.push(close);
    json.push_str(space(rng));
    json
}

/// Any JSON value, nested at most so deep.
pub fn value(rng: &mut Rng, depth: usize) -> String {
    const SCALARS: [&str; 16] = [
        "0",
        "1",
        "-1",
        "-0",
        "1.0",
        "1e3",
        "65535",
        "65536",
        "9223372036854775807",
        "9223372036854775808",
        "1.5E-3",
        "true",
        "false",
        "null",
        "99999999999999999999",
        "-9223372036854775809",
    ];
    match rng.below(if depth == 0 { 4 } else { 8 }) {
        0 | 1 => (*rng.pick(&SCALARS)).into(),
        2 | 3 => {
            let text = super::tag_value(rng);
            string(rng, &text)
        }
        4 | 5 => {
            let members = rng.list(4, |rng| value(rng, depth - 1));
            list(rng, '[', &members, ']')
        }
        _ => {
            let members = rng.list(4, |rng| {
                let value = value(rng, depth - 1);
                let key = super::text(rng, 2);
                member(rng, &key, &value)
            });
            list(rng, '{', &members, '}')
        }
    }
}

/// An object of the members that events and filters have, with values of any type.
pub fn object(rng: &mut Rng) -> String {
    const KEYS: [&str; 20] = [
        "id",
        "pubkey",
        "created_at",
        "kind",
        "tags",
        "content",
        "sig",
        "ids",
        "authors",
        "kinds",
        "since",
        "until",
        "limit",
        "search",
        "#e",
        "#t",
        "&t",
        "#d",
        "#long",
        "#",
    ];
    let members = rng.list(8, |rng| {
        let value = value(rng, 3);
        let key = *rng.pick(&KEYS);
        member(rng, key, &value)
    });
    list(rng, '{', &members, '}')
}

/// A list such as messages are, of a known or unknown type, with members of any kind.
pub fn message(rng: &mut Rng) -> String {
    const TYPES: [&str; 9] = [
        "EVENT",
        "REQ",
        "COUNT",
        "CLOSE",
        "AUTH",
        "NEG-OPEN",
        "NEG-MSG",
        "NEG-CLOSE",
        "OTHER",
    ];
    let kind = *rng.pick(&TYPES);
    let mut members = vec![string(rng, kind)];
    members.extend(rng.list(4, |rng| match rng.below(4) {
        0 => value(rng, 2),
        1 => object(rng),
        _ => {
            let id = super::text(rng, 4);
            string(rng, &id)
        }
    }));
    list(rng, '[', &members, ']')
}

/// Breaks bytes in a few places: changed, removed, doubled, inserted, cut off.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const TOKENS: [&str; 30] = [
        "\"",
        "\\",
        "\\u",
        "\\ud800",
        "\\udc00",
        "\\u0000",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "-",
        "0",
        ".0",
        "e1",
        "null",
        "\n",
        " ",
        "\u{feff}",
        "\0",
        "\u{7f}",
        "\u{1f600}",
        "\"id\":",
        "\"kind\":1,",
        "[[[[",
        "[]",
        "\"\"",
        "F",
        "99999999999999999999",
    ];
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        let end = at + rng.below((bytes.len() - at).min(40) + 1);
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] = rng.next_u64().to_le_bytes()[0],
            1 => drop(bytes.drain(at..end)),
            2 => bytes.truncate(at),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = rng.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => drop(bytes.splice(at..at, rng.pick(&TOKENS).bytes())),
        }
    }
}
