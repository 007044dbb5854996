//! What the filters of one message may ask for, decided from the limits alone.

use esker_nostr::Filter;

use crate::Limits;

/// Whether a REQ or COUNT with these filters may be answered at all; else the text of its CLOSED.
pub(super) fn acceptable(filters: &[Filter], limits: &Limits) -> Result<(), String> {
    let (max, max_values) = (limits.filters, limits.filter_values);
    if filters.len() > max {
        return Err(format!("invalid: there may be at most {max} filters"));
    }
    if filters.iter().map(values).sum::<usize>() > max_values {
        return Err(format!(
            "invalid: filters may name at most {max_values} values in all"
        ));
    }
    Ok(())
}

/// Sets the limit of each filter of a REQ: the default where there is none, the maximum where it is larger.
pub(super) fn clamp(filters: &mut [Filter], limits: &Limits) {
    for filter in filters {
        filter.limit = Some(filter.limit.unwrap_or(limits.limit_default).min(limits.limit_max));
    }
}

/// About how many bytes the filters hold in memory.
pub(super) fn bytes(filters: &[Filter]) -> usize {
    let texts: usize = filters
        .iter()
        .flat_map(|filter| filter.tags.iter().chain(&filter.tags_all))
        .flat_map(|tag| tag.values.iter())
        .map(|value| value.len())
        .sum();
    let searches: usize = filters
        .iter()
        .filter_map(|filter| filter.search.as_deref())
        .map(str::len)
        .sum();
    size_of_val(filters) + filters.iter().map(values).sum::<usize>() * VALUE_BYTES + texts + searches
}

/// The largest of what a value takes beside its text: an id or a key.
const VALUE_BYTES: usize = 32;

/// How many values a filter names.
fn values(filter: &Filter) -> usize {
    let lists = [
        filter.ids.as_ref().map(|ids| ids.len()),
        filter.authors.as_ref().map(|authors| authors.len()),
        filter.kinds.as_ref().map(|kinds| kinds.len()),
    ];
    let tags = filter
        .tags
        .iter()
        .chain(&filter.tags_all)
        .map(|tag| tag.values.len());
    lists.into_iter().flatten().chain(tags).sum()
}

#[cfg(test)]
mod tests {
    use esker_nostr::Filter;

    use super::{acceptable, bytes, clamp};
    use crate::Limits;

    fn parse(json: &str) -> Filter {
        Filter::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn relay_03_values_of_every_list_count() {
        let limits = Limits {
            filters: 2,
            filter_values: 6,
            ..Limits::default()
        };
        let id = "0".repeat(64);
        let full = parse(&format!(
            r##"{{"ids":["{id}"],"authors":["{id}"],"kinds":[1,2],"#t":["a"],"&t":["b"]}}"##
        ));
        assert!(acceptable(&[full.clone(), Filter::default()], &limits).is_ok());
        assert!(acceptable(&[full, parse(r#"{"kinds":[1]}"#)], &limits).is_err());
        assert!(
            acceptable(
                &[Filter::default(), Filter::default(), Filter::default()],
                &limits
            )
            .is_err()
        );
    }

    #[test]
    fn relay_03_limits_are_clamped_and_defaulted() {
        let limits = Limits {
            limit_max: 10,
            limit_default: 5,
            ..Limits::default()
        };
        let mut filters = ["{}", r#"{"limit":0}"#, r#"{"limit":10}"#, r#"{"limit":11}"#].map(parse);
        clamp(&mut filters, &limits);
        assert_eq!(
            filters.map(|filter| filter.limit),
            [Some(5), Some(0), Some(10), Some(10)]
        );
    }

    #[test]
    fn relay_03_long_values_weigh_what_they_are() {
        let long = parse(&format!(r##"{{"#t":["{}"]}}"##, "x".repeat(10_000)));
        assert!((10_000..11_000).contains(&bytes(&[long])));
    }
}
