//! Events to test with: few keys, made once, and short ways to write an event down.

use std::sync::{Arc, LazyLock};

use esker_nostr::{Event, Keys, PublicKey};

/// An author.
pub const ALICE: usize = 0;
/// Another author.
pub const BOB: usize = 1;
/// A third one.
pub const CAROL: usize = 2;

static KEYS: LazyLock<Vec<Keys>> = LazyLock::new(|| (0..64).map(|seed| Keys::from_seed(seed + 1)).collect());

/// The keys of author `n`, of 64.
pub fn keys(author: usize) -> &'static Keys {
    &KEYS[author]
}

/// The public key of an author.
pub fn pubkey(author: usize) -> PublicKey {
    static PUBLIC: LazyLock<Vec<PublicKey>> = LazyLock::new(|| KEYS.iter().map(Keys::public).collect());
    PUBLIC[author]
}

/// An event.
pub fn event<T, S>(author: usize, kind: u16, created_at: i64, tags: &[T], content: &str) -> Arc<Event>
where
    T: AsRef<[S]>,
    S: AsRef<str>,
{
    let tags: Vec<Vec<&str>> = tags
        .iter()
        .map(|tag| tag.as_ref().iter().map(AsRef::as_ref).collect())
        .collect();
    Arc::new(keys(author).sign(kind, created_at, &tags, content))
}

/// A text note without tags.
pub fn note(author: usize, created_at: i64, content: &str) -> Arc<Event> {
    untagged(author, 1, created_at, content)
}

/// An event without tags.
pub fn untagged(author: usize, kind: u16, created_at: i64, content: &str) -> Arc<Event> {
    event::<[&str; 0], &str>(author, kind, created_at, &[], content)
}

/// A text note with tags.
pub fn tagged<const N: usize>(author: usize, created_at: i64, tags: &[[&str; N]]) -> Arc<Event> {
    event(author, 1, created_at, tags, "")
}

/// A text note that expires.
pub fn expiring(author: usize, created_at: i64, expiration: &str) -> Arc<Event> {
    tagged(author, created_at, &[["expiration", expiration]])
}

/// A version at an address.
pub fn version(author: usize, kind: u16, d: &str, created_at: i64, content: &str) -> Arc<Event> {
    event(author, kind, created_at, &[["d", d]], content)
}

/// A deletion request that names these events.
pub fn deletion(author: usize, created_at: i64, targets: &[&Event]) -> Arc<Event> {
    let tags: Vec<[String; 2]> = targets.iter().map(|target| ["e".into(), id(target)]).collect();
    event(author, 5, created_at, &tags, "")
}

/// A deletion request that names these addresses.
pub fn address_deletion(author: usize, created_at: i64, addresses: &[&str]) -> Arc<Event> {
    let tags: Vec<[&str; 2]> = addresses.iter().map(|address| ["a", address]).collect();
    event(author, 5, created_at, &tags, "")
}

/// A request to vanish from these relays.
pub fn vanish(author: usize, created_at: i64, relays: &[&str]) -> Arc<Event> {
    let tags: Vec<[&str; 2]> = relays.iter().map(|relay| ["relay", relay]).collect();
    event(author, 62, created_at, &tags, "")
}

/// A gift wrap for a recipient, signed by a key that is nobody else's.
pub fn wrap(signer: usize, recipient: usize, created_at: i64, content: &str) -> Arc<Event> {
    event(signer, 1059, created_at, &[["p", &key(recipient)]], content)
}

/// Several events at one time, sorted by id: with them ties can be decided on purpose.
pub fn ties(count: usize, make: impl Fn(&str) -> Arc<Event>) -> Vec<Arc<Event>> {
    let mut events: Vec<_> = (0..count).map(|n| make(&n.to_string())).collect();
    events.sort_by_key(|event| esker_nostr::EventFields::id(&**event));
    events
}

/// An event's id as digits.
pub fn id(event: &Event) -> String {
    esker_nostr::EventFields::id(event).to_string()
}

/// An author's key as digits.
pub fn key(author: usize) -> String {
    pubkey(author).to_string()
}
