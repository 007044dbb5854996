//! The index against asking each filter, its cost in entries, and what it leaves behind.

use std::collections::{BTreeMap, BTreeSet};

use esker_nostr::{Event, EventFields, EventId, Filter, Keys, PublicKey, TagCondition};

use super::FilterIndex;

/// A small generator, the same each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn some<T: Clone>(&mut self, of: &[T]) -> Vec<T> {
        (0..=self.below(3))
            .map(|_| of[self.below(of.len())].clone())
            .collect()
    }
}

/// An event that is nothing but its fields.
struct Fields {
    author: u64,
    kind: u16,
    tags: Vec<(char, String)>,
}

impl EventFields for Fields {
    fn id(&self) -> EventId {
        EventId([7; 32])
    }
    fn pubkey(&self) -> PublicKey {
        author(self.author)
    }
    fn created_at(&self) -> i64 {
        0
    }
    fn kind(&self) -> u16 {
        self.kind
    }
    fn any_tag(&self, test: &mut dyn FnMut(char, &str) -> bool) -> bool {
        self.tags.iter().any(|(name, value)| test(*name, value))
    }
}

fn author(n: u64) -> PublicKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.to_be_bytes());
    PublicKey(key)
}

fn by(author_number: u64) -> Filter {
    Filter {
        authors: Some([author(author_number)].into_iter().collect()),
        ..Filter::default()
    }
}

fn tag(name: char, values: &[&str]) -> TagCondition {
    TagCondition {
        name,
        values: values.iter().map(|value| (*value).into()).collect(),
    }
}

fn event(author: u64, kind: u16) -> Fields {
    Fields {
        author,
        kind,
        tags: Vec::new(),
    }
}

const NAMES: [char; 4] = ['d', 'e', 't', 'ü'];
const VALUES: [&str; 4] = ["", "a", "a-b", "nostr"];
const KINDS: [u16; 4] = [0, 1, 20_001, 30_023];

fn generated_event(dice: &mut Dice) -> Event {
    let tags: Vec<Vec<String>> = (0..dice.below(4))
        .map(|_| vec![NAMES[dice.below(4)].to_string(), VALUES[dice.below(4)].to_owned()])
        .collect();
    let time = i64::try_from(dice.below(5)).unwrap();
    Keys::from_seed(dice.below(3) as u64 + 1).sign(KINDS[dice.below(4)], time, &tags, "")
}

fn generated_filter(dice: &mut Dice, ids: &[EventId]) -> Filter {
    let authors: Vec<_> = (1..=3).map(|seed| Keys::from_seed(seed).public()).collect();
    let mut filter = Filter::default();
    let conditions = |dice: &mut Dice| {
        let mut names: Vec<_> = NAMES[..dice.below(3)].to_vec();
        names.reverse();
        names
            .into_iter()
            .map(|name| TagCondition {
                name,
                values: dice.some(&VALUES).into_iter().map(Into::into).collect(),
            })
            .collect::<Vec<_>>()
    };
    if dice.one_in(4) {
        filter.ids = Some(dice.some(ids).into_iter().collect());
    }
    if dice.one_in(3) {
        filter.authors = Some(dice.some(&authors).into_iter().collect());
    }
    if dice.one_in(3) {
        filter.kinds = Some(dice.some(&KINDS).into_iter().collect());
    }
    if dice.one_in(2) {
        filter.tags = conditions(dice);
    }
    if dice.one_in(3) {
        filter.tags_all = conditions(dice);
    }
    if dice.one_in(4) {
        filter.since = Some(i64::try_from(dice.below(5)).unwrap());
    }
    if dice.one_in(4) {
        filter.until = Some(i64::try_from(dice.below(5)).unwrap());
    }
    if dice.one_in(10) {
        filter.kinds = Some([].into_iter().collect());
    }
    filter.unindexed_tag = dice.one_in(20);
    filter
}

