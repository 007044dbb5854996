//! The opening handshake of RFC 6455 and the negotiation of RFC 7692, from request headers alone.

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap, Method, Version,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use sha1::{Digest, Sha1};

/// What every server appends to a client's key (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer to the offer that is taken: no direction keeps its context from one message to the next.
pub(crate) const DEFLATE: HeaderValue =
    HeaderValue::from_static("permessage-deflate; server_no_context_takeover; client_no_context_takeover");

/// A client asks for a WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The value of `Sec-WebSocket-Accept`.
    pub(crate) accept: String,
    /// Whether permessage-deflate was offered in a form that can be taken.
    pub(crate) deflate: bool,
}

/// Why an upgrade is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// It asks for another version: 426, with the one that is spoken here.
    Version,
    /// It is malformed: 400.
    Malformed(&'static str),
}

impl Handshake {
    /// Reads a request; `None` if it asks for no WebSocket. Other upgrades that it offers may be passed over.
    pub(crate) fn read(
        method: &Method,
        version: Version,
        headers: &HeaderMap,
    ) -> Option<Result<Self, HandshakeError>> {
        has_token(headers, UPGRADE, "websocket").then(|| {
            if version != Version::HTTP_11 {
                return Err(HandshakeError::Version);
            }
            if method != Method::GET {
                return Err(HandshakeError::Malformed("a WebSocket begins with GET"));
            }
            if !has_token(headers, CONNECTION, "upgrade") {
                return Err(HandshakeError::Malformed(
                    "the Connection header does not name the upgrade",
                ));
            }
            if headers
                .get(SEC_WEBSOCKET_VERSION)
                .is_none_or(|version| version != "13")
            {
                return Err(HandshakeError::Version);
            }
            let key = headers
                .get(SEC_WEBSOCKET_KEY)
                .filter(|key| STANDARD.decode(key.as_bytes()).is_ok_and(|key| key.len() == 16))
                .ok_or(HandshakeError::Malformed(
                    "Sec-WebSocket-Key is not 16 bytes in base64",
                ))?;
            let accept = Sha1::new()
                .chain_update(key.as_bytes())
                .chain_update(GUID)
                .finalize();
            Ok(Self {
                accept: STANDARD.encode(accept),
                deflate: offers_deflate(headers),
            })
        })
    }
}

/// Whether a comma-separated header has this token, in any case.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    items(headers, name).any(|item| item.eq_ignore_ascii_case(token))
}

fn items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Whether one of the offers is permessage-deflate with parameters that can be met. A smaller window on our side
/// cannot, and what is not known must not be accepted; a smaller window on the client's side is its own choice. An
/// offer with a parameter that stands twice or has no valid value is declined (RFC 7692, 7.1).
fn offers_deflate(headers: &HeaderMap) -> bool {
    items(headers, SEC_WEBSOCKET_EXTENSIONS).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        let mut seen = Vec::new();
        parts.next() == Some("permessage-deflate")
            && parts.all(|parameter| {
                let (name, value) = match parameter.split_once('=') {
                    Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                    None => (parameter, None),
                };
                let new = !seen.contains(&name);
                seen.push(name);
                new && match name {
                    "client_max_window_bits" => value.is_none_or(is_window),
                    "server_max_window_bits" => value == Some("15"),
                    "server_no_context_takeover" | "client_no_context_takeover" => value.is_none(),
                    _ => false,
                }
            })
    })
}

/// Whether this is a window's size as RFC 7692, 7.1.2 has it: 8 to 15 without leading zeros.
fn is_window(bits: &str) -> bool {
    matches!(bits, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, Method, Version, header::HeaderName};

    use super::{Handshake, HandshakeError};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    const GOOD: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn read(lines: &[(&str, &str)]) -> Option<Result<Handshake, HandshakeError>> {
        Handshake::read(&Method::GET, Version::HTTP_11, &headers(lines))
    }

    #[test]
    fn relay_12_the_example_of_the_rfc_is_accepted() {
        let handshake = read(&GOOD).unwrap().unwrap();
        assert_eq!(handshake.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!handshake.deflate);
    }

    #[test]
    fn relay_12_what_is_no_proper_handshake_is_refused() {
        assert_eq!(read(&GOOD[1..]), None);
        assert_eq!(read(&[("upgrade", "h2c"), ("connection", "upgrade")]), None);
        for (line, error) in [
            (("sec-websocket-version", "8"), HandshakeError::Version),
            (
                ("connection", "close"),
                HandshakeError::Malformed("the Connection header does not name the upgrade"),
            ),
            (
                ("sec-websocket-key", "c2hvcnQ="),
                HandshakeError::Malformed("Sec-WebSocket-Key is not 16 bytes in base64"),
            ),
        ] {
            let lines: Vec<_> = GOOD
                .into_iter()
                .map(|good| if good.0 == line.0 { line } else { good })
                .collect();
            assert_eq!(read(&lines), Some(Err(error)), "{line:?}");
        }
        let post = Handshake::read(&Method::POST, Version::HTTP_11, &headers(&GOOD));
        assert!(matches!(post, Some(Err(HandshakeError::Malformed(_)))));
        let old = Handshake::read(&Method::GET, Version::HTTP_10, &headers(&GOOD));
        assert_eq!(old, Some(Err(HandshakeError::Version)));
    }

    #[test]
    fn relay_12_deflate_is_taken_in_the_forms_that_can_be_met() {
        for (offer, taken) in [
            ("permessage-deflate", true),
            ("permessage-deflate; client_max_window_bits", true),
            (
                "permessage-deflate; client_max_window_bits=10; server_no_context_takeover",
                true,
            ),
            ("permessage-deflate; server_max_window_bits=10", false),
            (
                "permessage-deflate; server_max_window_bits=10, permessage-deflate",
                true,
            ),
            ("permessage-deflate; server_max_window_bits=15", true),
            ("permessage-deflate; unheard_of", false),
            ("permessage-deflate; client_max_window_bits=8", true),
            ("permessage-deflate; client_max_window_bits=\"15\"", true),
            ("permessage-deflate; client_max_window_bits=7", false),
            ("permessage-deflate; client_max_window_bits=16", false),
            ("permessage-deflate; client_max_window_bits=08", false),
            ("permessage-deflate; client_max_window_bits=", false),
            (
                "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
                false,
            ),
            (
                "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
                false,
            ),
            (
                "permessage-deflate; client_max_window_bits=7, permessage-deflate",
                true,
            ),
            ("x-webkit-deflate-frame", false),
            ("x, permessage-deflate", true),
        ] {
            let lines = [&GOOD[..], &[("sec-websocket-extensions", offer)]].concat();
            assert_eq!(read(&lines).unwrap().unwrap().deflate, taken, "{offer}");
        }
    }
}
