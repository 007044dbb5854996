//! The filter index: which subscribers could want an event, found without asking each (LIVE-01 to LIVE-05).

use std::{
    collections::{HashMap, HashSet, hash_map},
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState},
};

use esker_nostr::{EventFields, Filter};

/// Filters by the values an event must have, so that an event finds those that could match it (LIVE-01).
///
/// A filter is entered under ONE dimension, the most selective it has (LIVE-02): ids, else authors, else its
/// first tag (plain ones before `&x`), else kinds, else a pool that is looked at for each event. What is found
/// is a superset; [`Filter::matches`] decides (LIVE-03).
///
/// An index has one owner and no lock: a lookup waits for nobody, copies and allocates nothing. Registering and
/// unregistering cost what the subscriber's own filters cost, however large the index and its buckets are
/// (LIVE-04), and leave nothing behind (LIVE-05).
pub struct FilterIndex<S> {
    // Bucket keys are 64-bit hashes under a key of this index alone, so that nobody can aim a collision; one
    // that happens costs a candidate that does not match.
    hasher: RandomState,
    buckets: HashMap<u64, Bucket, BuildHasherDefault<AsIs>>,
    // By slot, apart from the entries: a lookup touches these alone, and dense they stay in the cache.
    visits: Vec<Visit<S>>,
    entries: Vec<Vec<Entry>>,
    free: Vec<u32>,
    by_subscriber: HashMap<S, u32>,
    entered: Entered,
    // The number of the current lookup; what it has visited bears it as its stamp.
    lookup: u64,
    // Entries written or removed, and members walked.
    #[cfg(test)]
    touched: u64,
}

/// Nearly all buckets have one member, which lies in the map itself.
enum Bucket {
    One(Member),
    Many(Box<Many>),
}

#[derive(Default)]
struct Many {
    stamp: u64,
    members: Vec<Member>,
}

/// An entry as its bucket sees it.
#[derive(Clone, Copy)]
struct Member {
    slot: u32,
    entry: u32,
}

struct Visit<S> {
    subscriber: S,
    stamp: u64,
}

