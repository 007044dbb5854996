//! Generated events and filters: few authors, kinds, times and values, so that they collide often.

use std::sync::Arc;

use esker_events_api::{Address, Filters};
use esker_nostr::{Event, EventFields, EventId, Filter, SortedList, TagCondition, kind};
use esker_testing::random::Random;

use crate::{
    events::{event, key, pubkey},
    world::{NOW, RELAY},
};

/// What a history is rich in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Versions, deletions, requests to vanish, ties.
    Narrow,
    /// Many authors and values, lists to merge over.
    Wide,
}

/// What was made so far, for later events and filters to name.
pub struct Scene {
    profile: Profile,
    authors: usize,
    first: i64,
    times: usize,
    made: Vec<Arc<Event>>,
}

const DS: &[&str] = &["", "a", "a-b", "a:b", "A"];
const VALUES: &[&str] = &["x", "y", "z", "xy", ""];
const RELAYS: &[&str] = &[
    "wss://other.example",
    RELAY,
    "WSS://relay.example:443/",
    "ALL_RELAYS",
    "",
];

impl Scene {
    /// A scene in which nothing has happened.
    pub fn new(profile: Profile, random: &mut Random) -> Self {
        let (authors, times) = match profile {
            Profile::Narrow => (2 + random.below(3), 3 + random.below(8)),
            Profile::Wide => (10 + random.below(20), 5 + random.below(40)),
        };
        Self {
            profile,
            authors,
            first: NOW - 100,
            times,
            made: Vec::new(),
        }
    }

    fn time(&self, random: &mut Random) -> i64 {
        if random.once_in(60) {
            return random.pick(&[i64::MIN, i64::MAX, 0, -1]);
        }
        self.first + i64::try_from(random.below(self.times)).expect("small")
    }

    fn kind(&self, random: &mut Random) -> u16 {
        match self.profile {
            Profile::Narrow => random.pick(&[
                1, 1, 1, 1, 7, 0, 0, 3, 10_002, 30_000, 30_000, 30_000, 30_023, 5, 5, 5, 62, 1059, 1059,
                20_001, 40_000,
            ]),
            Profile::Wide => random.pick(&[
                1, 1, 1, 1, 1, 1, 6, 7, 7, 7, 0, 3, 10_002, 30_023, 1059, 5, 65_535,
            ]),
        }
    }

    fn earlier(&self, random: &mut Random) -> Option<Arc<Event>> {
        (!self.made.is_empty()).then(|| random.pick(&self.made))
    }

    /// The next event: mostly a new one, sometimes one that was offered before.
    pub fn event(&mut self, random: &mut Random) -> Arc<Event> {
        if random.once_in(10)
            && let Some(event) = self.earlier(random)
        {
            return event;
        }
        let kind = self.kind(random);
        let mut tags = match kind {
            kind::DELETION => random.some(3, |random| self.target(random)),
            kind::VANISH => random.some(2, |random| vec!["relay".into(), random.pick(RELAYS).into()]),
            kind::GIFT_WRAP => {
                let recipient = key(random.below(self.authors));
                vec![vec!["p".into(), random.pick(&[recipient, "nobody".into()])]]
            }
            _ => Vec::new(),
        };
        if kind::is_addressable(kind) && !random.once_in(5) {
            tags.push(vec!["d".into(), random.pick(DS).into()]);
        }
        if !random.once_in(4) {
            tags.extend(random.some(3, |random| self.tag(random)));
        }
        if random.once_in(8) {
            let at = NOW + random.pick(&[-1, 0, 1, 5, 10, 20, 50]);
            tags.push(vec!["expiration".into(), at.to_string()]);
        }
        let content = random.pick(&["0", "1", "2", "3"]);
        let event = event(
            random.below(self.authors),
            kind,
            self.time(random),
            &tags,
            content,
        );
        self.made.push(event.clone());
        event
    }

