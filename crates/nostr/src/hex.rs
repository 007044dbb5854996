//! Lowercase hexadecimal at the edges, strict: no upper case, no odd length, no prefix.

/// Exactly `N` bytes from exactly `2 * N` lowercase digits; `None` for anything else.
pub fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N || !is_lowercase(text) {
        return None;
    }
    const_hex::decode_to_array(text).ok()
}

/// Bytes from an even number of lowercase digits; `None` for anything else.
pub fn decode_to_vec(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !is_lowercase(text) {
        return None;
    }
    const_hex::decode(text).ok()
}

/// Two lowercase digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

/// Whether all bytes are digits of lowercase hexadecimal.
pub fn is_lowercase(text: &[u8]) -> bool {
    // No early exit: the loop becomes vector instructions.
    text.iter().fold(true, |all, byte| {
        all & (byte.is_ascii_digit() | matches!(byte, b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lowercase_digits_of_the_exact_length_are_hex() {
        assert_eq!(decode::<2>(b"00ff"), Some([0, 255]));
        for bad in ["", "00f", "00fff", "00FF", "0x00", "00fg", "00f ", "00\u{e9}"] {
            assert_eq!(decode::<2>(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(decode::<1>(b"0x"), None);
    }

    #[test]
    fn hex_of_any_length_has_an_even_number_of_digits() {
        assert_eq!(decode_to_vec(b""), Some(vec![]));
        assert_eq!(decode_to_vec(b"61ff"), Some(vec![0x61, 0xff]));
        for bad in ["6", "0x61", "6A", "zz"] {
            assert_eq!(decode_to_vec(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(encode(&[0x61, 0xff]), "61ff");
    }
}
