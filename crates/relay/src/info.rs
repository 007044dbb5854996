//! The information document (NIP-11): what the operator says, and what the running configuration makes true.

use esker_nostr::message::MAX_ID_CHARACTERS;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Limits;

/// The protocol parts that this relay speaks.
pub(crate) const SUPPORTED_NIPS: [u16; 7] = [1, 9, 11, 40, 45, 62, 91];

/// What the operator says about the relay; what is empty is left out of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Info {
    /// Its name, for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// URL of a square picture.
    pub icon: String,
    /// URL of a wide picture.
    pub banner: String,
    /// The operator's public key, hex.
    pub pubkey: String,
    /// How to reach the operator: a URL (`mailto:`, `https:`).
    pub contact: String,
    /// URL of the rules for what may be posted.
    pub posting_policy: String,
    /// URL of the terms of service.
    pub terms_of_service: String,
    /// URL of the privacy policy.
    pub privacy_policy: String,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            name: "Esker".into(),
            description: "A Nostr relay.".into(),
            icon: String::new(),
            banner: String::new(),
            pubkey: String::new(),
            contact: String::new(),
            posting_policy: String::new(),
            terms_of_service: String::new(),
            privacy_policy: String::new(),
        }
    }
}

impl Info {
    /// The document, as one line of JSON (RELAY-09).
    pub(crate) fn document(&self, limits: &Limits) -> String {
        let mut document = Map::new();
        for (name, value) in [
            ("name", &self.name),
            ("description", &self.description),
            ("icon", &self.icon),
            ("banner", &self.banner),
            ("pubkey", &self.pubkey),
            ("contact", &self.contact),
            ("posting_policy", &self.posting_policy),
            ("terms_of_service", &self.terms_of_service),
            ("privacy_policy", &self.privacy_policy),
        ] {
            if !value.is_empty() {
                document.insert(name.into(), value.as_str().into());
            }
        }
        document.insert("supported_nips".into(), json!(SUPPORTED_NIPS));
        document.insert("software".into(), "esker".into());
        document.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        document.insert(
            "limitation".into(),
            json!({
                "max_message_length": limits.message_bytes,
                "max_subscriptions": limits.subscriptions,
                "max_filters": limits.filters,
                "max_limit": limits.limit_max,
                "default_limit": limits.limit_default,
                "max_subid_length": MAX_ID_CHARACTERS,
                "max_event_tags": limits.event_tags,
                "created_at_upper_limit": limits.created_at_ahead_secs,
                "min_pow_difficulty": 0,
                "auth_required": false,
                "payment_required": false,
                "restricted_writes": false,
            }),
        );
        Value::Object(document).to_string()
    }
}
