//! An event as the store holds it: canonical bytes, read in place without parsing.

use std::borrow::Cow;

use crate::{
    escape,
    event::{self, EventFields, EventId, PublicKey},
    hex, kind,
    layout::{BEFORE_KIND, BEFORE_TAGS, CREATED_AT, ID, PUBKEY},
};

/// A view over canonical event JSON ([`crate::Event::json`]); the fixed layout makes most fields an offset.
#[derive(Clone, Copy)]
pub struct Canonical<'a>(&'a [u8]);

impl<'a> Canonical<'a> {
    /// A view over bytes that [`crate::Event::json`] gave. Other bytes give wrong answers, never a panic.
    pub fn new(json: &'a [u8]) -> Self {
        Self(json)
    }
    /// The bytes.
    pub fn json(&self) -> &'a [u8] {
        self.0
    }
    /// Whose event it is (STORE-W06), as [`crate::Event::owner`].
    pub fn owner(&self) -> PublicKey {
        if self.kind() != kind::GIFT_WRAP {
            return self.pubkey();
        }
        let mut recipients = self.values().filter(|(name, _)| *name == b"p");
        recipients
            .find_map(|(_, value)| hex::decode(value))
            .map_or_else(|| self.pubkey(), PublicKey)
    }
    /// When the event expires (NIP-40), as [`crate::Event::expiration`].
    pub fn expiration(&self) -> Option<i64> {
        let mut values = self.values().filter(|(name, _)| *name == b"expiration");
        values.find_map(|(_, value)| event::expiration(std::str::from_utf8(value).ok()?))
    }

    /// The first `d` value, or the empty string, as [`crate::Event::identifier`].
    pub fn identifier(&self) -> Cow<'a, str> {
        self.values()
            .find(|(name, _)| *name == b"d")
            .and_then(|(_, value)| decode(value))
            .unwrap_or_default()
    }

    fn created_at_text(&self) -> &'a [u8] {
        integer_at(self.0, CREATED_AT)
    }

    fn kind_text(&self) -> &'a [u8] {
        integer_at(
            self.0,
            CREATED_AT + self.created_at_text().len() + BEFORE_KIND.len(),
        )
    }

    /// Names and values of the tags that have both, as they stand between their quotes.
    fn values(&self) -> Values<'a> {
        let before = CREATED_AT + self.created_at_text().len() + BEFORE_KIND.len();
        let start = before + self.kind_text().len() + BEFORE_TAGS.len();
        Values {
            rest: self
                .0
                .get(start..)
                .and_then(|tags| tags.strip_prefix(b"["))
                .unwrap_or_default(),
        }
    }
}

/// The digits at an offset, up to the comma.
fn integer_at(json: &[u8], start: usize) -> &[u8] {
    let rest = json.get(start..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
    &rest[..end]
}

fn parse_integer<T: std::str::FromStr + Default>(text: &[u8]) -> T {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn hex_at<const N: usize>(json: &[u8], range: std::ops::Range<usize>) -> [u8; N] {
    json.get(range).and_then(hex::decode).unwrap_or([0; N])
}

/// A string as it stands between its quotes, unescaped.
fn decode(raw: &[u8]) -> Option<Cow<'_, str>> {
    let raw = std::str::from_utf8(raw).ok()?;
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Some(Cow::Borrowed(raw));
    }
    let mut text = String::with_capacity(raw.len());
    escape::unescape(raw, &mut text);
    Some(Cow::Owned(text))
}

/// Walks `["name","value",…],…]`, tag by tag.
struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// Reads over the string that begins here.
    fn string(&mut self) -> Option<&'a [u8]> {
        let contents = self.rest.strip_prefix(b"\"")?;
        let mut at = 0;
        loop {
            at += escape::plain_run(contents.get(at..)?);
            match contents.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                // Only bytes that are not canonical have control characters.
                _ => at += 1,
            }
        }
        let (string, after) = contents.split_at(at);
        self.rest = &after[1..];
        Some(string)
    }

    fn skip(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The next tag's name, empty for an empty tag, and its value if it has one.
    fn tag(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        self.skip(b',');
        self.rest = self.rest.strip_prefix(b"[")?;
        if self.skip(b']') {
            return Some((b"", None));
        }
        let name = self.string()?;
        let mut value = None;
        while self.skip(b',') {
            let element = self.string()?;
            value.get_or_insert(element);
        }
        self.skip(b']').then_some((name, value))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let (name, Some(value)) = self.tag()? {
                return Some((name, value));
            }
        }
    }
}