/// An entry as its subscriber sees it; `position` points back into the bucket.
struct Entry {
    key: u64,
    position: u32,
    dimension: Dimension,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Dimension {
    Id,
    Author,
    Tag(char),
    Kind,
    Unindexed,
}

impl<S: Copy + Eq + Hash> Default for FilterIndex<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Copy + Eq + Hash> FilterIndex<S> {
    /// An empty index.
    pub fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            buckets: HashMap::default(),
            visits: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            by_subscriber: HashMap::new(),
            entered: Entered::default(),
            lookup: 0,
            #[cfg(test)]
            touched: 0,
        }
    }

    /// Enters a subscriber's filters, alternatives all; those it has already stay. A filter that can match
    /// nothing is entered nowhere.
    pub fn register(&mut self, filters: &[Filter], subscriber: S) {
        let mut keys = Vec::new();
        for filter in filters {
            keys_of(&self.hasher, filter, &mut keys);
        }
        self.enter(keys, subscriber);
    }

    /// Enters a subscriber as a candidate for every event, for predicates that are no filters.
    pub fn register_unindexed(&mut self, subscriber: S) {
        self.enter(vec![unindexed(&self.hasher)], subscriber);
    }

    /// Removes all that was entered for a subscriber; tells whether there was anything.
    pub fn unregister(&mut self, subscriber: S) -> bool {
        let Some(slot) = self.by_subscriber.remove(&subscriber) else {
            return false;
        };
        while let Some(entry) = self.entries[slot as usize].pop() {
            self.leave(&entry);
        }
        self.entries[slot as usize] = Vec::new();
        self.free.push(slot);
        true
    }

    /// Calls `found` with each subscriber that could want the event, once each, in no order.
    pub fn for_each_candidate<E: EventFields>(&mut self, event: &E, mut found: impl FnMut(S)) {
        self.lookup += 1;
        let Self {
            hasher,
            buckets,
            visits,
            entered,
            lookup,
            ..
        } = self;
        #[cfg(test)]
        let touched = &mut self.touched;
        let mut visit = |key: u64| {
            let members = match buckets.get_mut(&key) {
                None => return,
                Some(Bucket::One(member)) => std::slice::from_ref(member),
                // An event that repeats a tag walks its subscribers once.
                Some(Bucket::Many(many)) if many.stamp == *lookup => return,
                Some(Bucket::Many(many)) => {
                    many.stamp = *lookup;
                    &many.members
                }
            };
            for member in members {
                #[cfg(test)]
                {
                    *touched += 1;
                }
                let visit = &mut visits[member.slot as usize];
                if visit.stamp != *lookup {
                    visit.stamp = *lookup;
                    found(visit.subscriber);
                }
            }
        };
        if entered.any(Dimension::Id) {
            visit(key(hasher, Dimension::Id, event.id()).0);
        }
        if entered.any(Dimension::Author) {
            visit(key(hasher, Dimension::Author, event.pubkey()).0);
        }
        if entered.any_tag() {
            event.any_tag(&mut |name, value| {
                if entered.any(Dimension::Tag(name)) {
                    visit(key(hasher, Dimension::Tag(name), value).0);
                }
                false
            });
        }
        if entered.any(Dimension::Kind) {
            visit(key(hasher, Dimension::Kind, event.kind()).0);
        }
        if entered.any(Dimension::Unindexed) {
            visit(unindexed(hasher).0);
        }
    }

    /// The subscribers that could want the event, once each, in no order.
    pub fn candidates<E: EventFields>(&mut self, event: &E) -> Vec<S> {
        let mut found = Vec::new();
        self.for_each_candidate(event, |subscriber| found.push(subscriber));
        found
    }

    /// Calls `visit` with each subscriber, in no order.
    pub fn for_each(&self, visit: impl FnMut(S)) {
        self.by_subscriber.keys().copied().for_each(visit);
    }

    /// Subscribers that are entered somewhere.
    pub fn len(&self) -> usize {
        self.by_subscriber.len()
    }

    /// Whether nothing is entered, buckets included.
    pub fn is_empty(&self) -> bool {
        self.by_subscriber.is_empty() && self.buckets.is_empty()
    }

    fn enter(&mut self, mut keys: Vec<(u64, Dimension)>, subscriber: S) {
        keys.sort_unstable();
        keys.dedup();
        let slot = match self.by_subscriber.get(&subscriber) {
            Some(&slot) => {
                let entries = &self.entries[slot as usize];
                let known: HashSet<_> = entries.iter().map(|entry| (entry.key, entry.dimension)).collect();
                keys.retain(|key| !known.contains(key));
                slot
            }
            None if keys.is_empty() => return,
            None => self.take_slot(subscriber),
        };
        let entries = &mut self.entries[slot as usize];
        entries.reserve_exact(keys.len());
        for (key, dimension) in keys {
            let member = Member {
                slot,
                entry: small(entries.len()),
            };
            let position = match self.buckets.entry(key) {
                hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(Bucket::One(member));
                    0
                }
                hash_map::Entry::Occupied(mut bucket) => bucket.get_mut().push(member),
            };
            entries.push(Entry {
                key,
                position,
                dimension,
            });
            self.entered.change(dimension, 1);
            #[cfg(test)]
            {
                self.touched += 1;
            }
        }
    }

    fn leave(&mut self, entry: &Entry) {
        let hash_map::Entry::Occupied(mut bucket) = self.buckets.entry(entry.key) else {
            unreachable!("each entry is a member of its bucket")
        };
        match bucket.get_mut() {
            Bucket::One(_) => {
                bucket.remove();
            }
            Bucket::Many(many) => {
                many.members.swap_remove(entry.position as usize);
                if let Some(moved) = many.members.get(entry.position as usize) {
                    self.entries[moved.slot as usize][moved.entry as usize].position = entry.position;
                }
                if let [last] = many.members[..] {
                    bucket.insert(Bucket::One(last));
                }
            }
        }
        self.entered.change(entry.dimension, -1);
        #[cfg(test)]
        {
            self.touched += 1;
        }
    }

    fn take_slot(&mut self, subscriber: S) -> u32 {
        // A used slot keeps its stamp: stamps only grow.
        let slot = if let Some(slot) = self.free.pop() {
            self.visits[slot as usize].subscriber = subscriber;
            slot
        } else {
            self.visits.push(Visit { subscriber, stamp: 0 });
            self.entries.push(Vec::new());
            small(self.visits.len() - 1)
        };
        self.by_subscriber.insert(subscriber, slot);
        slot
    }
}

