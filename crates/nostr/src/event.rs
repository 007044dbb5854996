//! An event: parsed once, its canonical JSON kept as one shared slice.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use secp256k1::{XOnlyPublicKey, schnorr};

use crate::{
    escape, hex, kind,
    layout::{CONTENT_FROM_END, SIG_FROM_END},
    scan,
};

mod parse;

pub use parse::peek_id;

/// The SHA-256 of an event's canonical form (NIP-01).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub [u8; 32]);

/// An x-only secp256k1 public key (BIP-340).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl EventId {
    /// An id from its 64 lowercase hex digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text.as_bytes()).map(Self)
    }
}

impl PublicKey {
    /// A key from its 64 lowercase hex digits; `None` for anything else. Whether it is a point of the curve shows
    /// when a signature is checked.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text.as_bytes()).map(Self)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32>::new().format(&self.0))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32>::new().format(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the matcher asks of an event, whatever form it is held in.
///
/// [`Event`] answers from parsed fields; [`crate::Canonical`] answers straight from stored bytes.
pub trait EventFields {
    /// The event's id.
    fn id(&self) -> EventId;
    /// The author's key.
    fn pubkey(&self) -> PublicKey;
    /// Unix seconds.
    fn created_at(&self) -> i64;
    /// The kind.
    fn kind(&self) -> u16;
    /// Whether any *indexed* tag (STORE-F04: one-character name, and a value) passes the test.
    ///
    /// An addressable event shows exactly one `d` tag, its identifier, also when it has none or several
    /// (STORE-F05).
    fn any_tag(&self, test: &mut dyn FnMut(char, &str) -> bool) -> bool;
}

/// A well-formed event whose id is the hash of its canonical form.
///
/// The signature is checked apart, by [`Event::verify`], since that costs forty times the rest.
#[derive(Clone)]
pub struct Event {
    json: Bytes,
    id: EventId,
    pubkey: PublicKey,
    created_at: i64,
    kind: u16,
    /// Where the content begins in `json`, its opening quote included.
    content_start: usize,
    tags: TagTexts,
}

/// All tag elements, unescaped, one after the other.
#[derive(Clone, Default)]
struct TagTexts {
    text: Box<str>,
    /// Where each element ends in `text`.
    elements: Box<[u32]>,
    /// How many elements the tags up to each have.
    tags: Box<[u32]>,
}

/// Why bytes are not an event; the text names the field (RELAY-02).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Not JSON, or not of the shape that the field needs.
    #[error("{field}: expected {expected} at byte {at}")]
    Syntax {
        /// The field, or `event` outside all fields.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
        /// Offset in what was parsed.
        at: usize,
    },
    /// A field's value is none that it can have.
    #[error("{field} must be {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A field is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A key stands twice; it is cut to 32 characters.
    #[error("{0} stands twice")]
    Repeated(String),
    /// The JSON is larger than 4 GiB.
    #[error("event must be smaller than 4 GiB")]
    TooLarge,
    /// The id is not the hash of the event.
    #[error("id must be the hash of the event, {0}")]
    Id(EventId),
    /// The pubkey is no point of the curve.
    #[error("pubkey must be a point of the curve")]
    Pubkey,
    /// The signature is not one of the id by the pubkey.
    #[error("sig must be a signature of the id by the pubkey")]
    Signature,
    /// Not what [`Event::json`] gives.
    #[error("event must be canonical JSON")]
    NotCanonical,
}

impl Event {
    /// Checks the BIP-340 signature over the id.
    pub fn verify(&self) -> Result<(), EventError> {
        let pubkey = XOnlyPublicKey::from_byte_array(self.pubkey.0).map_err(|_| EventError::Pubkey)?;
        schnorr::verify(
            &schnorr::Signature::from_byte_array(self.sig()),
            &self.id.0,
            &pubkey,
        )
        .map_err(|_| EventError::Signature)
    }

