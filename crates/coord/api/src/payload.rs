//! Payloads: bytes, kept exactly as given (CX-03).

use std::fmt;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// How deep JSON may be nested so that it can be decoded again.
const DEEPEST: usize = 127;

/// The bytes of a job, an event or a notification, stored exactly as given and returned byte for byte.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Payload(Bytes);

impl Payload {
    /// The value as JSON. [`Error::Codec`] when it cannot be encoded, or is nested deeper than 127 and so could not be
    /// decoded again.
    ///
    /// JSON has no number for an infinity or for what is no number (NaN): such a float is written as `null`, and decodes
    /// again as an `Option` alone. Who has such values encodes them otherwise, and stores the [bytes](Self::new).
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let bytes = serde_json::to_vec(value).map_err(|error| Error::Codec(error.into()))?;
        if depth(&bytes) > DEEPEST {
            return Err(Error::Codec(
                "JSON nested deeper than 127 could not be decoded again".into(),
            ));
        }
        Ok(Self(bytes.into()))
    }

    /// Bytes as they are.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, shared.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Decodes JSON; [`Error::Codec`] when it is not what was expected.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.0).map_err(|error| Error::Codec(error.into()))
    }
}

macro_rules! owned {
    ($($bytes:ty)*) => {$(
        /// Takes the bytes over.
        impl From<$bytes> for Payload {
            fn from(bytes: $bytes) -> Self {
                Self(bytes.into())
            }
        }
    )*};
}

owned!(Bytes Vec<u8> String);

/// Copies the text.
impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// Copies the text.
impl From<&String> for Payload {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

/// Copies the bytes.
impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

/// Copies the bytes.
impl<const N: usize> From<&[u8; N]> for Payload {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

/// As text where it is text.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) => write!(f, "{text:?}"),
            Err(_) => write!(f, "{:?}", self.0),
        }
    }
}

/// How deep well-formed JSON is nested.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn cx_03_what_is_written_can_be_read_again() {
        let value = json!({"text": "a \"[[{ \\ quote", "list": [1, [2]], "none": null});
        let payload = Payload::json(&value).unwrap();
        assert_eq!(payload.decode::<Value>().unwrap(), value);
        let deep = Payload::json(&nested(127)).unwrap();
        assert_eq!(deep.decode::<Value>().unwrap(), nested(127));
    }

    #[test]
    fn cx_03_what_could_not_be_read_again_is_refused_when_written() {
        assert!(matches!(Payload::json(&nested(128)), Err(Error::Codec(_))));
        // The keys of a JSON object are text.
        let map = HashMap::from([(vec![1, 2], 3)]);
        assert!(matches!(Payload::json(&map), Err(Error::Codec(_))));
    }

    #[test]
    fn cx_03_a_float_that_json_cannot_tell_is_null() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let payload = Payload::json(&[float]).unwrap();
            assert_eq!(payload.as_bytes(), b"[null]");
            assert_eq!(payload.decode::<Vec<Option<f64>>>().unwrap(), [None]);
            assert!(matches!(payload.decode::<Vec<f64>>(), Err(Error::Codec(_))));
        }
    }

    #[test]
    fn cx_03_borrowed_and_owned_bytes_are_taken_alike() {
        let text = "order".to_owned();
        let expected = Payload::new(text.clone());
        for payload in [
            Payload::from(text.as_str()),
            Payload::from(&text),
            Payload::from(text.as_bytes()),
            Payload::from(b"order"),
            Payload::from(text.clone().into_bytes()),
            Payload::from(text.clone()),
        ] {
            assert_eq!(payload, expected);
        }
    }

    #[test]
    fn cx_03_bytes_need_not_be_json() {
        let payload = Payload::new(vec![0, 255, 0]);
        assert_eq!(payload.as_bytes(), [0, 255, 0]);
        assert!(matches!(payload.decode::<Value>(), Err(Error::Codec(_))));
    }
}