impl Bucket {
    /// Adds a member and tells where it stands.
    fn push(&mut self, member: Member) -> u32 {
        match self {
            Self::One(first) => {
                *self = Self::Many(Box::new(Many {
                    stamp: 0,
                    members: vec![*first, member],
                }));
                1
            }
            Self::Many(many) => {
                many.members.push(member);
                small(many.members.len() - 1)
            }
        }
    }
}

/// The buckets of a filter: the values of its most selective dimension (LIVE-02).
fn keys_of(hasher: &RandomState, filter: &Filter, keys: &mut Vec<(u64, Dimension)>) {
    if filter.matches_nothing() {
        return;
    }
    if let Some(ids) = &filter.ids {
        keys.extend(ids.iter().map(|id| key(hasher, Dimension::Id, id)));
    } else if let Some(authors) = &filter.authors {
        keys.extend(
            authors
                .iter()
                .map(|author| key(hasher, Dimension::Author, author)),
        );
    } else if let Some(tag) = filter.tags.first() {
        keys.extend(
            tag.values
                .iter()
                .map(|value| key(hasher, Dimension::Tag(tag.name), &**value)),
        );
    } else if let Some(tag) = filter.tags_all.first() {
        // An event that matches has every value, so it is found under any one of them.
        keys.extend(
            tag.values
                .first()
                .map(|value| key(hasher, Dimension::Tag(tag.name), &**value)),
        );
    } else if let Some(kinds) = &filter.kinds {
        keys.extend(kinds.iter().map(|kind| key(hasher, Dimension::Kind, kind)));
    } else {
        keys.push(unindexed(hasher));
    }
}

fn key(hasher: &RandomState, dimension: Dimension, value: impl Hash) -> (u64, Dimension) {
    (hasher.hash_one((dimension, value)), dimension)
}

fn unindexed(hasher: &RandomState) -> (u64, Dimension) {
    key(hasher, Dimension::Unindexed, ())
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("an index holds fewer than four thousand million entries")
}

/// How many entries each dimension has, so that an event is asked only for what somebody wants: most tags of
/// most events are nobody's.
struct Entered {
    ids: usize,
    authors: usize,
    kinds: usize,
    unindexed: usize,
    tags: usize,
    // Per ASCII name; the last is for all others.
    names: [usize; 129],
}

impl Default for Entered {
    fn default() -> Self {
        Self {
            ids: 0,
            authors: 0,
            kinds: 0,
            unindexed: 0,
            tags: 0,
            names: [0; 129],
        }
    }
}

impl Entered {
    fn any(&self, dimension: Dimension) -> bool {
        let count = match dimension {
            Dimension::Id => self.ids,
            Dimension::Author => self.authors,
            Dimension::Tag(name) => self.names[Self::name(name)],
            Dimension::Kind => self.kinds,
            Dimension::Unindexed => self.unindexed,
        };
        count > 0
    }

    fn any_tag(&self) -> bool {
        self.tags > 0
    }

    fn change(&mut self, dimension: Dimension, by: isize) {
        let count = match dimension {
            Dimension::Id => &mut self.ids,
            Dimension::Author => &mut self.authors,
            Dimension::Tag(name) => {
                self.tags = self.tags.wrapping_add_signed(by);
                &mut self.names[Self::name(name)]
            }
            Dimension::Kind => &mut self.kinds,
            Dimension::Unindexed => &mut self.unindexed,
        };
        *count = count.wrapping_add_signed(by);
    }

    fn name(name: char) -> usize {
        if name.is_ascii() { name as usize } else { 128 }
    }
}

/// Bucket keys are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("bucket keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests;