    /// What a deletion may name: what was made, by whomever, by id or by address.
    fn target(&self, random: &mut Random) -> Vec<String> {
        let Some(event) = self.earlier(random) else {
            return vec!["e".into(), "nothing".into()];
        };
        match Address::of(&event) {
            Some(address) if !random.once_in(3) => {
                let text = address.to_string();
                let short = address.identifier.is_empty() && random.once_in(2);
                vec![
                    "a".into(),
                    if short {
                        text.trim_end_matches(':').into()
                    } else {
                        text
                    },
                ]
            }
            _ => vec!["e".into(), event.id().to_string()],
        }
    }

    fn tag(&self, random: &mut Random) -> Vec<String> {
        let value = random.pick(VALUES).to_owned();
        match random.below(9) {
            0 => vec!["p".into(), key(random.below(self.authors))],
            1 => self.target(random),
            2 => vec!["r".into(), value],
            3 => vec!["title".into(), value],
            4 => vec!["t".into()],
            5 => vec!["d".into(), random.pick(DS).into()],
            6 => vec!["é".into(), value, "more".into()],
            _ => vec!["t".into(), value],
        }
    }

    /// An id to ask for: of what was made, mostly.
    pub fn id(&self, random: &mut Random) -> EventId {
        let made = if random.once_in(10) {
            None
        } else {
            self.earlier(random)
        };
        made.map_or(EventId([7; 32]), |event| event.id())
    }

    /// One filter.
    pub fn filter(&self, random: &mut Random) -> Filter {
        let most = if self.profile == Profile::Wide { 14 } else { 3 };
        let mut filter = Filter::default();
        if random.once_in(5) {
            filter.ids = Some(list(random, most, |random| self.id(random)));
        }
        if random.once_in(3) {
            filter.authors = Some(list(random, most, |random| pubkey(random.below(self.authors))));
        }
        if random.once_in(3) {
            filter.kinds = Some(list(random, 3, |random| self.kind(random)));
        }
        for (name, chance) in [('t', 3), ('d', 5), ('p', 9), ('e', 9), ('r', 12), ('é', 20)] {
            if random.once_in(chance) {
                filter.tags.push(self.condition(name, most, random));
            }
            if random.once_in(2 * chance) {
                filter.tags_all.push(self.condition(name, 2, random));
            }
        }
        if random.once_in(4) {
            filter.since = Some(self.time(random));
        }
        if random.once_in(4) {
            filter.until = Some(self.time(random));
        }
        if !random.once_in(3) {
            filter.limit = Some(random.pick(&[0, 1, 1, 2, 3, 5, 8, 20, 500]));
        }
        if random.once_in(25) {
            filter.search = Some(
                random
                    .pick(&["", " ", "word", "include:spam", "key:value word"])
                    .into(),
            );
        }
        filter.unindexed_tag = random.once_in(60);
        filter
    }

    fn condition(&self, name: char, most: usize, random: &mut Random) -> TagCondition {
        let values = list(random, most, |random| {
            let value = match name {
                'd' => random.pick(DS).to_owned(),
                'p' => key(random.below(self.authors)),
                'e' => self.id(random).to_string(),
                _ => random.pick(VALUES).to_owned(),
            };
            value.into_boxed_str()
        });
        TagCondition { name, values }
    }

    /// One filter mostly, now and then several or none.
    pub fn filters(&self, random: &mut Random) -> Filters {
        let count = random.pick(&[1, 1, 1, 1, 2, 2, 3, 0]);
        (0..count)
            .map(|_| {
                if random.once_in(12) {
                    Filter::default()
                } else {
                    self.filter(random)
                }
            })
            .collect()
    }
}

/// A list of one to `most` values, or an empty one now and then.
fn list<T: Ord>(random: &mut Random, most: usize, make: impl FnMut(&mut Random) -> T) -> SortedList<T> {
    if random.once_in(25) {
        [].into_iter().collect()
    } else {
        random.some(most, make).into_iter().collect()
    }
}
