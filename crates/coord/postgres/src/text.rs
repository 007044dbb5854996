//! Text that callers chose freely, as Postgres can keep it: NUL is escaped, and keys of any length fit an index.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Stands before what would not be kept as it is.
const ESCAPE: char = '\u{1}';

/// Bytes of a key that an index takes beside others.
const LONGEST_KEY: usize = 512;

/// The text without NUL: NUL is written as the escape and `0`, the escape itself as the escape and `1`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// What [`escape`] was given.
pub(crate) fn unescape(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let (mut letters, mut plain) = (text.chars(), String::with_capacity(text.len()));
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => plain.push(if letters.next() == Some('0') { '\0' } else { ESCAPE }),
            other => plain.push(other),
        }
    }
    plain
}

/// A name as the key of an index: itself, or a digest that no other name has, and then the name beside it.
pub(crate) fn key(name: &str) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let escaped = escape(name);
    if escaped.len() <= LONGEST_KEY {
        return (escaped, None);
    }
    // After an escape, no text has a letter but 0 and 1.
    let key = format!("{ESCAPE}#{}", hex(&Sha256::digest(name.as_bytes())));
    (Cow::Owned(key), Some(escaped))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from_digit(digit.into(), 16).expect("four bits are a hexadecimal digit"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cx_06_every_local_name_is_kept_as_it_is() {
        let texts = [
            "",
            "plain",
            "a\0b",
            "\u{1}",
            "\u{1}0",
            "\0\u{1}\0",
            "\u{1}1\0",
            "é\0",
        ];
        for (i, text) in texts.iter().enumerate() {
            let escaped = escape(text);
            assert!(!escaped.contains('\0'), "{text:?}");
            assert_eq!(unescape(escaped.clone().into_owned()), *text);
            assert!(
                texts[..i].iter().all(|earlier| escape(earlier) != escaped),
                "{text:?}"
            );
        }
    }

    #[test]
    fn cx_06_a_name_that_no_index_holds_has_a_key_of_its_own() {
        let (long, longer) = ("n".repeat(513), "n".repeat(5000));
        assert_eq!(key(&long[..512]), (Cow::Borrowed(&long[..512]), None));
        let (short, beside) = key(&long);
        assert!(short.len() < 100 && beside.as_deref() == Some(long.as_str()));
        assert_ne!(short, key(&longer).0);
        // Nobody can choose the name that is another's key.
        assert_ne!(key(&short).0, short);
    }
}
