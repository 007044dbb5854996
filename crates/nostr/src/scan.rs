//! A strict JSON scanner (RFC 8259): a cursor over text that hands out slices of it and never recurses.

use std::{borrow::Cow, collections::HashSet};

use crate::escape::{self, Piece};

/// How deep a skipped value may nest.
pub(crate) const MAX_DEPTH: u32 = 64;

/// Where the text is not what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanError {
    /// Byte offset.
    pub(crate) at: usize,
    /// What would be right.
    pub(crate) expected: &'static str,
}

type Result<T> = std::result::Result<T, ScanError>;

/// A JSON string as it stands between its quotes; its escapes are known to be right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawStr<'a> {
    pub(crate) raw: &'a str,
    pub(crate) escaped: bool,
}

impl<'a> RawStr<'a> {
    /// The string itself; borrowed when nothing was escaped.
    pub(crate) fn decode(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut text = String::with_capacity(self.raw.len());
        self.push_to(&mut text);
        Cow::Owned(text)
    }

    /// Appends the string itself.
    pub(crate) fn push_to(self, text: &mut String) {
        if self.escaped {
            escape::unescape(self.raw, text);
        } else {
            text.push_str(self.raw);
        }
    }

    /// Appends the string, without quotes, in its canonical spelling.
    pub(crate) fn write_canonical(self, out: &mut Vec<u8>) {
        if !self.escaped {
            out.extend_from_slice(self.raw.as_bytes());
            return;
        }
        for piece in escape::pieces(self.raw) {
            match piece {
                Piece::Plain(run) => out.extend_from_slice(run.as_bytes()),
                Piece::Escaped(char) => escape::write_char(char, out),
            }
        }
    }
}

/// The cursor. Methods skip white space before what they read.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The offset of the next byte to read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What is left to read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The text from `start` up to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error<T>(&self, expected: &'static str) -> Result<T> {
        Err(ScanError {
            at: self.at,
            expected,
        })
    }

    /// The next byte that is not white space, left unread.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads `byte`, or says what was expected.
    pub(crate) fn take(&mut self, byte: u8, expected: &'static str) -> Result<()> {
        if self.peek() != Some(byte) {
            return self.error(expected);
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the list or object has another member; reads the comma before it, or the bracket that closes.
    pub(crate) fn more(&mut self, close: u8, first: &mut bool) -> Result<bool> {
        let next = self.peek();
        if next == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        if std::mem::take(first) {
            return Ok(true);
        }
        if next != Some(b',') {
            return self.error(if close == b'}' {
                "a comma or }"
            } else {
                "a comma or ]"
            });
        }
        self.at += 1;
        if self.peek() == Some(close) {
            return self.error("another member after the comma");
        }
        Ok(true)
    }

    /// An object's next key, with the colon.
    pub(crate) fn key(&mut self) -> Result<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return self.error("a key in double quotes");
        }
        let key = self.string()?;
        self.take(b':', "a colon after the key")?;
        Ok(key.decode())
    }

    /// A string.
    pub(crate) fn string(&mut self) -> Result<RawStr<'a>> {
        self.take(b'"', "a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += escape::plain_run(&self.text.as_bytes()[self.at..]);
            match self.byte() {
                Some(b'"') => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(RawStr { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.error("no control character inside a string (escape it)"),
                None => return self.error("a closing quote"),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        match self.text.as_bytes().get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let rest = &self.text.as_bytes()[self.at..];
                let Some(length) = escape::unicode(rest).map(|(_, length)| length) else {
                    return self.error("a whole \\u escape (four digits, no lone surrogate)");
                };
                self.at += length;
            }
            _ => return self.error("an escape that JSON knows"),
        }
        Ok(())
    }

    /// An integer in its one spelling: no fraction, no exponent, no leading zero, no `-0`.
    pub(crate) fn integer(&mut self) -> Result<&'a str> {
        self.peek();
        let start = self.at;
        let number = self.number()?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        if number == "-0" || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            self.at = start;
            return self.error("an integer");
        }
        Ok(number)
    }

    fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
            if self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.error("no leading zero");
            }
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            self.error("a digit")
        } else {
            Ok(())
        }
    }

    /// Reads over one well-formed value of any type.
    pub(crate) fn skip(&mut self) -> Result<()> {
        // One bit for each open bracket, the innermost lowest: set for an object.
        let mut objects = 0_u64;
        let mut depth = 0;
        let mut first = true;
        loop {
            // Here a value begins, or (after an opening bracket) may begin.
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return self.error("at most 64 levels of nesting");
                    }
                    self.at += 1;
                    depth += 1;
                    objects = objects << 1 | u64::from(open == b'{');
                    first = true;
                }
                Some(b'"') => drop(self.string()?),
                Some(b'-' | b'0'..=b'9') => drop(self.number()?),
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                _ => return self.error("a value"),
            }
            // Close what ends here; stop where the next value begins.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = objects & 1 == 1;
                if self.more(if object { b'}' } else { b']' }, &mut first)? {
                    if object {
                        self.key()?;
                    }
                    break;
                }
                depth -= 1;
                objects >>= 1;
                first = false;
            }
        }
    }

    /// Exactly these characters, no white space before them.
    pub(crate) fn literal(&mut self, literal: &'static str) -> Result<()> {
        if !self.rest().starts_with(literal) {
            return self.error("a value");
        }
        self.at += literal.len();
        Ok(())
    }

    /// Makes sure that nothing follows.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.peek().is_some() {
            self.error("nothing after the last bracket")
        } else {
            Ok(())
        }
    }
}

