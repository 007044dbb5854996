//! What a search string asks (NIP-50).

/// Whether a search constrains anything once its extensions are set aside (STORE-S01): a token `key:value` with a
/// lower-case key is an extension, unless the value begins with `//` (a URL).
pub fn constrains(search: &str) -> bool {
    search.split_whitespace().any(|token| !is_extension(token))
}

fn is_extension(token: &str) -> bool {
    token.split_once(':').is_some_and(|(key, value)| {
        !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_lowercase())
            && !value.is_empty()
            && !value.starts_with("//")
    })
}

#[cfg(test)]
mod tests {
    use super::constrains;

    #[test]
    fn store_s01_a_search_made_only_of_extensions_constrains_nothing() {
        assert!(!constrains(""));
        assert!(!constrains("  "));
        assert!(!constrains("include:spam language:en"));
        assert!(constrains("include:spam best"));
        assert!(constrains("https://example.com"));
        assert!(constrains("NASA:cool"));
        assert!(constrains("key:"));
    }
}
