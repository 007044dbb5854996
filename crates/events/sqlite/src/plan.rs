//! Which way a filter is answered: one access path per shape.
//!
//! | the filter has | the path |
//! |---|---|
//! | ids | one lookup per id |
//! | authors, addressable kinds, `#d` | one lookup per address |
//! | authors, regular kinds, a tag | a walk per author, value and kind together |
//! | tags | a walk per value and kind, of the condition with the fewest rows |
//! | many authors, kinds, a limit | a walk per kind that picks the authors out, while that pays (see `feed.rs`) |
//! | authors | a walk per author and kind |
//! | kinds | a walk per kind |
//! | nothing but times | a walk by time |
//!
//! Walks are merged newest first. Whatever a path yields is compared with the event itself (STORE-F06).

use esker_coord_sqlite::{Error, rusqlite::params};
use esker_events_api::Address;
use esker_nostr::{Canonical, EventId, Filter, PublicKey, TagCondition, kind};

use crate::{
    deferred::Gathered,
    keys::{self, Key},
    rows::has_pair_rows,
    source::{Cost, Leading, Path, Range, kinds_present, read_keys},
    view::{View, blob},
};

/// How a filter is answered.
#[derive(Debug)]
pub(crate) enum Plan {
    /// These keys, looked up already.
    Keys(Vec<Key>),
    /// Walks to merge, and keys that wait beside them.
    Walks { paths: Vec<Path>, waiting: Vec<Key> },
    /// Walks per kind that pick authors out, and the walks to fall back on.
    Feed { kinds: Vec<u16>, authors: Vec<i64> },
}

/// A plan, or the news that the snapshot is too old for the tag rows in memory.
pub(crate) enum Planned {
    Plan(Plan),
    Stale,
}

/// Fewer authors than this are always walked one by one.
const FEED_AUTHORS: usize = 8;
/// A limit above this is no feed.
const FEED_LIMIT: u64 = 5000;
/// More combined keys than this are not looked up one by one.
const COMBINED: usize = 1024;
/// How far alternatives are counted before one is taken: until the smallest is known.
const PROBES: [usize; 3] = [32, 256, 2048];

/// Chooses the path for a filter that can match something.
pub(crate) fn plan(
    view: &View<'_>,
    filter: &Filter,
    range: Range,
    wanted: u64,
    cost: &mut Cost,
) -> Result<Planned, Error> {
    if let Some(ids) = &filter.ids {
        return Ok(Planned::Plan(Plan::Keys(by_ids(view, ids, range, cost)?)));
    }
    if let Some(addresses) = addresses(filter) {
        return Ok(Planned::Plan(Plan::Keys(by_addresses(
            view, &addresses, range, cost,
        )?)));
    }
    if !filter.tags.is_empty() || !filter.tags_all.is_empty() {
        return by_tags(view, filter, range, cost);
    }
    let plan = match (&filter.authors, &filter.kinds) {
        (Some(authors), Some(kinds)) if is_feed(authors, kinds, wanted) => Plan::Feed {
            kinds: kinds.to_vec(),
            authors: authors.iter().map(|author| keys::author(*author)).collect(),
        },
        (Some(_), _) => Plan::Walks {
            paths: author_paths(view, filter, cost)?,
            waiting: Vec::new(),
        },
        (None, Some(kinds)) => Plan::Walks {
            paths: kinds.iter().map(|kind| Path::Kind(*kind)).collect(),
            waiting: Vec::new(),
        },
        (None, None) => Plan::Walks {
            paths: vec![Path::Time],
            waiting: Vec::new(),
        },
    };
    Ok(Planned::Plan(plan))
}

/// Whether walking the kinds may be cheaper than walking each author. Of a replaceable kind an author has one event,
/// and asking for it is as cheap as it gets.
fn is_feed(authors: &[PublicKey], kinds: &[u16], wanted: u64) -> bool {
    authors.len() >= FEED_AUTHORS
        && wanted <= FEED_LIMIT
        && !kinds.iter().all(|kind| kind::is_replaceable(*kind))
}

