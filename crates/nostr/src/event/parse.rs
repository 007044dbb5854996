//! From bytes to an [`Event`]: the strict parser, the trusting one, and the id of what is refused.

use bytes::Bytes;

use super::{Event, EventError, EventId, PublicKey, TagTexts};
use crate::{
    hex,
    layout::{self, Draft},
    scan::{self, KeySet, RawStr, ScanError, Scanner},
};

const HEX_64: &str = "64 lowercase hex digits";
const HEX_128: &str = "128 lowercase hex digits";
const CREATED_AT: &str = "an integer of 64 bits";
const KIND: &str = "an integer from 0 to 65535";

/// An event's fields as they were found.
#[derive(Default)]
struct Fields<'a> {
    id: Option<[u8; 32]>,
    pubkey: Option<[u8; 32]>,
    created_at: Option<(&'a str, i64)>,
    kind: Option<(&'a str, u16)>,
    tags: Option<Tags<'a>>,
    content: Option<RawStr<'a>>,
    sig: Option<[u8; 64]>,
}

struct Tags<'a> {
    texts: TagTexts,
    /// The list as it stands in the source, if that is canonical.
    canonical: Option<&'a str>,
}

impl Event {
    /// Parses an event strictly (RELAY-02) and checks that its id is the hash of its canonical form.
    ///
    /// Any JSON layout is taken: white space, any order of the fields, any escapes. What is kept is the
    /// canonical form (STORE-W10): `{"id":…,"pubkey":…,"created_at":…,"kind":…,"tags":…,"content":…,"sig":…}`
    /// with no white space and NIP-01's escapes. Unknown fields are dropped.
    pub fn parse(json: &[u8]) -> Result<Self, EventError> {
        let fields = Fields::read(json)?;
        let id = fields.id.ok_or(EventError::Missing("id"))?;
        let pubkey = fields.pubkey.ok_or(EventError::Missing("pubkey"))?;
        let created_at = fields.created_at.ok_or(EventError::Missing("created_at"))?;
        let kind = fields.kind.ok_or(EventError::Missing("kind"))?;
        let tags = fields.tags.ok_or(EventError::Missing("tags"))?;
        let content = fields.content.ok_or(EventError::Missing("content"))?;
        let sig = fields.sig.ok_or(EventError::Missing("sig"))?;

        // No canonical form is longer than what it was made from.
        let mut draft = Draft::new(json.len(), &id, &pubkey, created_at.0, kind.0);
        match tags.canonical {
            Some(canonical) => draft.json.extend_from_slice(canonical.as_bytes()),
            None => layout::write_tags(tags.texts.iter(), &mut draft.json),
        }
        draft.end_tags();
        draft.json.push(b'"');
        content.write_canonical(&mut draft.json);
        draft.json.push(b'"');
        draft.end_content(&sig);

        let hash = draft.id();
        if hash.0 != id {
            return Err(EventError::Id(hash));
        }
        Ok(Self {
            id: hash,
            pubkey: PublicKey(pubkey),
            created_at: created_at.1,
            kind: kind.1,
            content_start: draft.content_start(),
            tags: tags.texts,
            // Boxed, so that white space and unknown fields do not cost memory for as long as the event lives.
            json: Bytes::from(draft.json.into_boxed_slice()),
        })
    }

    /// Takes canonical JSON that this library wrote earlier, such as a row of a store: no hash, no copy.
    pub fn from_canonical(json: Bytes) -> Result<Self, EventError> {
        Self::read_canonical(json).ok_or(EventError::NotCanonical)
    }

    fn read_canonical(json: Bytes) -> Option<Self> {
        u32::try_from(json.len()).ok()?;
        let mut scanner = Scanner::new(scan::text(&json).ok()?);
        scanner.literal("{\"id\":").ok()?;
        let id = hex::decode(scanner.string().ok()?.raw.as_bytes())?;
        scanner.literal(",\"pubkey\":").ok()?;
        let pubkey = hex::decode(scanner.string().ok()?.raw.as_bytes())?;
        scanner.literal(",\"created_at\":").ok()?;
        let created_at = scanner.integer().ok()?.parse().ok()?;
        scanner.literal(layout::BEFORE_KIND).ok()?;
        let kind = scanner.integer().ok()?.parse().ok()?;
        scanner.literal(layout::BEFORE_TAGS).ok()?;
        let tags = tags(&mut scanner).ok()?;
        scanner.literal(layout::BEFORE_CONTENT).ok()?;
        let content_start = scanner.position();
        scanner.string().ok()?;
        scanner.literal(",\"sig\":").ok()?;
        hex::decode::<64>(scanner.string().ok()?.raw.as_bytes())?;
        if scanner.rest() != "}" {
            return None;
        }
        let (id, pubkey) = (EventId(id), PublicKey(pubkey));
        Some(Self {
            id,
            pubkey,
            created_at,
            kind,
            content_start,
            tags: tags.texts,
            json,
        })
    }
}

