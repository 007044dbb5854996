//! The address that versions of a replaceable or addressable event share.

use std::fmt;

use esker_nostr::{Event, EventFields, PublicKey, kind};

/// `kind:pubkey:d`; `d` is empty for replaceable kinds (STORE-W01, W02, D02).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// A replaceable or addressable kind.
    pub kind: u16,
    /// The author.
    pub pubkey: PublicKey,
    /// The identifier.
    pub identifier: String,
}

impl Address {
    /// An event's address, if its kind has one.
    pub fn of(event: &Event) -> Option<Self> {
        let identifier = match event.kind() {
            replaceable if kind::is_replaceable(replaceable) => "",
            addressable if kind::is_addressable(addressable) => event.identifier(),
            _ => return None,
        };
        Some(Self {
            kind: event.kind(),
            pubkey: event.pubkey(),
            identifier: identifier.into(),
        })
    }

    /// Reads an `a` tag's value: three parts at most, the last of which may hold colons; a replaceable kind has
    /// an empty last part, or none (STORE-D02). `None` for anything else.
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.splitn(3, ':');
        let kind = decimal(parts.next()?)?;
        let pubkey = PublicKey::from_hex(parts.next()?)?;
        let identifier = match parts.next() {
            None | Some("") if kind::is_replaceable(kind) => "",
            Some(identifier) if kind::is_addressable(kind) => identifier,
            _ => return None,
        };
        Some(Self {
            kind,
            pubkey,
            identifier: identifier.into(),
        })
    }
}

/// A kind in its one spelling: an index finds an address by its text, so `030023` must not be one.
fn decimal(digits: &str) -> Option<u16> {
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| plain)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.kind, self.pubkey, self.identifier)
    }
}

#[cfg(test)]
mod tests {
    use esker_nostr::{Keys, PublicKey};

    use super::Address;

    const KEY: &str = "00000000000000000000000000000000000000000000000000000000000000ab";

    fn address(kind: u16, identifier: &str) -> Address {
        let mut key = [0; 32];
        key[31] = 0xab;
        Address {
            kind,
            pubkey: PublicKey(key),
            identifier: identifier.into(),
        }
    }

    #[test]
    fn store_d02_an_identifier_may_hold_colons() {
        for identifier in ["", "a", "a-b", ":", "a:b:c", "wss://host:7777", "30023:x:y"] {
            let text = format!("30023:{KEY}:{identifier}");
            assert_eq!(Address::parse(&text), Some(address(30023, identifier)));
            assert_eq!(address(30023, identifier).to_string(), text);
        }
    }

    #[test]
    fn store_d02_a_replaceable_address_goes_with_or_without_the_last_colon() {
        for kind in [0, 3, 10_000, 19_999] {
            assert_eq!(Address::parse(&format!("{kind}:{KEY}")), Some(address(kind, "")));
            assert_eq!(Address::parse(&format!("{kind}:{KEY}:")), Some(address(kind, "")));
            assert_eq!(Address::parse(&format!("{kind}:{KEY}:d")), None);
            assert_eq!(address(kind, "").to_string(), format!("{kind}:{KEY}:"));
        }
    }

    #[test]
    fn store_d02_what_is_no_address_is_none() {
        let upper = KEY.to_uppercase();
        let odd = &KEY[1..];
        for text in [
            "",
            ":",
            "::",
            "30023",
            "30023:",
            "30023::d",
            &format!("30023:{KEY}"),
            &format!("1:{KEY}:"),
            &format!("5:{KEY}:"),
            &format!("20000:{KEY}:"),
            &format!("29999:{KEY}:d"),
            &format!("40000:{KEY}:d"),
            &format!("65536:{KEY}:d"),
            &format!("030023:{KEY}:d"),
            &format!("+30023:{KEY}:d"),
            &format!("-0:{KEY}:"),
            &format!("00:{KEY}:"),
            &format!(" 30023:{KEY}:d"),
            &format!("30023:{upper}:d"),
            &format!("30023:{odd}:d"),
            &format!("30023:{KEY}0:d"),
        ] {
            assert_eq!(Address::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn store_w02_an_address_is_kind_author_and_first_d() {
        let keys = Keys::from_seed(1);
        let of = |kind, tags: &[Vec<&str>]| Address::of(&keys.sign(kind, 1, tags, ""));
        let expected = |kind, identifier: &str| {
            Some(Address {
                kind,
                pubkey: keys.public(),
                identifier: identifier.into(),
            })
        };
        assert_eq!(
            of(30023, &[vec!["t", "x"], vec!["d", "a"], vec!["d", "b"]]),
            expected(30023, "a")
        );
        assert_eq!(of(30000, &[]), expected(30000, ""));
        assert_eq!(of(39999, &[vec!["d", ""]]), expected(39999, ""));
        assert_eq!(
            of(10002, &[vec!["d", "a"]]),
            expected(10002, ""),
            "a replaceable kind has one version"
        );
        assert_eq!(of(0, &[]), expected(0, ""));
        for kind in [1, 2, 4, 5, 62, 1059, 9999, 20_000, 29_999, 40_000, u16::MAX] {
            assert_eq!(of(kind, &[vec!["d", "a"]]), None, "kind {kind}");
        }
    }
}