/// Reads `bytes` as UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| ScanError {
        at: error.valid_up_to(),
        expected: "valid UTF-8",
    })
}

/// Keys met so far, for those that have no place of their own.
#[derive(Debug, Default)]
pub(crate) struct KeySet(HashSet<String>);

impl KeySet {
    /// Whether the key is new.
    pub(crate) fn insert(&mut self, key: String) -> bool {
        self.0.insert(key)
    }
}

/// An integer's value; what is beyond 64 bits counts as the nearest.
pub(crate) fn saturating_i64(integer: &str) -> i64 {
    integer.parse().unwrap_or(if integer.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    })
}

/// What an error may quote of the sender's own words.
pub(crate) fn cut(text: &str, characters: usize) -> &str {
    text.char_indices()
        .nth(characters)
        .map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(json: &str) -> std::result::Result<usize, ScanError> {
        let mut scanner = Scanner::new(json);
        scanner.skip()?;
        scanner.end()?;
        Ok(scanner.position())
    }

    #[test]
    fn any_well_formed_value_is_skipped() {
        for json in [
            "0",
            "-0",
            "1.5",
            "1e3",
            "-1.25E-7",
            "true",
            "false",
            "null",
            "[]",
            "{}",
            "[[]]",
            "[{}]",
            "{\"a\":{}}",
            " [ 1 , [ ] , { \"a\" : [ null , true ] , \"b\" : \"\\u0041\\ud83d\\ude00\\/\" } ] \r\n\t",
            "\"\"",
        ] {
            assert!(skip(json).is_ok(), "{json}: {:?}", skip(json));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for json in [
            "",
            " ",
            "01",
            "-",
            "-a",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "tru",
            "nul",
            "True",
            "[",
            "]",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1]",
            "[1}",
            "\"",
            "\"a",
            "\"\u{1}\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"\\ud800\\ud800\"",
            "\"\\ud800\\",
            "\"\\",
            "1 1",
            "[] []",
            "\u{feff}[]",
            "NaN",
            "'a'",
            "/**/1",
            "[1,,2]",
            "\u{a0}1",
        ] {
            assert!(skip(json).is_err(), "{json:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_and_costs_no_stack() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(skip(&nested(64)).is_ok());
        assert_eq!(
            skip(&nested(65)).unwrap_err().expected,
            "at most 64 levels of nesting"
        );
        assert!(skip(&"[".repeat(1_000_000)).is_err());
        assert!(skip(&"{\"a\":[".repeat(40)).is_err());
    }

    #[test]
    fn integers_have_one_spelling() {
        for (json, value) in [
            ("0", 0),
            ("-1", -1),
            (" 65535", 65535),
            ("9223372036854775808", i64::MAX),
        ] {
            assert_eq!(Scanner::new(json).integer().map(saturating_i64), Ok(value));
        }
        for json in [
            "-0", "1.0", "1e3", "1E3", "01", "-01", "+1", "\"1\"", "", "-", "0.0", "1.5e1",
        ] {
            assert!(Scanner::new(json).integer().is_err(), "{json}");
        }
        assert_eq!(saturating_i64(&"9".repeat(60)), i64::MAX);
        assert_eq!(saturating_i64(&format!("-{}", "9".repeat(60))), i64::MIN);
    }

    #[test]
    fn strings_decode_and_have_one_canonical_spelling() {
        let json = "\"a\\u0041\\/\\n\\u000a\\\"\\\\\\u001F\\u007f\\ud83d\\ude00\\u20AC\"";
        let string = Scanner::new(json).string().unwrap();
        assert_eq!(string.decode(), "aA/\n\n\"\\\u{1f}\u{7f}\u{1f600}\u{20ac}");
        let mut canonical = Vec::new();
        string.write_canonical(&mut canonical);
        assert_eq!(
            String::from_utf8(canonical).unwrap(),
            "aA/\\n\\n\\\"\\\\\\u001f\u{7f}\u{1f600}\u{20ac}"
        );
    }

    #[test]
    fn quotations_are_cut_between_characters() {
        assert_eq!(cut("\u{1f600}\u{1f600}\u{1f600}", 2), "\u{1f600}\u{1f600}");
        assert_eq!(cut("ab", 2), "ab");
        assert_eq!(cut("", 2), "");
    }
}
