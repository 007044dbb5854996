//! The questions that clients ask, made from what a corpus holds.

use std::{
    collections::{HashMap, HashSet},
    fmt::Display,
    io::{BufRead as _, BufReader},
    path::Path,
};

use anyhow::{Context as _, ensure};
use esker_nostr::{Event, EventFields as _, EventId, PublicKey, kind};
use serde_json::{Value, json};

use super::random::Random;
use crate::lines;

/// One shape of question, and many filters of it.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) filters: Vec<String>,
}

/// What the questions are made of.
struct Holdings {
    /// Authors of notes, by the number of their notes, the busiest first.
    authors: Vec<PublicKey>,
    /// Who is mentioned, the most mentioned first.
    mentioned: Vec<String>,
    /// What is replied to, the most replied to first.
    threads: Vec<String>,
    /// Hashtags, the most used first.
    hashtags: Vec<String>,
    /// Ids of notes: an even sample.
    ids: Vec<EventId>,
}

/// So many filters of each shape; measurements go round.
const FILTERS: usize = 400;

/// Reads a corpus and makes the shapes, the same each time.
pub(super) fn of(corpus: &Path) -> anyhow::Result<Vec<Shape>> {
    let holdings = Holdings::read(corpus)?;
    let few = [
        holdings.authors.len(),
        holdings.threads.len(),
        holdings.mentioned.len(),
        holdings.hashtags.len(),
    ];
    ensure!(
        few.into_iter().min() > Some(2),
        "{} is too small to ask about",
        corpus.display()
    );
    let mut random = Random::at(1, 1);
    let mut shape = |name, make: &dyn Fn(&mut Random) -> Value| Shape {
        name,
        filters: (0..FILTERS).map(|_| make(&mut random).to_string()).collect(),
    };
    let Holdings {
        authors,
        mentioned,
        threads,
        hashtags,
        ids,
    } = &holdings;
    Ok(vec![
        shape(
            "feed of 100 authors, limit 100",
            &|random| json!({ "authors": some(random, authors, 100), "kinds": [1, 6], "limit": 100 }),
        ),
        shape(
            "feed of 300 authors, limit 500",
            &|random| json!({ "authors": some(random, authors, 300), "kinds": [1, 6], "limit": 500 }),
        ),
        shape(
            "profile, limit 50",
            &|random| json!({ "authors": some(random, authors, 1), "kinds": [1, 6], "limit": 50 }),
        ),
        shape(
            "thread",
            &|random| json!({ "#e": some(random, threads, 1), "kinds": [1, 1111] }),
        ),
        shape(
            "notifications, limit 100",
            &|random| json!({ "#p": some(random, mentioned, 1), "kinds": [1, 6, 7, 9735], "limit": 100 }),
        ),
        shape("50 ids", &|random| json!({ "ids": some(random, ids, 50) })),
        shape(
            "three hashtags, limit 100",
            &|random| json!({ "#t": some(random, hashtags, 3), "kinds": [1], "limit": 100 }),
        ),
        shape(
            "metadata of 200 authors",
            &|random| json!({ "authors": some(random, authors, 200), "kinds": [0] }),
        ),
    ])
}

/// `count` different ones, the first more often than the last; fewer where there are not so many.
fn some<T: Display>(random: &mut Random, from: &[T], count: usize) -> Vec<String> {
    let mut chosen = HashSet::new();
    let mut list = Vec::new();
    for _ in 0..count * 20 {
        let index = random.zipf(from.len());
        if list.len() < count && chosen.insert(index) {
            list.push(from[index].to_string());
        }
    }
    list
}

impl Holdings {
    fn read(corpus: &Path) -> anyhow::Result<Self> {
        let input =
            lines::open(corpus, |raw| raw).with_context(|| format!("cannot read {}", corpus.display()))?;
        let mut authors: HashMap<PublicKey, u64> = HashMap::new();
        let mut values: HashMap<char, HashMap<String, u64>> = HashMap::new();
        let mut ids = Vec::new();
        for line in BufReader::with_capacity(1 << 20, input).split(b'\n') {
            let Ok(event) = Event::parse(&line?) else { continue };
            if event.kind() != kind::TEXT_NOTE {
                continue;
            }
            *authors.entry(event.pubkey()).or_default() += 1;
            ids.push(event.id());
            let indexed = event.tags().filter_map(|tag| tag.indexed());
            for (name, value) in indexed.filter(|(name, _)| matches!(name, 'e' | 'p' | 't')) {
                let counts = values.entry(name).or_default();
                match counts.get_mut(value) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(value.to_owned(), 1)),
                }
            }
        }
        let mut busiest = |name| by_count(values.remove(&name).unwrap_or_default());
        Ok(Self {
            authors: by_count(authors),
            mentioned: busiest('p'),
            threads: busiest('e'),
            hashtags: busiest('t'),
            ids,
        })
    }
}

/// The most frequent first; in the order of the values where they are as frequent.
fn by_count<T: Ord>(counts: HashMap<T, u64>) -> Vec<T> {
    let mut pairs: Vec<(T, u64)> = counts.into_iter().collect();
    pairs.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    pairs.into_iter().map(|(value, _)| value).collect()
}
