//! Generators for tests: seeded numbers, texts, events, filters. The same seed gives the same values for ever.

use esker_testing::random::Random;

use crate::{Event, EventFields, EventId, Filter, Keys, PublicKey, TagCondition, layout::Draft};

pub mod fuzz;
pub mod json;
#[cfg(test)]
mod oracle;

/// A seeded source of numbers: good enough to test with, no good for secrets.
#[derive(Debug, Clone)]
pub struct Rng(Random);

impl Rng {
    /// The source of a seed; near seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a length fits 64 bits").max(1);
        usize::try_from(self.next_u64() % end).expect("it is below a length")
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// So many values, up to `most`, more often few than many.
    pub fn list<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = self.below(most + 1);
        let length = self.below(length + 1);
        (0..length).map(|_| make(self)).collect()
    }
}

/// An event with the right id and a signature of zeros: a fortieth of the cost of a signed one.
///
/// # Panics
///
/// When its JSON would be larger than 4 GiB.
pub fn unsigned<S: AsRef<str>>(
    pubkey: PublicKey,
    kind: u16,
    created_at: i64,
    tags: &[Vec<S>],
    content: &str,
) -> Event {
    let draft = Draft::unsealed(&pubkey.0, kind, created_at, tags, content);
    let id = draft.id();
    Event::from_canonical(draft.seal(id, &[0; 64])).expect("a sealed draft is canonical JSON")
}

/// A small set of authors, so that generated events and filters meet. They have no secret keys.
pub fn author(rng: &mut Rng) -> PublicKey {
    PublicKey([u8::try_from(rng.below(4)).expect("it is small"); 32])
}

/// Kinds of each range and their edges, the common and the special ones most often.
pub fn kind(rng: &mut Rng) -> u16 {
    const KINDS: [u16; 22] = [
        0,
        1,
        1,
        1,
        3,
        4,
        5,
        6,
        7,
        62,
        1059,
        1059,
        9999,
        10_000,
        10_002,
        19_999,
        20_000,
        29_999,
        30_000,
        30_023,
        39_999,
        u16::MAX,
    ];
    *rng.pick(&KINDS)
}

/// Unix seconds: mostly few and near, so that ties and bounds are met; sometimes the ends of what is possible.
pub fn created_at(rng: &mut Rng) -> i64 {
    const EDGES: [i64; 8] = [0, -1, 1, i64::MIN, i64::MAX, 1 << 31, 1 << 32, 4_102_444_800];
    if rng.one_in(8) {
        *rng.pick(&EDGES)
    } else {
        1_700_000_000 + i64::try_from(rng.below(10)).expect("it is small")
    }
}

/// A text of up to `most` pieces: letters, what JSON escapes, what it does not, scripts of all widths.
pub fn text(rng: &mut Rng, most: usize) -> String {
    const PIECES: [&str; 28] = [
        "a",
        "b",
        "d",
        "word",
        " ",
        "/",
        "\"",
        "\\",
        "\n",
        "\r",
        "\t",
        "\u{8}",
        "\u{c}",
        "\0",
        "\u{1f}",
        "\u{7f}",
        "\u{80}",
        "\u{e9}",
        "\u{2028}",
        "\u{feff}",
        "\u{ffff}",
        "\u{1f600}",
        "\u{10ffff}",
        "]},[",
        "\\u0041",
        "id",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "e\u{301}",
    ];
    rng.list(most, |rng| *rng.pick(&PIECES)).concat()
}

/// A tag's value, of a small set, so that generated events and filters meet.
pub fn tag_value(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => String::new(),
        1 => text(rng, 6),
        2 => author(rng).to_string(),
        3 => EventId([u8::try_from(rng.below(4)).expect("it is small"); 32]).to_string(),
        _ => (*rng.pick(&["a", "b", "ab", "a:b", "\u{1f600}", "1700000003", "\""])).into(),
    }
}

/// A tag: mostly a name of one character and values, sometimes any list of strings.
pub fn tag(rng: &mut Rng) -> Vec<String> {
    const NAMES: [&str; 14] = [
        "e",
        "p",
        "t",
        "d",
        "d",
        "a",
        "\u{1f600}",
        "\n",
        "\"",
        "expiration",
        "tt",
        "",
        "-",
        "relay",
    ];
    if rng.one_in(8) {
        return rng.list(4, |rng| text(rng, 3));
    }
    let mut tag = vec![(*rng.pick(&NAMES)).to_owned(), tag_value(rng)];
    tag.extend(rng.list(3, tag_value));
    tag
}

