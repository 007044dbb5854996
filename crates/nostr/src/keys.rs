//! Secret keys: signing events (BIP-340). For tests, tools and clients.

use std::fmt;

use secp256k1::{Keypair, schnorr};
use sha2::{Digest, Sha256};

use crate::{
    event::{Event, PublicKey},
    layout::Draft,
};

/// A key pair.
#[derive(Clone)]
pub struct Keys {
    pair: Keypair,
    public: PublicKey,
}

impl Keys {
    /// Keys from a secret; `None` for zero or a number beyond the group order.
    pub fn from_secret(secret: [u8; 32]) -> Option<Self> {
        let pair = Keypair::from_secret_bytes(secret).ok()?;
        let public = PublicKey(pair.x_only_public_key().0.to_byte_array());
        Some(Self { pair, public })
    }
    /// Keys from a seed, the same each time: for tests and generated corpora, never for people.
    pub fn from_seed(seed: u64) -> Self {
        let mut secret = Sha256::digest(seed.to_le_bytes());
        loop {
            match Self::from_secret(secret.into()) {
                Some(keys) => return keys,
                None => secret = Sha256::digest(secret),
            }
        }
    }
    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }
    /// Makes and signs an event. Deterministic (BIP-340 without auxiliary randomness).
    ///
    /// # Panics
    ///
    /// When the event's JSON would be larger than 4 GiB.
    pub fn sign<S: AsRef<str>>(&self, kind: u16, created_at: i64, tags: &[Vec<S>], content: &str) -> Event {
        let draft = Draft::unsealed(&self.public.0, kind, created_at, tags, content);
        let id = draft.id();
        let sig = schnorr::sign_no_aux_rand(&id.0, &self.pair);
        let json = draft.seal(id, sig.as_byte_array());
        Event::from_canonical(json).expect("a sealed draft is canonical JSON")
    }
}

/// Shows the public half only.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.public).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventFields, hex};

    #[test]
    fn secrets_out_of_range_are_no_keys() {
        assert!(Keys::from_secret([0; 32]).is_none());
        assert!(Keys::from_secret([0xff; 32]).is_none());
        assert!(Keys::from_secret([1; 32]).is_some());
    }

    #[test]
    fn the_public_half_is_bip_340s() {
        // BIP-340, test vector 0: the secret 3.
        let mut secret = [0; 32];
        secret[31] = 3;
        let public = Keys::from_secret(secret).unwrap().public();
        assert_eq!(
            public.to_string(),
            "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9"
        );
    }

    #[test]
    fn signing_is_deterministic_and_verifies() {
        let keys = Keys::from_seed(7);
        let tags = [vec!["e", "x\n"], vec![], vec!["p"]];
        let event = keys.sign(1, 1_700_000_000, &tags, "hello \"world\"\u{7f}");
        assert_eq!(event.verify(), Ok(()));
        assert_eq!(
            event,
            Keys::from_seed(7).sign(1, 1_700_000_000, &tags, "hello \"world\"\u{7f}")
        );
        assert_ne!(
            event.id(),
            keys.sign(1, 1_700_000_001, &tags, "hello \"world\"\u{7f}").id()
        );
        assert_ne!(keys.public(), Keys::from_seed(8).public());
        assert_eq!(Event::parse(event.json()), Ok(event));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", Keys::from_secret([1; 32]).unwrap());
        assert!(!shown.contains(&hex::encode(&[1; 32])));
    }
}