#[test]
fn live_03_candidates_are_a_superset_each_once_and_exact_after_the_matcher() {
    let mut dice = Dice(1);
    let events: Vec<_> = (0..150).map(|_| generated_event(&mut dice)).collect();
    let ids: Vec<_> = events.iter().take(30).map(EventFields::id).collect();
    let mut index = FilterIndex::new();
    let mut naive: BTreeMap<usize, Vec<Filter>> = BTreeMap::new();
    let mut met = 0;
    for round in 0..3000 {
        let subscriber = dice.below(60);
        if dice.one_in(3) {
            assert_eq!(
                index.unregister(subscriber),
                naive
                    .remove(&subscriber)
                    .is_some_and(|filters| filters.iter().any(|filter| !filter.matches_nothing()))
            );
        } else {
            let filters: Vec<_> = (0..=dice.below(3))
                .map(|_| generated_filter(&mut dice, &ids))
                .collect();
            index.register(&filters, subscriber);
            naive.entry(subscriber).or_default().extend(filters);
        }
        let event = &events[round % events.len()];
        let candidates = index.candidates(event);
        let unique: BTreeSet<_> = candidates.iter().copied().collect();
        assert_eq!(unique.len(), candidates.len(), "a candidate twice");
        let matches = |filters: &[Filter]| filters.iter().any(|filter| filter.matches(event));
        let found: BTreeSet<_> = unique
            .into_iter()
            .filter(|subscriber| matches(&naive[subscriber]))
            .collect();
        let wanted: BTreeSet<_> = naive
            .iter()
            .filter(|(_, filters)| matches(filters))
            .map(|(subscriber, _)| *subscriber)
            .collect();
        assert_eq!(found, wanted);
        met += wanted.len();
    }
    assert!(met > 1000, "the generated cases must meet: {met}");
    (0..60).for_each(|subscriber| {
        index.unregister(subscriber);
    });
    assert!(index.is_empty());
}

#[test]
fn live_01_knows_its_subscribers() {
    let mut index = FilterIndex::new();
    assert!(index.is_empty());
    assert!(index.candidates(&event(1, 1)).is_empty());
    index.register(&[by(1)], 'a');
    index.register(&[by(2)], 'b');
    index.register_unindexed('c');
    assert_eq!(index.len(), 3);
    let mut all = BTreeSet::new();
    index.for_each(|subscriber| assert!(all.insert(subscriber)));
    assert_eq!(all, BTreeSet::from(['a', 'b', 'c']));
    let mut found = index.candidates(&event(1, 1));
    found.sort_unstable();
    assert_eq!(found, ['a', 'c']);
    assert!(index.unregister('a'));
    assert!(!index.unregister('a'));
    assert_eq!(index.candidates(&event(1, 1)), ['c']);
}

#[test]
fn live_01_registering_again_unites() {
    let mut index = FilterIndex::new();
    index.register(&[by(1)], 1);
    index.register(&[by(2)], 1);
    for _ in 0..10 {
        index.register(&[by(1), by(2), by(1)], 1);
    }
    assert_eq!(index.touched, 2, "what is entered already is not entered again");
    assert_eq!(index.candidates(&event(1, 1)), [1]);
    assert_eq!(index.candidates(&event(2, 1)), [1]);
    index.unregister(1);
    assert!(index.is_empty());
}

#[test]
fn live_02_a_filter_is_entered_under_its_most_selective_dimension_alone() {
    let mut index = FilterIndex::new();
    let id = EventId([7; 32]);
    let other = EventId([8; 32]);
    let kinds = |kinds: &[u16]| Some(kinds.iter().copied().collect());
    // Ids before authors: the author does not count.
    index.register(
        &[Filter {
            ids: Some([other].into_iter().collect()),
            ..by(1)
        }],
        1,
    );
    index.register(
        &[Filter {
            ids: Some([id].into_iter().collect()),
            ..by(9)
        }],
        2,
    );
    // Authors before tags.
    index.register(
        &[Filter {
            tags: vec![tag('t', &["x"])],
            ..by(9)
        }],
        3,
    );
    index.register(
        &[Filter {
            tags: vec![tag('t', &["y"])],
            ..by(1)
        }],
        4,
    );
    // Plain tags before `&x`, the first of them, before kinds.
    let tags = Filter {
        tags: vec![tag('t', &["x", "y"]), tag('e', &["no"])],
        tags_all: vec![tag('p', &["x"])],
        kinds: kinds(&[9]),
        ..Filter::default()
    };
    index.register(&[tags], 5);
    // `&x` under one of its values.
    let all = Filter {
        tags_all: vec![tag('p', &["k", "l"])],
        kinds: kinds(&[9]),
        ..Filter::default()
    };
    index.register(&[all], 6);
    // Kinds, and the rest.
    index.register(
        &[Filter {
            kinds: kinds(&[1, 2]),
            since: Some(5),
            ..Filter::default()
        }],
        7,
    );
    index.register(
        &[Filter {
            kinds: kinds(&[3]),
            ..Filter::default()
        }],
        8,
    );
    index.register(
        &[Filter {
            since: Some(5),
            ..Filter::default()
        }],
        9,
    );
    assert_eq!(
        index.touched, 11,
        "ids 1+1, authors 1+1, tag values 2, one `&x` value, kinds 2+1, unindexed 1"
    );

    let tags = [('t', "x"), ('p', "k"), ('p', "l"), ('q', "x")].map(|(name, value)| (name, value.to_owned()));
    let mut found = index.candidates(&Fields {
        author: 1,
        kind: 1,
        tags: tags.into(),
    });
    found.sort_unstable();
    assert_eq!(found, [2, 4, 5, 6, 7, 9]);
}

