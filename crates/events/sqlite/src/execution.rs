//! Answering a query: the walks of all its filters merged into one order, each candidate compared with the event.

use std::{
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use esker_coord_sqlite::{Error, rusqlite::params};
use esker_events_api::{Position, Query, admission::position};
use esker_nostr::{Canonical, EventFields};

use crate::{
    feed::{Feed, Refill},
    keys::Key,
    plan::{Plan, Planned, plan},
    source::{Cost, Path, Range, Walk},
    view::{View, blob},
};

/// How an execution ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There is no more.
    Complete,
    /// A bound was reached; what comes next stands after this position.
    At(Position),
    /// The snapshot is too old for the tag rows in memory: take a new one and begin again. Nothing was given.
    Stale,
}

impl Ended {
    /// After `given`, which there is: a taker has room for one event at least.
    fn at(given: Option<Position>) -> Self {
        Self::At(given.expect("no page is full before its first event"))
    }
}

/// What the taker of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Taken, and more is wanted.
    More,
    /// Taken, and that is enough.
    Enough,
    /// Not taken: there is no room for it.
    Full,
}

pub(crate) const EVENT: &str = "SELECT json, expires FROM events WHERE seq = ?1";

/// Runs a query from where it stands, giving each event once, in order; `remaining` is brought up to date.
///
/// It ends after `time`, counted from when the walks have begun: however many there are, each call comes forward.
pub(crate) fn execute(
    view: &View<'_>,
    query: &mut Query,
    time: Option<Duration>,
    cost: &mut Cost,
    mut take: impl FnMut(i64, Canonical<'_>) -> Take,
) -> Result<Ended, Error> {
    let Some(mut merge) = Merge::begin(view, query, cost)? else {
        return Ok(Ended::Stale);
    };
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let as_of = query.as_of.unwrap_or(i64::MAX).min(view.last());
    let mut fetch = view.sql.prepare_cached(EVENT)?;
    let mut group = Vec::new();
    let mut same_place = Vec::new();
    // Up to where everything has been given.
    let mut given = query.after;
    let mut turns = 0_u32;
    while let Some(place) = merge.next_group(view, query, &mut group, cost)? {
        same_place.clear();
        for (seq, filters) in &group {
            if *seq > as_of {
                continue;
            }
            cost.events += 1;
            let mut rows = fetch.query(params![seq])?;
            // A row that leads nowhere belongs to a removed event and waits to be removed itself.
            let Some(row) = rows.next()? else { continue };
            let expires: Option<i64> = row.get(1)?;
            if view
                .hidden_until
                .is_some_and(|now| expires.is_some_and(|expires| expires <= now))
            {
                continue;
            }
            let json = blob(row, 0)?;
            if group.len() > 1 {
                same_place.push((*seq, filters.clone(), json.to_vec()));
                continue;
            }
            match offer(query, *seq, filters, Canonical::new(json), &mut take) {
                Take::More => {}
                Take::Enough => return Ok(Ended::At(place.position())),
                Take::Full => return Ok(Ended::at(given)),
            }
        }
        // Ids that agree in 64 bits, at one time: rare, and the whole id decides.
        same_place.sort_by_key(|(_, _, json)| Canonical::new(json).id());
        for (seq, filters, json) in &same_place {
            let event = Canonical::new(json);
            match offer(query, *seq, filters, event, &mut take) {
                Take::More => given = Some(position(&event)),
                Take::Enough => return Ok(Ended::At(position(&event))),
                Take::Full => return Ok(Ended::at(given)),
            }
        }
        given = Some(place.position());
        turns += 1;
        if turns.is_multiple_of(16) && until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Ended::At(place.position()));
        }
    }
    Ok(Ended::Complete)
}

