//! JSON's string escapes, both ways; written as NIP-01 and `JSON.stringify` write them.

/// A part of a string as it stands between its quotes.
pub(crate) enum Piece<'a> {
    /// Stands for itself.
    Plain(&'a str),
    /// What an escape stands for.
    Escaped(char),
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);

/// Whether a block holds no quote, backslash or control character.
fn is_plain(block: &[u8; 32]) -> bool {
    let special = |byte: u8| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < b' ');
    block.iter().fold(0, |found, byte| found | special(*byte)) == 0
}

/// How many bytes stand before the first quote, backslash or control character.
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    // Long strings by the block, whose check becomes vector instructions; then eight bytes at a time: the lowest
    // byte of the word that is marked in its highest bit is a true find.
    let (blocks, _) = bytes.as_chunks::<32>();
    let mut run = 32 * blocks.iter().take_while(|block| is_plain(block)).count();
    let (words, rest) = bytes[run..].as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
        let below_space = word.wrapping_sub(SPACES) & !word;
        let found = (zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES) | below_space) & HIGHS;
        if found != 0 {
            return run + found.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    run + rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))
        .unwrap_or(rest.len())
}

/// What a `\uXXXX` at the beginning stands for and how long it is, its second half included.
pub(crate) fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| {
            Some(unit << 4 | char::from(*digit).to_digit(16)?)
        })
    };
    let first = unit(0)?;
    if let Some(char) = char::from_u32(first) {
        return Some((char, 6));
    }
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second))?;
    // A low half in first place gives a number above all characters.
    char::from_u32(0x1_0000 + (first.checked_sub(0xd800)? << 10) + (second - 0xdc00)).map(|char| (char, 12))
}

/// The parts of a string between its quotes. Wrong escapes, which the scanner refuses, become U+FFFD.
pub(crate) fn pieces(raw: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let Some(escape) = rest.strip_prefix('\\') else {
            if rest.is_empty() {
                return None;
            }
            let (run, after) = rest.split_at(memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len()));
            rest = after;
            return Some(Piece::Plain(run));
        };
        let mut chars = escape.chars();
        let char = match chars.next() {
            Some(char @ ('"' | '\\' | '/')) => char,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') if let Some((char, length)) = unicode(rest.as_bytes()) => {
                rest = &rest[length..];
                return Some(Piece::Escaped(char));
            }
            _ => char::REPLACEMENT_CHARACTER,
        };
        rest = chars.as_str();
        Some(Piece::Escaped(char))
    })
}

/// Appends what `raw` stands for.
pub(crate) fn unescape(raw: &str, text: &mut String) {
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(run) => text.push_str(run),
            Piece::Escaped(char) => text.push(char),
        }
    }
}

/// Appends one character in its canonical spelling.
pub(crate) fn write_char(char: char, out: &mut Vec<u8>) {
    match char {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\0'..' ' => {
            let digits = const_hex::Buffer::<1>::new().const_format(&[char as u8]);
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(digits.as_bytes());
        }
        _ => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends a string in its canonical spelling, with quotes.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    loop {
        let (run, after) = rest.split_at(plain_run(rest.as_bytes()));
        out.extend_from_slice(run.as_bytes());
        let mut chars = after.chars();
        let Some(char) = chars.next() else { break };
        write_char(char, out);
        rest = chars.as_str();
    }
    out.push(b'"');
}

/// A string in its canonical spelling, with quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    String::from_utf8(out).expect("a string escaped is a string still")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_ends_at_a_quote_backslash_or_control_character() {
        for length in 0..75 {
            for at in 0..length {
                for (byte, ends) in [
                    (b'"', true),
                    (b'\\', true),
                    (0, true),
                    (0x1f, true),
                    (b' ', false),
                    (0x7f, false),
                    (0x80, false),
                    (0xff, false),
                    (b'!', false),
                    (b'#', false),
                    (b'[', false),
                    (b']', false),
                    (0xa2, false),
                    (0x9f, false),
                ] {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    assert_eq!(
                        plain_run(&bytes),
                        if ends { at } else { length },
                        "{byte} at {at} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn strings_are_written_as_json_stringify_writes_them() {
        let all: String = ('\0'..='\u{ff}')
            .chain(['\u{2028}', '\u{fffd}', '\u{1f600}'])
            .collect();
        let written = quoted(&all);
        assert!(written.starts_with(
            "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010"
        ));
        assert!(written.contains("\\u001f !\\\"#$"));
        assert!(written.contains("[\\\\]"));
        assert!(written.contains('\u{7f}'));
        assert!(written.ends_with("\u{2028}\u{fffd}\u{1f600}\""));
        let mut back = String::new();
        unescape(&written[1..written.len() - 1], &mut back);
        assert_eq!(back, all);
        assert_eq!(written, serde_json::to_string(&all).unwrap());
    }

    #[test]
    fn wrong_escapes_never_panic() {
        for raw in [
            "\\",
            "\\u",
            "\\u12",
            "\\u\u{1f600}",
            "\\ud800",
            "\\ud800\\u",
            "\\udc00\\udc00",
            "\\\u{e9}a",
            "a\\",
        ] {
            let mut text = String::new();
            unescape(raw, &mut text);
            assert!(text.contains('\u{fffd}'), "{raw}");
        }
    }
}