impl EventFields for Canonical<'_> {
    fn id(&self) -> EventId {
        EventId(hex_at(self.0, ID))
    }
    fn pubkey(&self) -> PublicKey {
        PublicKey(hex_at(self.0, PUBKEY))
    }
    fn created_at(&self) -> i64 {
        parse_integer(self.created_at_text())
    }
    fn kind(&self) -> u16 {
        parse_integer(self.kind_text())
    }
    fn any_tag(&self, test: &mut dyn FnMut(char, &str) -> bool) -> bool {
        let addressable = kind::is_addressable(self.kind());
        if addressable && test('d', &self.identifier()) {
            return true;
        }
        self.values().any(|(name, value)| {
            let name = match name {
                // One byte is the common case, and never an escape.
                [byte] => byte.is_ascii().then_some(char::from(*byte)),
                // The longest spelling of one character is `\u00xx`.
                [_, _, ..] if name.len() <= 6 => decode(name).and_then(|name| event::one_character(&name)),
                _ => None,
            };
            let Some(name) = name.filter(|name| !(addressable && *name == 'd')) else {
                return false;
            };
            decode(value).is_some_and(|value| test(name, &value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Keys};

    fn indexed(event: &impl EventFields) -> Vec<(char, String)> {
        let mut seen = Vec::new();
        assert!(!event.any_tag(&mut |name, value| {
            seen.push((name, value.to_owned()));
            false
        }));
        seen
    }

    fn agree(event: &Event) {
        let view = Canonical::new(event.json());
        assert_eq!(view.id(), event.id());
        assert_eq!(view.pubkey(), event.pubkey());
        assert_eq!(view.created_at(), event.created_at());
        assert_eq!(view.kind(), event.kind());
        assert_eq!(view.owner(), event.owner());
        assert_eq!(view.expiration(), event.expiration());
        assert_eq!(view.identifier(), event.identifier());
        assert_eq!(indexed(&view), indexed(event), "{event:?}");
    }

    #[test]
    fn the_view_over_stored_bytes_answers_as_the_parsed_event_does() {
        let keys = Keys::from_seed(1);
        let p = keys.public().to_string();
        let tags: [&[&[&str]]; 8] = [
            &[],
            &[&[]],
            &[&[], &["a"], &["t", ""], &["t", "x", "y", "z"], &["tt", "x"]],
            &[
                &["\n", "1"],
                &["\u{e9}", "2"],
                &["\u{1f600}", "3"],
                &["\u{0}", "4"],
                &["\"", "5"],
                &["\\", "6"],
                &["", "7"],
            ],
            &[
                &["t", "a\"b\\c\n\u{1}\u{7f}\u{2028}]},[\"x"],
                &["\u{1}\u{2}", "y"],
                &["]", "["],
            ],
            &[&["d"], &["d", "one"], &["d", "two"], &["e", "x"]],
            &[&["p", "short"], &["p", &p, "relay"], &["p", "ff"]],
            &[
                &["expiration", "soon"],
                &["expiration"],
                &["expiration", "12"],
                &["expiration", "13"],
            ],
        ];
        for tags in tags {
            let tags: Vec<Vec<&str>> = tags.iter().map(|tag| tag.to_vec()).collect();
            for kind in [0, 1, 1059, 30_000, 39_999, u16::MAX] {
                for created_at in [0, -1, i64::MIN, i64::MAX, 1_700_000_000] {
                    agree(&keys.sign(kind, created_at, &tags, "a \"content\" with [\"t\",\"x\"]"));
                }
            }
        }
    }

    #[test]
    fn other_bytes_give_wrong_answers_and_never_a_panic() {
        let keys = Keys::from_seed(1);
        let event = keys.sign(30_000, 5, &[vec!["d", "a\\b"], vec!["\u{e9}", "\n"]], "");
        let json = event.json().to_vec();
        let ask = |bytes: &[u8]| {
            let view = Canonical::new(bytes);
            let _ = (
                view.id(),
                view.pubkey(),
                view.created_at(),
                view.kind(),
                view.owner(),
                view.expiration(),
            );
            indexed(&view);
        };
        for end in 0..json.len() {
            ask(&json[..end]);
            ask(&json[end..]);
            for byte in [0, b'"', b'\\', b',', b'[', b']', 0xff] {
                let mut broken = json.clone();
                broken[end] = byte;
                ask(&broken);
            }
        }
    }
}