/// Gives the event to the taker if one of the filters that led to it matches and may still give one.
fn offer(
    query: &mut Query,
    seq: i64,
    filters: &[usize],
    event: Canonical<'_>,
    take: &mut impl FnMut(i64, Canonical<'_>) -> Take,
) -> Take {
    if query.after.is_some_and(|after| position(&event) <= after) {
        return Take::More;
    }
    let matching =
        |query: &Query, index: usize| query.remaining[index] > 0 && query.filters[index].matches(&event);
    let matched: Vec<usize> = filters
        .iter()
        .copied()
        .filter(|index| matching(query, *index))
        .collect();
    if matched.is_empty() {
        return Take::More;
    }
    let taken = take(seq, event);
    if taken != Take::Full {
        for index in matched {
            query.remaining[index] -= 1;
        }
    }
    taken
}

/// The sources of all filters, the newest key on top.
struct Merge {
    sources: Vec<Source>,
    heads: BinaryHeap<(Key, usize)>,
    feeds: Vec<Feed>,
}

struct Source {
    filter: usize,
    from: From,
}

enum From {
    Walk(Walk),
    /// Keys in ascending order: the newest is last.
    Keys(Vec<Key>),
    /// One kind of a feed.
    Feed {
        feed: usize,
        slot: usize,
    },
    /// A feed that gave up in favour of walks.
    Nothing,
}

impl Merge {
    fn begin(view: &View<'_>, query: &Query, cost: &mut Cost) -> Result<Option<Self>, Error> {
        let mut merge = Self {
            sources: Vec::new(),
            heads: BinaryHeap::new(),
            feeds: Vec::new(),
        };
        for (index, filter) in query.filters.iter().enumerate() {
            if !query.is_open(index) {
                continue;
            }
            let mut below = query.after.map_or(Key::TOP, Key::after);
            if let Some(until) = filter.until {
                below = below.min(Key {
                    time: until,
                    ..Key::TOP
                });
            }
            let range = Range {
                below,
                since: filter.since.unwrap_or(i64::MIN),
            };
            let wanted = query.remaining[index];
            let Planned::Plan(plan) = plan(view, filter, range, wanted, cost)? else {
                return Ok(None);
            };
            match plan {
                Plan::Keys(keys) => merge.add_keys(index, keys),
                Plan::Walks { paths, waiting } => {
                    merge.add_keys(index, waiting);
                    merge.add_walks(view, index, &paths, range, wanted, cost)?;
                }
                Plan::Feed { kinds, authors } => {
                    merge.add_feed(view, query, index, kinds, authors, range, cost)?;
                }
            }
        }
        Ok(Some(merge))
    }

    fn add_keys(&mut self, filter: usize, mut keys: Vec<Key>) {
        keys.sort_unstable();
        if let Some(newest) = keys.pop() {
            self.heads.push((newest, self.sources.len()));
            self.sources.push(Source {
                filter,
                from: From::Keys(keys),
            });
        }
    }

    fn add_walks(
        &mut self,
        view: &View<'_>,
        filter: usize,
        paths: &[Path],
        range: Range,
        wanted: u64,
        cost: &mut Cost,
    ) -> Result<(), Error> {
        let share = wanted.saturating_mul(2) / paths.len().max(1) as u64;
        let first_page = usize::try_from(share).unwrap_or(usize::MAX).clamp(2, 128);
        // A single walk reads what is asked and one more, to know whether that was the end.
        let first_page = if paths.len() == 1 && wanted < 128 {
            usize::try_from(wanted).unwrap_or(1) + 1
        } else {
            first_page
        };
        for path in paths {
            let mut walk = Walk::new(*path, range, first_page);
            if let Some(newest) = walk.next(view.sql, cost)? {
                self.heads.push((newest, self.sources.len()));
                self.sources.push(Source {
                    filter,
                    from: From::Walk(walk),
                });
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn add_feed(
        &mut self,
        view: &View<'_>,
        query: &Query,
        filter: usize,
        kinds: Vec<u16>,
        authors: Vec<i64>,
        range: Range,
        cost: &mut Cost,
    ) -> Result<(), Error> {
        let slots = kinds.len();
        let feed = self.feeds.len();
        self.feeds
            .push(Feed::new(kinds, authors, range, query.remaining[filter]));
        let first = self.sources.len();
        for slot in 0..slots {
            self.sources.push(Source {
                filter,
                from: From::Feed { feed, slot },
            });
        }
        for slot in 0..slots {
            match self.feeds[feed].next(view.sql, slot, cost)? {
                Refill::Key(key) => self.heads.push((key, first + slot)),
                Refill::Ended => {}
                Refill::TooDear => return self.leave_feed(view, query, filter, feed, range.below, cost),
            }
        }
        Ok(())
    }

    /// Goes on below `below` with a walk per author and kind.
    fn leave_feed(
        &mut self,
        view: &View<'_>,
        query: &Query,
        filter: usize,
        feed: usize,
        below: Key,
        cost: &mut Cost,
    ) -> Result<(), Error> {
        for source in &mut self.sources {
            if matches!(source.from, From::Feed { feed: of, .. } if of == feed) {
                source.from = From::Nothing;
            }
        }
        let range = Range {
            below,
            since: self.feeds[feed].range().since,
        };
        let paths = self.feeds[feed].walks();
        self.add_walks(view, filter, &paths, range, query.remaining[filter], cost)
    }

    /// The events of the next place, each with the filters that led to it; `None` at the end.
    fn next_group(
        &mut self,
        view: &View<'_>,
        query: &Query,
        group: &mut Vec<(i64, Vec<usize>)>,
        cost: &mut Cost,
    ) -> Result<Option<Key>, Error> {
        group.clear();
        let mut place: Option<Key> = None;
        while let Some((key, source)) = self.heads.peek().copied() {
            if place.is_some_and(|place| !place.same_place(key)) {
                break;
            }
            self.heads.pop();
            let filter = self.sources[source].filter;
            if matches!(self.sources[source].from, From::Nothing) || query.remaining[filter] == 0 {
                continue;
            }
            place = Some(key);
            match group.iter_mut().find(|(seq, _)| *seq == key.seq) {
                Some((_, filters)) if filters.contains(&filter) => {}
                Some((_, filters)) => filters.push(filter),
                None => group.push((key.seq, vec![filter])),
            }
            self.advance(view, query, source, key, cost)?;
        }
        Ok(place)
    }

    fn advance(
        &mut self,
        view: &View<'_>,
        query: &Query,
        source: usize,
        key: Key,
        cost: &mut Cost,
    ) -> Result<(), Error> {
        let filter = self.sources[source].filter;
        let next = match &mut self.sources[source].from {
            From::Walk(walk) => walk.next(view.sql, cost)?,
            From::Keys(keys) => keys.pop(),
            From::Nothing => None,
            From::Feed { feed, slot } => {
                let (feed, slot) = (*feed, *slot);
                match self.feeds[feed].next(view.sql, slot, cost)? {
                    Refill::Key(key) => Some(key),
                    Refill::Ended => None,
                    Refill::TooDear => return self.leave_feed(view, query, filter, feed, key, cost),
                }
            }
        };
        if let Some(next) = next {
            self.heads.push((next, source));
        }
        Ok(())
    }
}
