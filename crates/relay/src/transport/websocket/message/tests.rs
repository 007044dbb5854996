//! Messages as clients send them, whole, in pieces, deflated and broken.
#![allow(clippy::cast_possible_truncation, clippy::decimal_bitwise_operands)]

use std::sync::Arc;

use bytes::BytesMut;

use super::Decoder;
use crate::transport::{
    Incoming,
    websocket::{Violation, deflate::DeflatePool},
};

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    bytes
}

fn plain(max: usize) -> Decoder {
    Decoder::new(max, None)
}

fn deflating(max: usize) -> Decoder {
    Decoder::new(max, Some(Arc::default()))
}

/// Everything in `bytes`, fed in pieces of `step`.
fn all(mut decoder: Decoder, bytes: &[u8], step: usize) -> Result<Vec<Incoming>, Violation> {
    let mut input = BytesMut::new();
    let mut found = Vec::new();
    for piece in bytes.chunks(step) {
        input.extend_from_slice(piece);
        while let Some(incoming) = decoder.decode(&mut input)? {
            found.push(incoming);
        }
    }
    assert!(decoder.is_idle() && input.is_empty());
    Ok(found)
}

#[test]
fn relay_12_a_ping_inside_a_fragmented_message_comes_first() {
    let bytes = [
        frame(TEXT, "[\"CLÖ".as_bytes()),
        frame(FIN | PING, b"p"),
        frame(CONTINUATION, b""),
        frame(FIN | CONTINUATION, b"SE\"]"),
        frame(FIN | BINARY, b"\xFF"),
        frame(FIN | CLOSE, b"\x03\xE8bye"),
    ]
    .concat();
    for step in [1, 2, 3, 7, 1000] {
        let found = all(plain(100), &bytes, step).unwrap();
        assert!(
            matches!(
                &found[..],
                [Incoming::Ping(ping), Incoming::Text(text), Incoming::Binary, Incoming::Close(Some(1000))]
                    if &ping[..] == b"p" && &text[..] == "[\"CLÖSE\"]".as_bytes()
            ),
            "{found:?}"
        );
    }
}

#[test]
fn relay_12_a_message_over_the_limit_is_refused_at_its_header() {
    // Only the header has come.
    let header = &frame(FIN | TEXT, &[b'a'; 101])[..6];
    let mut input = BytesMut::from(header);
    assert!(matches!(plain(100).decode(&mut input), Err(Violation::TooBig)));
    // Fragments count together.
    let mut bytes = frame(TEXT, &[b'a'; 60]);
    bytes.extend_from_slice(&frame(FIN | CONTINUATION, &[b'a'; 41])[..6]);
    assert!(matches!(all(plain(100), &bytes, 1000), Err(Violation::TooBig)));
    // The limit itself is fine.
    assert_eq!(
        all(plain(100), &frame(FIN | TEXT, &[b'a'; 100]), 9)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn relay_12_the_limit_holds_for_the_inflated_message() {
    let pool = DeflatePool::default();
    let bomb = pool.deflate(&[&[b'a'; 5000]], <[u8]>::to_vec);
    assert!(bomb.len() < 100);
    let bytes = frame(FIN | RSV1 | TEXT, &bomb);
    assert!(matches!(
        all(deflating(4999), &bytes, 1000),
        Err(Violation::TooBig)
    ));
    assert_eq!(all(deflating(5000), &bytes, 1000).unwrap().len(), 1);
}

#[test]
fn relay_12_a_fragmented_deflated_message_is_inflated_as_one() {
    let pool = DeflatePool::default();
    let wire = pool.deflate(&[b"[\"REQ\",\"s\",{}]"], <[u8]>::to_vec);
    let (left, right) = wire.split_at(wire.len() / 2);
    let bytes = [frame(RSV1 | TEXT, left), frame(FIN | CONTINUATION, right)].concat();
    let found = all(deflating(100), &bytes, 1).unwrap();
    assert!(matches!(&found[..], [Incoming::Text(text)] if &text[..] == b"[\"REQ\",\"s\",{}]"));
}

#[test]
fn relay_12_frames_out_of_place_are_protocol_violations() {
    for bytes in [
        frame(FIN | CONTINUATION, b"x"),
        [frame(TEXT, b"x"), frame(FIN | TEXT, b"y")].concat(),
        [frame(RSV1 | TEXT, b"x"), frame(FIN | RSV1 | CONTINUATION, b"y")].concat(),
        frame(FIN | CLOSE, b"\x03"),
        frame(FIN | CLOSE, b"\x03\xED"), // 1005 is for use inside only
        frame(FIN | CLOSE, b"\x00\x00"),
    ] {
        assert!(
            matches!(all(deflating(100), &bytes, 1000), Err(Violation::Protocol(_))),
            "{bytes:x?}"
        );
    }
    let unasked = frame(FIN | RSV1 | TEXT, b"x");
    assert!(matches!(
        all(plain(100), &unasked, 1000),
        Err(Violation::Protocol(_))
    ));
}

#[test]
fn relay_12_text_that_is_not_utf_8_is_refused() {
    for payload in [&b"\xFF"[..], b"\xC3", b"\xED\xA0\x80", b"\xF4\x90\x80\x80"] {
        assert!(matches!(
            all(plain(100), &frame(FIN | TEXT, payload), 1000),
            Err(Violation::Payload(_))
        ));
    }
    let close = frame(FIN | CLOSE, b"\x03\xE8\xFF");
    assert!(matches!(
        all(plain(100), &close, 1000),
        Err(Violation::Payload(_))
    ));
    // A character may be cut by a fragment's end.
    let bytes = [frame(TEXT, b"\xC3"), frame(FIN | CONTINUATION, b"\xB6")].concat();
    assert_eq!(all(plain(100), &bytes, 1000).unwrap().len(), 1);
}

/// Whatever comes: no panic, no more memory than the limit allows.
#[test]
fn relay_12_any_bytes_end_in_a_message_or_a_violation() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let pool = Arc::new(DeflatePool::default());
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..random() % 6 {
            let mut payload: Vec<u8> = (0..random() % 200).map(|_| random() as u8).collect();
            let mut first = random() as u8;
            if random() % 4 != 0 {
                // Mostly plausible, so that the deeper states are reached.
                first &= 0xC9;
                for byte in &mut payload {
                    *byte &= 0x7F;
                }
            }
            if random() % 4 == 0 {
                payload = pool.deflate(&[&payload], <[u8]>::to_vec);
            }
            bytes.extend(frame(first, &payload));
        }
        if let Some(at) = (random() as usize).checked_rem(bytes.len())
            && random() % 2 == 0
        {
            bytes[at] ^= 1 << (random() % 8);
        }
        let mut decoder = Decoder::new(300, Some(pool.clone()));
        let mut input = BytesMut::new();
        'stream: for piece in bytes.chunks(1 + random() as usize % 90) {
            input.extend_from_slice(piece);
            loop {
                match decoder.decode(&mut input) {
                    Ok(Some(Incoming::Text(text))) => assert!(text.len() <= 300),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
                if let Some(message) = &decoder.message {
                    assert!(message.payload.len() <= 300);
                }
            }
        }
    }
}