pub(crate) const IDS: &str = "SELECT time, place, seq FROM by_id WHERE place = ?1";
pub(crate) const ADDRESSES: &str =
    "SELECT events.seq, json FROM by_address JOIN events USING (seq) WHERE address = ?1";

fn by_ids(view: &View<'_>, ids: &[EventId], range: Range, cost: &mut Cost) -> Result<Vec<Key>, Error> {
    let mut statement = view.sql.prepare_cached(IDS)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        cost.statements += 1;
        let mut rows = statement.query(params![keys::id_place(*id)])?;
        while let Some(row) = rows.next()? {
            cost.rows += 1;
            let key = Key {
                time: row.get(0)?,
                place: row.get(1)?,
                seq: row.get(2)?,
            };
            if range.contains(key) {
                found.push(key);
            }
        }
    }
    Ok(found)
}

/// The addresses that a filter asks for, if it asks for nothing else: authors, addressable kinds, and `d`.
fn addresses(filter: &Filter) -> Option<Vec<Address>> {
    let (authors, kinds) = (filter.authors.as_ref()?, filter.kinds.as_ref()?);
    let identifiers = &filter.tags.iter().find(|condition| condition.name == 'd')?.values;
    let count = authors
        .len()
        .checked_mul(kinds.len())?
        .checked_mul(identifiers.len())?;
    if count > COMBINED || !kinds.iter().all(|kind| kind::is_addressable(*kind)) {
        return None;
    }
    let mut addresses = Vec::with_capacity(count);
    for kind in kinds.iter() {
        for pubkey in authors.iter() {
            for identifier in identifiers.iter() {
                addresses.push(Address {
                    kind: *kind,
                    pubkey: *pubkey,
                    identifier: identifier.to_string(),
                });
            }
        }
    }
    Some(addresses)
}

fn by_addresses(
    view: &View<'_>,
    addresses: &[Address],
    range: Range,
    cost: &mut Cost,
) -> Result<Vec<Key>, Error> {
    let mut statement = view.sql.prepare_cached(ADDRESSES)?;
    let mut found = Vec::new();
    for address in addresses {
        cost.statements += 1;
        let mut rows = statement.query(params![view.secret.address(address)])?;
        while let Some(row) = rows.next()? {
            cost.rows += 1;
            let json = blob(row, 1)?;
            let key = Key::of(&Canonical::new(json), row.get(0)?);
            if range.contains(key) {
                found.push(key);
            }
        }
    }
    Ok(found)
}

/// A path for each of the filter's authors and kinds.
fn author_paths(view: &View<'_>, filter: &Filter, cost: &mut Cost) -> Result<Vec<Path>, Error> {
    let mut authors: Vec<i64> = filter
        .authors
        .iter()
        .flat_map(|authors| authors.iter())
        .map(|author| keys::author(*author))
        .collect();
    // Two authors that share 64 bits share their rows; in a sorted list they are neighbours.
    authors.dedup();
    paths(view, authors.into_iter().map(Leading::Author), filter, cost)
}

/// A path for each leading value and each kind that the filter names, or else that is there.
fn paths(
    view: &View<'_>,
    leading: impl Iterator<Item = Leading>,
    filter: &Filter,
    cost: &mut Cost,
) -> Result<Vec<Path>, Error> {
    let mut paths = Vec::new();
    for leading in leading {
        match &filter.kinds {
            Some(kinds) => paths.extend(kinds.iter().map(|kind| leading.of_kind(*kind))),
            None => {
                let kinds = kinds_present(view.sql, leading, cost)?;
                paths.extend(kinds.into_iter().map(|kind| leading.of_kind(kind)));
            }
        }
    }
    Ok(paths)
}

/// Ways to answer one filter: each finds all that match, so the one with the fewest rows is taken.
struct Alternative {
    paths: Vec<Path>,
    /// The tag keys whose waiting rows belong to it, if it is about tags.
    tags: Vec<i64>,
    waiting: Vec<Key>,
}

