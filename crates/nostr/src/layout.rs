//! Canonical event JSON: how it is written, where its fields stand, and the hash over it.
//!
//! `{"id":"…","pubkey":"…","created_at":N,"kind":N,"tags":[…],"content":"…","sig":"…"}` with no white space, so
//! that the fields of fixed length stand at fixed offsets from one end or the other.

use std::ops::Range;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{escape, event::EventId, hex};

/// The id's digits.
pub(crate) const ID: Range<usize> = 7..71;
/// The pubkey's digits.
pub(crate) const PUBKEY: Range<usize> = 83..147;
/// Where `created_at` begins.
pub(crate) const CREATED_AT: usize = 162;
/// What stands between `created_at` and `kind`, and between `kind` and `tags`.
pub(crate) const BEFORE_KIND: &str = ",\"kind\":";
pub(crate) const BEFORE_TAGS: &str = ",\"tags\":";
pub(crate) const BEFORE_CONTENT: &str = ",\"content\":";
/// How far from the end the signature's digits begin.
pub(crate) const SIG_FROM_END: usize = 130;
/// How far from the end the content's closing quote ends.
pub(crate) const CONTENT_FROM_END: usize = 138;

/// Canonical JSON in the making: the fields in order, `tags` and `content` by whatever writes them.
pub(crate) struct Draft {
    pub(crate) json: Vec<u8>,
    created_at_end: usize,
    kind_end: usize,
    tags_end: usize,
}

impl Draft {
    /// Everything before the tags. `created_at` and `kind` are integers in their one spelling.
    pub(crate) fn new(
        capacity: usize,
        id: &[u8; 32],
        pubkey: &[u8; 32],
        created_at: &str,
        kind: &str,
    ) -> Self {
        let mut json = Vec::with_capacity(capacity);
        json.extend_from_slice(b"{\"id\":\"");
        push_hex(id, &mut json);
        json.extend_from_slice(b"\",\"pubkey\":\"");
        push_hex(pubkey, &mut json);
        json.extend_from_slice(b"\",\"created_at\":");
        json.extend_from_slice(created_at.as_bytes());
        let created_at_end = json.len();
        json.extend_from_slice(BEFORE_KIND.as_bytes());
        json.extend_from_slice(kind.as_bytes());
        let kind_end = json.len();
        json.extend_from_slice(BEFORE_TAGS.as_bytes());
        Self {
            json,
            created_at_end,
            kind_end,
            tags_end: 0,
        }
    }

    /// A whole draft, without id and signature yet.
    pub(crate) fn unsealed<S: AsRef<str>>(
        pubkey: &[u8; 32],
        kind: u16,
        created_at: i64,
        tags: &[Vec<S>],
        content: &str,
    ) -> Self {
        let mut draft = Self::new(
            512 + content.len(),
            &[0; 32],
            pubkey,
            &created_at.to_string(),
            &kind.to_string(),
        );
        write_tags(
            tags.iter().map(|tag| tag.iter().map(AsRef::as_ref)),
            &mut draft.json,
        );
        draft.end_tags();
        escape::write_string(content, &mut draft.json);
        draft.end_content(&[0; 64]);
        draft
    }

    /// To be called when the tags are written: the content's key.
    pub(crate) fn end_tags(&mut self) {
        self.tags_end = self.json.len();
        self.json.extend_from_slice(BEFORE_CONTENT.as_bytes());
    }

    /// To be called when the content is written: everything after it.
    pub(crate) fn end_content(&mut self, sig: &[u8; 64]) {
        self.json.extend_from_slice(b",\"sig\":\"");
        push_hex(sig, &mut self.json);
        self.json.extend_from_slice(b"\"}");
    }

    /// The id that the finished event must have: the hash of `[0,pubkey,created_at,kind,tags,content]`, taken
    /// from slices of the JSON.
    pub(crate) fn id(&self) -> EventId {
        let json = &self.json;
        let mut hash = Sha256::new();
        hash.update(b"[0,");
        hash.update(&json[PUBKEY.start - 1..=PUBKEY.end]);
        hash.update(b",");
        hash.update(&json[CREATED_AT..self.created_at_end]);
        hash.update(b",");
        hash.update(&json[self.created_at_end + BEFORE_KIND.len()..self.kind_end]);
        hash.update(b",");
        hash.update(&json[self.kind_end + BEFORE_TAGS.len()..self.tags_end]);
        hash.update(b",");
        hash.update(&json[self.content_start()..json.len() - CONTENT_FROM_END]);
        hash.update(b"]");
        EventId(hash.finalize().into())
    }

    /// Where the content begins, its opening quote included.
    pub(crate) fn content_start(&self) -> usize {
        self.tags_end + BEFORE_CONTENT.len()
    }

    /// The canonical JSON of an unsealed draft, with its id and signature.
    pub(crate) fn seal(mut self, id: EventId, sig: &[u8; 64]) -> Bytes {
        self.json[ID].copy_from_slice(hex::encode(&id.0).as_bytes());
        let sig_start = self.json.len() - SIG_FROM_END;
        self.json[sig_start..sig_start + 128].copy_from_slice(hex::encode(sig).as_bytes());
        self.json.into()
    }
}

fn push_hex<const N: usize>(bytes: &[u8; N], out: &mut Vec<u8>) {
    out.extend_from_slice(const_hex::Buffer::<N>::new().format(bytes).as_bytes());
}

/// Appends a list of strings for each tag.
pub(crate) fn write_tags<'s>(
    tags: impl IntoIterator<Item = impl IntoIterator<Item = &'s str>>,
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    for (index, tag) in tags.into_iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[" } else { b",[" });
        for (index, element) in tag.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            escape::write_string(element, out);
        }
        out.push(b']');
    }
    out.push(b']');
}
