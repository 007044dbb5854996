//! Queries in pages: what is asked, how far the answer has come, what one page may cost.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use esker_nostr::{EventId, Filter};

use crate::search;

/// The filters of one query: alternatives (STORE-F07). None at all match nothing (STORE-F14).
pub type Filters = Arc<[Filter]>;

/// An event's place in the one order of all results (STORE-F08): `created_at` descending, then id ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Unix seconds.
    pub created_at: i64,
    /// The id.
    pub id: EventId,
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .created_at
            .cmp(&self.created_at)
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What one page may cost. A page ends at the first bound it reaches; it may hold no event and still have a
/// next page, when the time went into looking.
#[derive(Debug, Clone, Copy)]
pub struct PageLimits {
    /// Events.
    pub events: usize,
    /// Bytes of JSON; a page holds at least one event if there is one.
    pub bytes: usize,
    /// Working time: a query of one connection takes turns with everybody else's.
    pub time: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            events: 500,
            bytes: 1 << 20,
            time: Duration::from_millis(10),
        }
    }
}

/// A query, and how far it has come.
///
/// A query sees the store as of its first page: events accepted later are left to whoever follows the stream
/// from [`Page::as_of`], so that stored and live parts neither overlap nor leave a gap. Events removed between
/// two pages are not returned.
#[derive(Debug, Clone)]
pub struct Query {
    /// The filters.
    pub filters: Filters,
    /// What each page may cost.
    pub limits: PageLimits,
    /// For each filter how many events it may still give.
    pub remaining: Vec<u64>,
    /// What comes next stands after this position.
    pub after: Option<Position>,
    /// Events with a greater offset are not part of the result; `None` before the first page.
    pub as_of: Option<i64>,
    /// Working time so far (STORE-K05).
    pub spent: Duration,
}

/// A part of a query's result.
#[derive(Debug, Clone)]
pub struct Page {
    /// Canonical JSON, in order (STORE-W10).
    pub events: Vec<Bytes>,
    /// The offset of each on the accepted-events stream: what tells a follower of the stream what it was given already.
    pub offsets: Vec<i64>,
    /// The stream offset that the query's first page saw.
    pub as_of: i64,
    /// The query to go on with, or none when the result is complete.
    pub next: Option<Query>,
}

impl Query {
    /// A query from its beginning, with default page limits.
    pub fn new(filters: impl Into<Filters>) -> Self {
        let filters = filters.into();
        let remaining = filters
            .iter()
            .map(|filter| filter.limit.unwrap_or(u64::MAX))
            .collect();
        Self {
            filters,
            limits: PageLimits::default(),
            remaining,
            after: None,
            as_of: None,
            spent: Duration::ZERO,
        }
    }

    /// The same query with other page limits.
    #[must_use]
    pub fn with_limits(mut self, limits: PageLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether filter `index` can still give anything, in a store without search (STORE-F11, F12, S05).
    pub fn is_open(&self, index: usize) -> bool {
        let filter = &self.filters[index];
        self.remaining[index] > 0
            && !filter.matches_nothing()
            && !filter.search.as_deref().is_some_and(search::constrains)
    }

    /// Whether [`crate::EventStore::delete`] may act on a filter: one without any condition deletes nothing
    /// (STORE-F10), and so does one that a search made only of extensions leaves without any.
    pub fn may_delete(filter: &Filter) -> bool {
        filter.ids.is_some()
            || filter.authors.is_some()
            || filter.kinds.is_some()
            || !filter.tags.is_empty()
            || !filter.tags_all.is_empty()
            || filter.since.is_some()
            || filter.until.is_some()
            || filter.unindexed_tag
    }
}

#[cfg(test)]
mod tests {
    use esker_nostr::{EventId, Filter, TagCondition};

    use super::{Position, Query};

    #[test]
    fn store_f08_the_order_is_newest_first_then_lowest_id() {
        let at = |created_at, id| Position {
            created_at,
            id: EventId([id; 32]),
        };
        let mut positions = vec![
            at(1, 2),
            at(i64::MIN, 0),
            at(3, 9),
            at(1, 1),
            at(i64::MAX, 0),
            at(3, 0),
        ];
        positions.sort();
        assert_eq!(
            positions,
            [
                at(i64::MAX, 0),
                at(3, 0),
                at(3, 9),
                at(1, 1),
                at(1, 2),
                at(i64::MIN, 0)
            ]
        );
    }

    #[test]
    fn store_f12_a_limit_of_zero_is_never_open() {
        let limited = |limit| {
            Query::new([Filter {
                limit,
                ..Filter::default()
            }])
        };
        assert!(!limited(Some(0)).is_open(0));
        assert!(limited(Some(1)).is_open(0));
        assert!(limited(None).is_open(0));
        assert_eq!(limited(None).remaining, [u64::MAX]);
    }

    #[test]
    fn store_s05_without_search_a_search_is_closed_unless_it_constrains_nothing() {
        let searching = |search: &str| {
            Query::new([Filter {
                search: Some(search.into()),
                ..Filter::default()
            }])
            .is_open(0)
        };
        assert!(!searching("word"));
        assert!(searching("") && searching("  ") && searching("include:spam"));
    }

    #[test]
    fn store_f10_a_filter_without_a_condition_may_not_delete() {
        let none = Filter {
            limit: Some(3),
            search: Some("word".into()),
            ..Filter::default()
        };
        assert!(!Query::may_delete(&none));
        let tag = || TagCondition {
            name: 'e',
            values: ["x".into()].into_iter().collect(),
        };
        for some in [
            Filter {
                ids: Some([].into_iter().collect()),
                ..none.clone()
            },
            Filter {
                authors: Some([].into_iter().collect()),
                ..none.clone()
            },
            Filter {
                kinds: Some([1].into_iter().collect()),
                ..none.clone()
            },
            Filter {
                tags: vec![tag()],
                ..none.clone()
            },
            Filter {
                tags_all: vec![tag()],
                ..none.clone()
            },
            Filter {
                since: Some(0),
                ..none.clone()
            },
            Filter {
                until: Some(0),
                ..none.clone()
            },
            Filter {
                unindexed_tag: true,
                ..none.clone()
            },
        ] {
            assert!(Query::may_delete(&some), "{some:?}");
        }
    }
}