#[test]
fn live_02_an_addressable_event_without_a_d_tag_has_the_empty_identifier() {
    let mut index = FilterIndex::new();
    index.register(
        &[Filter {
            tags: vec![tag('d', &[""])],
            ..Filter::default()
        }],
        1,
    );
    let tagless: &[Vec<String>] = &[];
    let keys = Keys::from_seed(1);
    assert_eq!(index.candidates(&keys.sign(30_023, 1, tagless, "")), [1]);
    assert!(index.candidates(&keys.sign(1, 1, tagless, "")).is_empty());
}

#[test]
fn live_02_a_filter_that_matches_nothing_is_entered_nowhere() {
    let mut index = FilterIndex::new();
    let nothing = [
        Filter {
            ids: Some([].into_iter().collect()),
            ..by(1)
        },
        Filter {
            kinds: Some([].into_iter().collect()),
            ..by(1)
        },
        Filter {
            unindexed_tag: true,
            ..Filter::default()
        },
        Filter {
            since: Some(2),
            until: Some(1),
            ..Filter::default()
        },
    ];
    index.register(&nothing, 1);
    index.register(&[], 2);
    assert!(index.is_empty());
    assert_eq!((index.len(), index.touched), (0, 0));
    index.register(&[&nothing[..], &[by(1)]].concat(), 1);
    assert_eq!(index.touched, 1);
}

#[test]
fn live_04_registering_costs_the_same_in_an_empty_and_in_a_full_bucket() {
    let kind = Filter {
        kinds: Some([1].into_iter().collect()),
        ..Filter::default()
    };
    let filters = [kind, by(1), by(2)];
    let mut index = FilterIndex::new();
    let cost = |index: &mut FilterIndex<u32>, subscriber| {
        let before = index.touched;
        index.register(&filters, subscriber);
        index.unregister(subscriber);
        index.touched - before
    };
    let alone = cost(&mut index, 0);
    for subscriber in 1..=100_000 {
        index.register(&filters, subscriber);
    }
    // From the middle too, where another member takes the place.
    index.unregister(50_000);
    assert_eq!((alone, cost(&mut index, 50_000)), (6, 6));
    assert_eq!(index.candidates(&event(3, 1)).len(), 99_999);
}

#[test]
fn live_04_a_tag_repeated_in_an_event_walks_its_subscribers_once() {
    let mut index = FilterIndex::new();
    let filter = Filter {
        tags: vec![tag('t', &["x"])],
        ..Filter::default()
    };
    for subscriber in 0..100 {
        index.register(std::slice::from_ref(&filter), subscriber);
    }
    let before = index.touched;
    let tags = vec![('t', "x".to_owned()); 1000];
    assert_eq!(
        index
            .candidates(&Fields {
                author: 1,
                kind: 1,
                tags
            })
            .len(),
        100
    );
    assert_eq!(index.touched - before, 100);
}

#[test]
fn live_05_churn_leaves_nothing_behind() {
    let mut dice = Dice(5);
    let mut index = FilterIndex::new();
    let mut there = BTreeSet::new();
    for _ in 0..20_000 {
        let subscriber = dice.below(300);
        if there.remove(&subscriber) {
            assert!(index.unregister(subscriber));
        } else {
            let mut filters: Vec<_> = (0..=dice.below(3)).map(|_| by(dice.below(20) as u64)).collect();
            if dice.one_in(3) {
                filters.push(Filter {
                    tags: vec![tag(NAMES[dice.below(4)], &VALUES[dice.below(3)..])],
                    ..Filter::default()
                });
            }
            if dice.one_in(5) {
                index.register_unindexed(subscriber);
            }
            index.register(&filters, subscriber);
            there.insert(subscriber);
        }
        assert_eq!(index.len(), there.len());
    }
    for subscriber in there {
        assert!(index.unregister(subscriber));
    }
    assert!(index.is_empty());
    assert!(index.visits.len() <= 300, "places are used again");
    assert!(index.entries.iter().all(|entries| entries.capacity() == 0));
    let entered = &index.entered;
    assert_eq!(
        (
            entered.ids,
            entered.authors,
            entered.tags,
            entered.kinds,
            entered.unindexed
        ),
        (0, 0, 0, 0, 0)
    );
    assert_eq!(entered.names, [0; 129]);
}