fn by_tags(view: &View<'_>, filter: &Filter, range: Range, cost: &mut Cost) -> Result<Planned, Error> {
    let mut alternatives = tag_alternatives(view, filter, cost)?;
    let all: Vec<i64> = alternatives
        .iter()
        .flat_map(|alternative| alternative.tags.iter().copied())
        .collect();
    let Gathered::Rows(waiting) = view.gather(&all)? else {
        return Ok(Planned::Stale);
    };
    let mut waiting = waiting.into_iter();
    for alternative in &mut alternatives {
        alternative.waiting = waiting
            .by_ref()
            .take(alternative.tags.len())
            .flatten()
            .filter(|row| {
                filter
                    .kinds
                    .as_ref()
                    .is_none_or(|kinds| kinds.contains(&row.kind))
            })
            .map(|row| row.key)
            .filter(|key| range.contains(*key))
            .collect();
    }
    let Alternative { paths, waiting, .. } = smallest(view, alternatives, range, cost)?;
    Ok(Planned::Plan(Plan::Walks { paths, waiting }))
}

fn tag_alternatives(view: &View<'_>, filter: &Filter, cost: &mut Cost) -> Result<Vec<Alternative>, Error> {
    let conditions = filter
        .tags
        .iter()
        .map(|condition| (condition.name, condition.values.iter().collect::<Vec<_>>()))
        // Of `&x` any one value will do.
        .chain(
            filter
                .tags_all
                .iter()
                .flat_map(|TagCondition { name, values }| values.iter().map(|value| (*name, vec![value]))),
        );
    let authors = filter.authors.as_deref().unwrap_or_default();
    let paired = !authors.is_empty()
        && filter
            .kinds
            .as_ref()
            .is_some_and(|kinds| kinds.iter().all(|kind| has_pair_rows(*kind)));

    let mut alternatives = Vec::new();
    let mut pairs = Vec::new();
    for (name, values) in conditions {
        let tags: Vec<i64> = values.iter().map(|value| view.secret.tag(name, value)).collect();
        if paired && tags.len() * authors.len() <= COMBINED {
            let combined = authors
                .iter()
                .flat_map(|author| {
                    values
                        .iter()
                        .map(|value| view.secret.tag_of(name, value, *author))
                })
                .collect();
            pairs.push(combined);
        }
        alternatives.push(tags);
    }
    // An author's rows about one value are among the author's rows and among the value's: never more than either.
    let (tags, with_authors) = if pairs.is_empty() {
        (alternatives, !authors.is_empty())
    } else {
        (pairs, false)
    };
    let mut alternatives = Vec::with_capacity(tags.len() + 1);
    for tags in tags {
        let paths = paths(view, tags.iter().copied().map(Leading::Tag), filter, cost)?;
        alternatives.push(Alternative {
            paths,
            tags,
            waiting: Vec::new(),
        });
    }
    if with_authors {
        let paths = author_paths(view, filter, cost)?;
        alternatives.push(Alternative {
            paths,
            tags: Vec::new(),
            waiting: Vec::new(),
        });
    }
    Ok(alternatives)
}

/// The alternative with the fewest rows, counted no further than it takes to know.
fn smallest(
    view: &View<'_>,
    mut alternatives: Vec<Alternative>,
    range: Range,
    cost: &mut Cost,
) -> Result<Alternative, Error> {
    if alternatives.len() > 1 {
        for probe in PROBES {
            let mut counts = Vec::with_capacity(alternatives.len());
            for alternative in &alternatives {
                counts.push(rows_up_to(view, alternative, range, probe, cost)?);
            }
            let best = (0..counts.len())
                .min_by_key(|n| counts[*n])
                .expect("there are alternatives");
            if counts[best] < probe {
                return Ok(alternatives.swap_remove(best));
            }
        }
    }
    Ok(alternatives.swap_remove(0))
}

fn rows_up_to(
    view: &View<'_>,
    alternative: &Alternative,
    range: Range,
    most: usize,
    cost: &mut Cost,
) -> Result<usize, Error> {
    let mut keys = Vec::new();
    let mut count = alternative.waiting.len();
    for path in &alternative.paths {
        if count >= most {
            break;
        }
        keys.clear();
        read_keys(view.sql, *path, range, most - count, &mut keys, cost)?;
        count += keys.len();
    }
    Ok(count)
}
