//! From JSON to a [`Filter`]: types are strict, values that no event can have are dropped.

use std::borrow::Cow;

use super::{Filter, FilterError, MAX_TAG_CONDITIONS, SortedList, TagCondition};
use crate::{
    event::{EventId, PublicKey, one_character},
    hex,
    scan::{self, KeySet, ScanError, Scanner},
};

impl Filter {
    /// Parses one filter object. Values of a right type that no event can have (an author that is not 64
    /// lowercase hex digits, a kind above 65535) match nothing and are dropped; a wrong type is an error
    /// (STORE-F02, F12). The same goes for values of `#e` and `#p` that are not 64 lowercase hex digits; one
    /// of them in `&e` or `&p` leaves that list empty. A field that is neither of [`Self::FIELDS`] nor names a tag is
    /// an error.
    pub fn parse(json: &[u8]) -> Result<Self, FilterError> {
        let mut scanner = Scanner::new(scan::text(json).map_err(within("filter"))?);
        let filter = Self::read(&mut scanner)?;
        scanner.end().map_err(within("filter"))?;
        Ok(filter)
    }

    /// Reads one filter object and leaves what follows.
    pub(crate) fn read(scanner: &mut Scanner<'_>) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        let mut others = KeySet::default();
        scanner.take(b'{', "an object").map_err(within("filter"))?;
        let mut first = true;
        while scanner.more(b'}', &mut first).map_err(within("filter"))? {
            let key = scanner.key().map_err(within("filter"))?;
            if !filter.member(&key, scanner, &mut others)? {
                return Err(FilterError::Repeated(scan::cut(&key, 32).to_owned()));
            }
        }
        if filter.tags.len() + filter.tags_all.len() > MAX_TAG_CONDITIONS {
            return Err(FilterError::TooManyTags);
        }
        Ok(filter)
    }

    /// Reads a member's value, and tells whether its key is new.
    fn member(
        &mut self,
        key: &str,
        scanner: &mut Scanner<'_>,
        others: &mut KeySet,
    ) -> Result<bool, FilterError> {
        Ok(match key {
            "ids" => self.ids.replace(hex_list(scanner, key, EventId)?).is_none(),
            "authors" => self.authors.replace(hex_list(scanner, key, PublicKey)?).is_none(),
            "kinds" => {
                let read = |scanner: &mut Scanner<'_>| {
                    let kind = scanner
                        .integer()
                        .map_err(|_| field_error(key, "a list of integers"))?;
                    Ok(kind.parse().ok())
                };
                self.kinds
                    .replace(list(scanner, key, "a list of integers", read)?)
                    .is_none()
            }
            "since" => self.since.replace(time(scanner, key)?).is_none(),
            "until" => self.until.replace(time(scanner, key)?).is_none(),
            "limit" => {
                let limit = scanner.integer().ok().filter(|limit| !limit.starts_with('-'));
                let limit = limit.ok_or_else(|| field_error(key, "an integer, 0 or more"))?;
                self.limit.replace(limit.parse().unwrap_or(u64::MAX)).is_none()
            }
            "search" => {
                if scanner.peek() != Some(b'"') {
                    return Err(field_error(key, "a string"));
                }
                let search = scanner.string().map_err(within(key))?;
                self.search.replace(search.decode().into_owned()).is_none()
            }
            _ => {
                if let Some((sign @ ("#" | "&"), name)) = key.split_at_checked(1) {
                    return self.tag(key, sign == "&", name, scanner, others);
                }
                return Err(FilterError::Unknown(scan::cut(key, 32).to_owned()));
            }
        })
    }

    fn tag(
        &mut self,
        key: &str,
        all: bool,
        name: &str,
        scanner: &mut Scanner<'_>,
        others: &mut KeySet,
    ) -> Result<bool, FilterError> {
        // NIP-01: these are whole ids and keys, so nothing else is looked for.
        let hex_only = matches!(name, "e" | "p");
        let mut impossible = false;
        let values = string_list(scanner, key, |value| {
            let possible = !hex_only || hex::decode::<32>(value.as_bytes()).is_some();
            impossible |= !possible;
            possible.then(|| Box::from(value))
        })?;
        let Some(name) = one_character(name) else {
            self.unindexed_tag = true;
            return Ok(others.insert(key.to_owned()));
        };
        let values = if all && impossible {
            SortedList::from_iter([])
        } else {
            values
        };
        let conditions = if all { &mut self.tags_all } else { &mut self.tags };
        if conditions.len() > MAX_TAG_CONDITIONS {
            return Err(FilterError::TooManyTags);
        }
        let new = conditions.iter().all(|condition| condition.name != name);
        conditions.push(TagCondition { name, values });
        Ok(new)
    }
}

fn within(field: &str) -> impl Fn(ScanError) -> FilterError {
    move |ScanError { at, expected }| FilterError::Syntax {
        field: scan::cut(field, 32).to_owned(),
        expected,
        at,
    }
}

fn field_error(field: &str, expected: &'static str) -> FilterError {
    FilterError::Field {
        field: scan::cut(field, 32).to_owned(),
        expected,
    }
}

/// A list whose members `read` gives, or drops.
fn list<'a, T: Ord>(
    scanner: &mut Scanner<'a>,
    field: &str,
    expected: &'static str,
    mut read: impl FnMut(&mut Scanner<'a>) -> Result<Option<T>, FilterError>,
) -> Result<SortedList<T>, FilterError> {
    scanner
        .take(b'[', expected)
        .map_err(|_| field_error(field, expected))?;
    let mut values = Vec::new();
    let mut first = true;
    while scanner.more(b']', &mut first).map_err(within(field))? {
        values.extend(read(scanner)?);
    }
    Ok(SortedList::from_iter(values))
}

fn string_list<T: Ord>(
    scanner: &mut Scanner<'_>,
    field: &str,
    mut keep: impl FnMut(&str) -> Option<T>,
) -> Result<SortedList<T>, FilterError> {
    list(scanner, field, "a list of strings", |scanner| {
        if scanner.peek() != Some(b'"') {
            return Err(field_error(field, "a list of strings"));
        }
        let value: Cow<'_, str> = scanner.string().map_err(within(field))?.decode();
        Ok(keep(&value))
    })
}

fn hex_list<T: Ord>(
    scanner: &mut Scanner<'_>,
    field: &str,
    of: impl Fn([u8; 32]) -> T,
) -> Result<SortedList<T>, FilterError> {
    string_list(scanner, field, |value| hex::decode(value.as_bytes()).map(&of))
}

/// Unix seconds; what is beyond 64 bits counts as the nearest.
fn time(scanner: &mut Scanner<'_>, field: &str) -> Result<i64, FilterError> {
    let value = scanner.integer().map_err(|_| field_error(field, "an integer"))?;
    Ok(scan::saturating_i64(value))
}
