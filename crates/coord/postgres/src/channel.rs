//! The name under which a channel goes to Postgres (CW-04).

use sha2::{Digest, Sha256};

use crate::text::hex;

/// A channel of the contract, in `schema`, as Postgres knows it: a fixed prefix and a hash, so that a name's length
/// and letters never matter, and stores in two schemas of one database do not wake each other.
pub(crate) fn mapped(schema: &str, channel: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(schema.len().to_le_bytes());
    hash.update(schema);
    hash.update(channel);
    format!("esker_{}", hex(&hash.finalize()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cw_04_a_channel_name_of_any_length_fits_and_stays_its_own() {
        let long = "x".repeat(200);
        let names = [
            mapped("esker", &long),
            mapped("esker", &long[..199]),
            mapped("eskerx", &long[..199]),
            mapped("other", &long),
            mapped("esker", "Zürich \"quoted\""),
        ];
        for (i, name) in names.iter().enumerate() {
            assert_eq!(name.len(), 38, "{name}");
            assert!(names[..i].iter().all(|earlier| earlier != name));
        }
        assert_eq!(mapped("esker", "jobs"), mapped("esker", "jobs"));
    }
}