impl<'a> Fields<'a> {
    fn read(json: &'a [u8]) -> Result<Self, EventError> {
        if u32::try_from(json.len()).is_err() {
            return Err(EventError::TooLarge);
        }
        let mut scanner = Scanner::new(scan::text(json).map_err(within("event"))?);
        let mut fields = Self::default();
        let mut others = KeySet::default();
        scanner.take(b'{', "an object").map_err(within("event"))?;
        let mut first = true;
        while scanner.more(b'}', &mut first).map_err(within("event"))? {
            let key = scanner.key().map_err(within("event"))?;
            let new = match &*key {
                "id" => fields
                    .id
                    .replace(hex_field(&mut scanner, "id", HEX_64)?)
                    .is_none(),
                "pubkey" => fields
                    .pubkey
                    .replace(hex_field(&mut scanner, "pubkey", HEX_64)?)
                    .is_none(),
                "sig" => fields
                    .sig
                    .replace(hex_field(&mut scanner, "sig", HEX_128)?)
                    .is_none(),
                "created_at" => {
                    let value = integer_field(&mut scanner, "created_at", CREATED_AT)?;
                    fields.created_at.replace(value).is_none()
                }
                "kind" => fields
                    .kind
                    .replace(integer_field(&mut scanner, "kind", KIND)?)
                    .is_none(),
                "tags" => fields
                    .tags
                    .replace(tags(&mut scanner).map_err(within("tags"))?)
                    .is_none(),
                "content" => {
                    if scanner.peek() != Some(b'"') {
                        return Err(EventError::Field {
                            field: "content",
                            expected: "a string",
                        });
                    }
                    fields
                        .content
                        .replace(scanner.string().map_err(within("content"))?)
                        .is_none()
                }
                other => {
                    let new = others.insert(other.to_owned());
                    scanner.skip().map_err(within("event"))?;
                    new
                }
            };
            if !new {
                return Err(EventError::Repeated(scan::cut(&key, 32).to_owned()));
            }
        }
        scanner.end().map_err(within("event"))?;
        Ok(fields)
    }
}

fn within(field: &'static str) -> impl Fn(ScanError) -> EventError {
    move |ScanError { at, expected }| EventError::Syntax { field, expected, at }
}

fn hex_field<const N: usize>(
    scanner: &mut Scanner<'_>,
    field: &'static str,
    expected: &'static str,
) -> Result<[u8; N], EventError> {
    if scanner.peek() != Some(b'"') {
        return Err(EventError::Field { field, expected });
    }
    let string = scanner.string().map_err(within(field))?;
    hex::decode(string.decode().as_bytes()).ok_or(EventError::Field { field, expected })
}

fn integer_field<'a, T: std::str::FromStr>(
    scanner: &mut Scanner<'a>,
    field: &'static str,
    expected: &'static str,
) -> Result<(&'a str, T), EventError> {
    let integer = scanner
        .integer()
        .ok()
        .and_then(|text| Some((text, text.parse().ok()?)));
    integer.ok_or(EventError::Field { field, expected })
}

fn tags<'a>(scanner: &mut Scanner<'a>) -> Result<Tags<'a>, ScanError> {
    let (mut text, mut elements, mut tags) = (String::new(), Vec::new(), Vec::new());
    scanner.take(b'[', "a list of lists of strings")?;
    let start = scanner.position() - 1;
    // Brackets, commas, quotes and contents: how long the list is when it holds no white space.
    let mut compact = 2;
    let mut escaped = false;
    let mut first_tag = true;
    while scanner.more(b']', &mut first_tag)? {
        scanner.take(b'[', "a list of strings")?;
        if tags.is_empty() {
            // What most events need, so that the three grow once at most.
            text.reserve(512);
            elements.reserve(32);
            tags.reserve(16);
        }
        compact += 2 + usize::from(!tags.is_empty());
        let mut first_element = true;
        while scanner.more(b']', &mut first_element)? {
            let before_first = tags.last().copied().unwrap_or(0) as usize == elements.len();
            let element = scanner.string()?;
            element.push_to(&mut text);
            elements.push(offset(text.len()));
            compact += 2 + element.raw.len() + usize::from(!before_first);
            escaped |= element.escaped;
        }
        tags.push(offset(elements.len()));
    }
    let source = scanner.since(start);
    Ok(Tags {
        texts: TagTexts {
            text: text.into(),
            elements: elements.into(),
            tags: tags.into(),
        },
        canonical: Some(source).filter(|source| !escaped && source.len() == compact),
    })
}

fn offset(offset: usize) -> u32 {
    u32::try_from(offset).expect("an offset into tags fits, since the event's length does")
}

impl TagTexts {
    fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        let bounds = |ends: &[u32], n: usize| {
            let start = n.checked_sub(1).map_or(0, |before| ends[before]);
            start as usize..ends[n] as usize
        };
        (0..self.tags.len()).map(move |tag| {
            bounds(&self.tags, tag).map(move |element| &self.text[bounds(&self.elements, element)])
        })
    }
}

/// The id that bytes claim, whether or not they are an event: so that a refusal can name it (RELAY-02).
///
/// It is the first `id` of the outermost object that is 64 lowercase hex digits. Nothing else need be right, not
/// even that the JSON is whole.
pub fn peek_id(json: &[u8]) -> Option<EventId> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(json, at + 1)?;
                if depth == 1 && &json[at..end] == b"\"id\"" {
                    let value = json[end..]
                        .trim_ascii_start()
                        .strip_prefix(b":")
                        .map(<[u8]>::trim_ascii_start);
                    let digits = value.and_then(|value| value.strip_prefix(b"\"")?.split_at_checked(64));
                    if let Some((digits, [b'"', ..])) = digits
                        && let Some(id) = hex::decode(digits)
                    {
                        return Some(EventId(id));
                    }
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string whose contents begin at `at` ends, its closing quote included.
fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
