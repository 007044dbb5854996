//! Filters on the command line: JSON objects as a REQ has them.

use esker_nostr::{Filter, FilterError};

use crate::{config, exit::Usage};

/// Parses filters; an error names the filter and what is wrong with it.
pub(crate) fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Filter>, Usage> {
    texts
        .iter()
        .map(|text| {
            let text = text.as_ref();
            Filter::parse(text.as_bytes())
                .map_err(|error| Usage(format!("the filter {text} is not valid: {error}{}", hint(&error))))
        })
        .collect()
}

/// The field that was probably meant.
fn hint(error: &FilterError) -> String {
    let near = match error {
        FilterError::Unknown(name) => config::nearest(name, Filter::FIELDS.map(str::to_owned).into_iter()),
        _ => None,
    };
    config::did_you_mean(near)
}