    /// The canonical JSON, shared: cloning it copies nothing.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The tags, in order.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = Tag<'_>> + Clone {
        (0..self.tags.tags.len()).map(|index| Tag { event: self, index })
    }

    /// The content, unescaped.
    pub fn content(&self) -> Cow<'_, str> {
        let raw = &self.json[self.content_start + 1..self.json.len() - CONTENT_FROM_END - 1];
        let raw = std::str::from_utf8(raw).expect("canonical JSON is UTF-8 and was cut at quotes");
        if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
            return Cow::Borrowed(raw);
        }
        let mut text = String::with_capacity(raw.len());
        escape::unescape(raw, &mut text);
        Cow::Owned(text)
    }

    /// The signature.
    pub fn sig(&self) -> [u8; 64] {
        let digits = &self.json[self.json.len() - SIG_FROM_END..][..128];
        hex::decode(digits).expect("the signature's digits were checked when the event was made")
    }

    /// The first `d` value, or the empty string: an addressable event's identifier (STORE-F05). A `d` tag
    /// without a value is none.
    pub fn identifier(&self) -> &str {
        self.values()
            .find(|(name, _)| *name == "d")
            .map_or("", |(_, value)| value)
    }

    /// When the event expires (NIP-40), in unix seconds: the first `expiration` tag that is an integer. Integers
    /// beyond 64 bits count as the nearest.
    pub fn expiration(&self) -> Option<i64> {
        self.values()
            .filter(|(name, _)| *name == "expiration")
            .find_map(|(_, value)| expiration(value))
    }

    /// Whose event it is (STORE-W06): for a gift wrap (1059) its first valid `p`, else its author.
    pub fn owner(&self) -> PublicKey {
        if self.kind != kind::GIFT_WRAP {
            return self.pubkey;
        }
        let mut recipients = self.values().filter(|(name, _)| *name == "p");
        recipients
            .find_map(|(_, value)| PublicKey::from_hex(value))
            .unwrap_or(self.pubkey)
    }

    /// Names and values of the tags that have both.
    fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tags().filter_map(|tag| Some((tag.get(0)?, tag.get(1)?)))
    }
}

/// An `expiration` tag's value as unix seconds: decimal digits, perhaps after a minus.
pub(crate) fn expiration(value: &str) -> Option<i64> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(scan::saturating_i64(value))
}

/// The name of an indexed tag (STORE-F04): one character.
pub(crate) fn one_character(name: &str) -> Option<char> {
    let mut chars = name.chars();
    chars.next().filter(|_| chars.as_str().is_empty())
}

impl EventFields for Event {
    fn id(&self) -> EventId {
        self.id
    }
    fn pubkey(&self) -> PublicKey {
        self.pubkey
    }
    fn created_at(&self) -> i64 {
        self.created_at
    }
    fn kind(&self) -> u16 {
        self.kind
    }
    fn any_tag(&self, test: &mut dyn FnMut(char, &str) -> bool) -> bool {
        let addressable = kind::is_addressable(self.kind);
        if addressable && test('d', self.identifier()) {
            return true;
        }
        self.tags()
            .filter_map(|tag| tag.indexed())
            .any(|(name, value)| !(addressable && name == 'd') && test(name, value))
    }
}

/// Two events are equal when their canonical JSON is: the same id can carry two valid signatures.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.json))
    }
}

/// One tag of an event: a list of strings, possibly empty.
#[derive(Clone, Copy)]
pub struct Tag<'a> {
    event: &'a Event,
    index: usize,
}

impl<'a> Tag<'a> {
    /// Element `n`, the name being element 0.
    pub fn get(&self, n: usize) -> Option<&'a str> {
        let TagTexts { text, elements, tags } = &self.event.tags;
        let first = self
            .index
            .checked_sub(1)
            .map_or(0, |before| tags[before] as usize);
        let element = first
            .checked_add(n)
            .filter(|element| *element < tags[self.index] as usize)?;
        let start = element
            .checked_sub(1)
            .map_or(0, |before| elements[before] as usize);
        Some(&text[start..elements[element] as usize])
    }

    /// The elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let tag = *self;
        (0..).map_while(move |n| tag.get(n))
    }

    /// The first element, or the empty string.
    pub fn name(&self) -> &'a str {
        self.get(0).unwrap_or_default()
    }
    /// The second element.
    pub fn value(&self) -> Option<&'a str> {
        self.get(1)
    }
    /// Name and value if the tag is indexed (STORE-F04).
    pub fn indexed(&self) -> Option<(char, &'a str)> {
        Some((one_character(self.name())?, self.value()?))
    }
}

impl fmt::Debug for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.elements()).finish()
    }
}

#[cfg(test)]
mod tests;
