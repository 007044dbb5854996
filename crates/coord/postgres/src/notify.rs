//! Notifications that callers send: with a payload, for whoever listens by other means (CW-01, CW-04).

use esker_coord_api::{Channel, Name, Payload};
use tokio_postgres::types::Type;

use crate::{Error, channel::mapped, database::Parameter, text::hex};

/// Bytes that Postgres carries.
const LONGEST: usize = 7999;

/// A notification as it is sent: text as it is, other bytes in the hexadecimal form that Postgres has for them.
pub(crate) struct Notification {
    channel: String,
    payload: String,
}

impl Notification {
    pub(crate) const SQL: &'static str = "SELECT pg_notify($1, $2)";

    pub(crate) fn new(schema: &str, channel: &Name, payload: &Payload) -> Result<Self, Error> {
        let bytes = payload.as_bytes();
        let text = str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let limit = if text.is_some() {
            LONGEST
        } else {
            (LONGEST - 2) / 2
        };
        if bytes.len() > limit {
            return Err(Error::PayloadTooLarge { limit });
        }
        let payload = text.map_or_else(|| format!("\\x{}", hex(bytes)), str::to_owned);
        Ok(Self {
            channel: mapped(schema, Channel::notify(channel).as_str()),
            payload,
        })
    }

    pub(crate) fn parameters(&self) -> [Parameter<'_>; 2] {
        [(&self.channel, Type::TEXT), (&self.payload, Type::TEXT)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(payload: Vec<u8>) -> Option<usize> {
        match Notification::new("esker", &Name::new("a").unwrap(), &Payload::from(payload)) {
            Err(Error::PayloadTooLarge { limit }) => Some(limit),
            other => {
                let sent = other.unwrap().payload.len();
                assert!(sent <= LONGEST, "{sent}");
                None
            }
        }
    }

    #[test]
    fn cw_04_what_does_not_fit_as_it_is_sent_is_refused() {
        assert_eq!(limit(vec![b'a'; 7999]), None);
        assert_eq!(limit(vec![b'a'; 8000]), Some(7999));
        // Bytes, not letters, count.
        assert_eq!(limit("é".repeat(4000).into_bytes()), Some(7999));
        assert_eq!(limit(vec![0xff; 3998]), None);
        assert_eq!(limit(vec![0xff; 3999]), Some(3998));
        assert_eq!(limit(vec![0; 3999]), Some(3998));
    }
}
