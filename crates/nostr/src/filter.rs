//! Filters (NIP-01, NIP-91's `&x`) and the one matcher (STORE-F13).

use std::fmt;

use crate::{
    escape::quoted,
    event::{EventFields, EventId, PublicKey},
};

mod parse;

/// How many tag names one filter may ask for.
pub const MAX_TAG_CONDITIONS: usize = 64;

/// A list without repetitions, in order, so that looking a value up is a binary search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SortedList<T>(Vec<T>);

impl<T: Ord> FromIterator<T> for SortedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut values: Vec<T> = iter.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Self(values)
    }
}

impl<T> std::ops::Deref for SortedList<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Ord> SortedList<T> {
    fn has(&self, value: &T) -> bool {
        self.0.binary_search(value).is_ok()
    }
}

/// The values that a filter asks of one tag name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TagCondition {
    /// The tag's one-character name (STORE-F04).
    pub name: char,
    /// The values: any of them for a plain condition (`#x`), every one for `&x` (STORE-F03).
    pub values: SortedList<Box<str>>,
}

/// What a subscriber, a query, a count or a deletion asks for.
///
/// `None` constrains nothing; an empty list matches nothing (STORE-F11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Filter {
    /// Event ids.
    pub ids: Option<SortedList<EventId>>,
    /// Authors.
    pub authors: Option<SortedList<PublicKey>>,
    /// Kinds.
    pub kinds: Option<SortedList<u16>>,
    /// `#x`: one condition per name; each needs one of its values.
    pub tags: Vec<TagCondition>,
    /// `&x`: one condition per name; each needs all its values.
    pub tags_all: Vec<TagCondition>,
    /// Not older than this, in unix seconds, inclusive.
    pub since: Option<i64>,
    /// Not newer than this, in unix seconds, inclusive.
    pub until: Option<i64>,
    /// At most so many stored events, the newest; no part of matching.
    pub limit: Option<u64>,
    /// NIP-50; no part of matching.
    pub search: Option<String>,
    /// The filter names a tag that is not indexed (a name of none or several characters): it matches nothing (STORE-F04).
    pub unindexed_tag: bool,
}

/// Why JSON is not a filter; the text names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Not JSON, or not of the shape that the field needs.
    #[error("{field}: expected {expected} at byte {at}")]
    Syntax {
        /// The field, or `filter` outside all fields.
        field: String,
        /// What would be right.
        expected: &'static str,
        /// Offset in what was parsed.
        at: usize,
    },
    /// A field's value is none that it can have.
    #[error("{field} must be {expected}")]
    Field {
        /// The field, cut to 32 characters.
        field: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A key that no filter has, cut to 32 characters. Left out, a mistyped condition would widen what the filter
    /// matches.
    #[error("unknown field \"{0}\"")]
    Unknown(String),
    /// A key stands twice; it is cut to 32 characters.
    #[error("{0} stands twice")]
    Repeated(String),
    /// More than [`MAX_TAG_CONDITIONS`].
    #[error("filter must name at most {MAX_TAG_CONDITIONS} tags")]
    TooManyTags,
}

impl Filter {
    /// The fields that a filter may have besides `#x` and `&x`.
    pub const FIELDS: [&str; 7] = ["ids", "authors", "kinds", "since", "until", "limit", "search"];

    /// Whether no event at all can match: an empty list, an unindexed tag, `since` after `until`.
    pub fn matches_nothing(&self) -> bool {
        let mut conditions = self.tags.iter().chain(&self.tags_all);
        self.unindexed_tag
            || self.ids.as_ref().is_some_and(|list| list.is_empty())
            || self.authors.as_ref().is_some_and(|list| list.is_empty())
            || self.kinds.as_ref().is_some_and(|list| list.is_empty())
            || conditions.any(|condition| condition.values.is_empty())
            || self
                .since
                .zip(self.until)
                .is_some_and(|(since, until)| since > until)
    }

    /// The one matcher (STORE-F13): everything but `limit` and `search`.
    pub fn matches<E: EventFields>(&self, event: &E) -> bool {
        // The cheapest first: most candidates of a live event fail at a number.
        !self.unindexed_tag
            && self.kinds.as_ref().is_none_or(|kinds| kinds.has(&event.kind()))
            && self.since.is_none_or(|since| event.created_at() >= since)
            && self.until.is_none_or(|until| event.created_at() <= until)
            && self
                .authors
                .as_ref()
                .is_none_or(|authors| authors.has(&event.pubkey()))
            && self.ids.as_ref().is_none_or(|ids| ids.has(&event.id()))
            && self.tags.iter().all(|condition| condition.any(event))
            && self.tags_all.iter().all(|condition| condition.all(event))
    }
}

impl TagCondition {
    fn find(&self, name: char, value: &str) -> Option<usize> {
        if name != self.name {
            return None;
        }
        self.values.binary_search_by(|have| (**have).cmp(value)).ok()
    }

    fn any(&self, event: &impl EventFields) -> bool {
        event.any_tag(&mut |name, value| self.find(name, value).is_some())
    }

    fn all(&self, event: &impl EventFields) -> bool {
        // One walk over the tags, however many values are asked for.
        let mut missing = self.values.len();
        let mut seen = vec![false; missing];
        missing > 0
            && event.any_tag(&mut |name, value| {
                if let Some(index) = self.find(name, value) {
                    missing -= usize::from(!std::mem::replace(&mut seen[index], true));
                }
                missing == 0
            })
    }
}

/// The filter as JSON, one line, as it goes over the wire.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = Members { f, first: true };
        members.list("ids", self.ids.as_deref(), |f, id| write!(f, "\"{id}\""))?;
        members.list("authors", self.authors.as_deref(), |f, author| {
            write!(f, "\"{author}\"")
        })?;
        members.list("kinds", self.kinds.as_deref(), |f, kind| write!(f, "{kind}"))?;
        for (sign, conditions) in [('#', &self.tags), ('&', &self.tags_all)] {
            for TagCondition { name, values } in conditions {
                members.list(&format!("{sign}{name}"), Some(values), |f, value| {
                    f.write_str(&quoted(value))
                })?;
            }
        }
        if self.unindexed_tag {
            members.list("#unindexed", Some(&[]), |_, (): &()| Ok(()))?;
        }
        members.value("since", self.since)?;
        members.value("until", self.until)?;
        members.value("limit", self.limit)?;
        members.value("search", self.search.as_deref().map(quoted))?;
        members.end()
    }
}

/// Writes an object's members, those that are there.
struct Members<'f, 'b> {
    f: &'f mut fmt::Formatter<'b>,
    first: bool,
}

impl Members<'_, '_> {
    fn key(&mut self, key: &str) -> fmt::Result {
        self.f
            .write_str(if std::mem::take(&mut self.first) { "{" } else { "," })?;
        write!(self.f, "{}:", quoted(key))
    }

    fn value(&mut self, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        self.key(key)?;
        write!(self.f, "{value}")
    }

    fn list<T>(
        &mut self,
        key: &str,
        values: Option<&[T]>,
        write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        let Some(values) = values else { return Ok(()) };
        self.key(key)?;
        for (index, value) in values.iter().enumerate() {
            self.f.write_str(if index == 0 { "[" } else { "," })?;
            write(self.f, value)?;
        }
        self.f.write_str(if values.is_empty() { "[]" } else { "]" })
    }

    fn end(self) -> fmt::Result {
        self.f.write_str(if self.first { "{}" } else { "}" })
    }
}

#[cfg(test)]
mod tests;