/// Any event, not signed.
pub fn event(rng: &mut Rng) -> Event {
    let tags = rng.list(8, tag);
    let content = text(rng, 20);
    unsigned(author(rng), kind(rng), created_at(rng), &tags, &content)
}

/// Any event, signed by one of `keys`.
pub fn signed_event(rng: &mut Rng, keys: &[Keys]) -> Event {
    let tags = rng.list(8, tag);
    let content = text(rng, 20);
    rng.pick(keys).sign(kind(rng), created_at(rng), &tags, &content)
}

/// Any filter; `known` are events whose ids it may ask for. It has no `search`, which no event decides alone.
pub fn filter(rng: &mut Rng, known: &[Event]) -> Filter {
    let ids = |rng: &mut Rng| {
        if known.is_empty() {
            EventId([0; 32])
        } else {
            rng.pick(known).id()
        }
    };
    let mut filter = Filter::default();
    if rng.one_in(6) {
        filter.ids = Some(rng.list(6, ids).into_iter().collect());
    }
    if rng.one_in(3) {
        filter.authors = Some(rng.list(4, author).into_iter().collect());
    }
    if rng.one_in(3) {
        filter.kinds = Some(rng.list(12, kind).into_iter().collect());
    }
    if rng.one_in(2) {
        filter.tags = conditions(rng);
    }
    if rng.one_in(4) {
        filter.tags_all = conditions(rng);
    }
    if rng.one_in(4) {
        filter.since = Some(created_at(rng));
    }
    if rng.one_in(4) {
        filter.until = Some(created_at(rng));
    }
    if rng.one_in(4) {
        filter.limit = Some(rng.below(6) as u64);
    }
    filter.unindexed_tag = rng.one_in(40);
    filter
}

fn conditions(rng: &mut Rng) -> Vec<TagCondition> {
    let mut conditions: Vec<TagCondition> = Vec::new();
    for _ in 0..=rng.below(2) {
        let name = *rng.pick(&['t', 'd', 'e', 'p', '\u{1f600}', '\n', '"']);
        let value = |rng: &mut Rng| match name {
            'e' | 'p' => author(rng).to_string().into(),
            _ => tag_value(rng).into(),
        };
        if conditions.iter().all(|condition| condition.name != name) {
            conditions.push(TagCondition {
                name,
                values: rng.list(5, value).into_iter().collect(),
            });
        }
    }
    conditions
}

/// [`Filter::matches`] once more, said as plainly as can be, to compare with.
pub fn naive_match(filter: &Filter, event: &Event) -> bool {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for tag in event.tags() {
        let elements: Vec<&str> = tag.elements().collect();
        if elements.len() >= 2 && elements[0].chars().count() == 1 {
            pairs.push((elements[0].to_owned(), elements[1].to_owned()));
        }
    }
    if (30_000..40_000).contains(&event.kind()) {
        let d = pairs
            .iter()
            .find(|pair| pair.0 == "d")
            .map_or_else(String::new, |pair| pair.1.clone());
        pairs.retain(|pair| pair.0 != "d");
        pairs.push(("d".to_owned(), d));
    }
    let has = |condition: &TagCondition, value: &str| {
        pairs.contains(&(condition.name.to_string(), value.to_owned()))
    };
    if filter.unindexed_tag {
        return false;
    }
    if let Some(ids) = &filter.ids
        && !ids.contains(&event.id())
    {
        return false;
    }
    if let Some(authors) = &filter.authors
        && !authors.contains(&event.pubkey())
    {
        return false;
    }
    if let Some(kinds) = &filter.kinds
        && !kinds.contains(&event.kind())
    {
        return false;
    }
    for condition in &filter.tags {
        if !condition.values.iter().any(|value| has(condition, value)) {
            return false;
        }
    }
    for condition in &filter.tags_all {
        if condition.values.is_empty() || !condition.values.iter().all(|value| has(condition, value)) {
            return false;
        }
    }
    filter.since.unwrap_or(i64::MIN) <= event.created_at()
        && event.created_at() <= filter.until.unwrap_or(i64::MAX)
}
