//! The transport: fragments, pings, deflate both ways, sizes, close codes, with raw frames and other people's clients.

use esker_relay::Limits;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use yawc::{Frame, Options, WebSocket};

use crate::support::{Raw, TestRelay, id, note, patiently, text, until, value};

const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const PONG: u8 = 0x8A;
const CLOSE: u8 = 0x88;

#[tokio::test]
async fn relay_12_a_ping_inside_a_fragmented_message_is_answered_in_between() {
    let relay = TestRelay::start();
    let mut raw = Raw::upgrade(&relay).await;
    raw.frame(0x01, b"[\"REQ\",").await;
    raw.frame(PING, b"are you there?").await;
    assert_eq!(raw.next().await.unwrap(), (PONG, b"are you there?".to_vec()));
    raw.frame(0x00, b"\"s\"").await;
    raw.frame(PONG, b"unasked").await;
    raw.frame(0x80, b",{}]").await;
    assert_eq!(raw.hear().await, json!(["EOSE", "s"]));
    raw.frame(PING, b"").await;
    assert_eq!(raw.next().await.unwrap(), (PONG, vec![]));
}

#[tokio::test]
async fn relay_12_broken_rules_are_told_with_their_close_code() {
    let relay = TestRelay::start();
    let violations: [(&[u8], u16); 9] = [
        (b"\x83\x80\0\0\0\0", 1002),                 // reserved opcode
        (b"\xC1\x80\0\0\0\0", 1002),                 // RSV1 without deflate
        (b"\x81\x01a", 1002),                        // not masked
        (b"\x80\x80\0\0\0\0", 1002),                 // nothing to continue
        (b"\x09\x80\0\0\0\0", 1002),                 // fragmented ping
        (b"\x89\xFE", 1002),                         // long ping
        (b"\x88\x81\0\0\0\0\x03", 1002),             // half a close code
        (b"\x81\x81\0\0\0\0\xFF", 1007),             // not UTF-8
        (b"\x81\xFF\0\0\0\0\xFF\xFF\xFF\xFF", 1009), // four gigabytes
    ];
    for (count, (bytes, code)) in (1..).zip(violations) {
        let mut raw = Raw::upgrade(&relay).await;
        raw.send(bytes).await;
        if code == 1009 {
            raw.send(&[0; 4]).await;
            let notice = raw.hear().await;
            assert_eq!(notice[0], "NOTICE");
        }
        let (told, reason) = raw.closed().await;
        assert_eq!(told, code, "{bytes:x?}");
        assert!(!reason.is_empty());
        assert_eq!(relay.counters.violations.get(), count);
    }
    until(|| relay.counters.connections_open.get() == 0).await;
}

#[tokio::test]
async fn relay_12_an_oversize_message_is_refused_before_it_is_sent() {
    let relay = TestRelay::with_limits(Limits {
        message_bytes: 1000,
        ..Limits::default()
    });
    let mut raw = Raw::upgrade(&relay).await;
    // The header alone: 1001 bytes are to follow.
    raw.send(b"\x81\xFE\x03\xE9\0\0\0\0").await;
    let notice = raw.hear().await;
    assert_eq!(
        notice,
        json!(["NOTICE", "invalid: a message may have at most 1000 bytes"])
    );
    assert_eq!(raw.closed().await.0, 1009);
    // Just as long as allowed.
    let mut raw = Raw::upgrade(&relay).await;
    let message = format!("[\"REQ\",\"s\",{{}}{}]", " ".repeat(1000 - 14));
    assert_eq!(message.len(), 1000);
    raw.frame(TEXT, message.as_bytes()).await;
    assert_eq!(raw.hear().await, json!(["EOSE", "s"]));
}

#[tokio::test]
async fn relay_12_a_close_is_answered_with_its_code() {
    let relay = TestRelay::start();
    for (payload, code) in [(&b"\x03\xE8bye"[..], 1000), (b"\x0F\xA0", 4000), (b"", 1000)] {
        let mut raw = Raw::upgrade(&relay).await;
        raw.frame(CLOSE, payload).await;
        assert_eq!(raw.closed().await.0, code);
    }
    assert_eq!(relay.counters.violations.get(), 0);
}

#[tokio::test]
async fn relay_12_a_client_that_vanishes_is_forgotten() {
    let relay = TestRelay::start();
    let mut raw = Raw::upgrade(&relay).await;
    raw.frame(TEXT, b"[\"REQ\",\"s\",{}]").await;
    raw.hear().await;
    assert_eq!(
        (
            relay.counters.sessions_open.get(),
            relay.counters.subscriptions_open.get()
        ),
        (1, 1)
    );
    drop(raw);
    until(|| relay.counters.connections_open.get() == 0).await;
    assert_eq!(
        (
            relay.counters.sessions_open.get(),
            relay.counters.subscriptions_open.get()
        ),
        (0, 0)
    );
}

#[tokio::test]
async fn relay_12_who_answers_pings_stays() {
    let limits = Limits {
        ping_interval_ms: 50,
        idle_timeout_ms: 1000,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut answering = Raw::upgrade(&relay).await;
    // For longer than the idle timeout.
    for _ in 0..25 {
        assert_eq!(answering.next().await.unwrap(), (PING, vec![]));
        answering.frame(PONG, b"").await;
    }
    assert_eq!(relay.counters.idle.get(), 0);
}

#[tokio::test]
async fn relay_12_a_silent_client_is_pinged_and_then_disconnected() {
    let limits = Limits {
        ping_interval_ms: 20,
        idle_timeout_ms: 60,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut silent = Raw::upgrade(&relay).await;
    let mut pings = 0;
    loop {
        match silent.next().await.expect("a close frame") {
            (PING, _) => pings += 1,
            (CLOSE, payload) => {
                assert_eq!(payload[..2], 1008_u16.to_be_bytes());
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pings, 2);
}

/// Deflates a message as a client does: flushed, without the last four bytes.
fn deflated(message: &[u8]) -> Vec<u8> {
    let mut wire = Vec::with_capacity(message.len() + 100);
    Compress::new(Compression::default(), false)
        .compress_vec(message, &mut wire, FlushCompress::Sync)
        .unwrap();
    assert!(wire.ends_with(&[0, 0, 0xFF, 0xFF]));
    wire.truncate(wire.len() - 4);
    wire
}

async fn deflating(relay: &TestRelay) -> Raw {
    let mut raw = Raw::open(relay).await;
    let response = raw
        .request(
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n",
        )
        .await
        .to_lowercase();
    assert!(
        response.contains("permessage-deflate; server_no_context_takeover; client_no_context_takeover"),
        "{response}"
    );
    raw
}

#[tokio::test]
async fn relay_12_deflate_works_in_both_directions() {
    let relay = TestRelay::start();
    let mut raw = deflating(&relay).await;
    let event = note(1, 0, &"all work and no play ".repeat(100));
    raw.frame(
        0xC1,
        &deflated(format!("[\"EVENT\",{}]", text(&event)).as_bytes()),
    )
    .await;
    // Short messages are not deflated.
    assert_eq!(raw.hear().await, json!(["OK", id(&event), true, ""]));
    for round in 0..2 {
        raw.frame(0xC1, &deflated(format!("[\"REQ\",\"s{round}\",{{}}]").as_bytes()))
            .await;
        let (first, mut payload) = raw.next().await.unwrap();
        assert_eq!(first, 0xC1);
        assert!(payload.len() < 800, "{}", payload.len());
        payload.extend_from_slice(&[0, 0, 0xFF, 0xFF]);
        let mut message = Vec::with_capacity(10_000);
        // A fresh state each time: no context is taken over.
        Decompress::new(false)
            .decompress_vec(&payload, &mut message, FlushDecompress::Sync)
            .unwrap();
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message, json!(["EVENT", format!("s{round}"), value(&event)]));
        assert_eq!(raw.hear().await[0], "EOSE");
    }
}

#[tokio::test]
async fn relay_12_a_deflate_bomb_is_refused_at_the_limit() {
    let relay = TestRelay::with_limits(Limits {
        message_bytes: 100_000,
        ..Limits::default()
    });
    let mut raw = deflating(&relay).await;
    let bomb = deflated(&vec![b' '; 50_000_000]);
    assert!(bomb.len() < 100_000);
    raw.frame(0xC1, &bomb).await;
    assert_eq!(raw.hear().await[0], "NOTICE");
    assert_eq!(raw.closed().await.0, 1009);
    // And what is no deflate stream is told so.
    let mut raw = deflating(&relay).await;
    raw.frame(0xC1, b"\xFF\xFF\xFF").await;
    assert_eq!(raw.closed().await.0, 1007);
}

#[tokio::test]
async fn relay_12_another_library_s_deflating_client_works() {
    let relay = TestRelay::start();
    let url = format!("ws://{}/", relay.address).parse().unwrap();
    let stream = TcpStream::connect(relay.address).await.unwrap();
    let options = Options::default().with_balanced_compression();
    let mut client = patiently(WebSocket::handshake(url, stream, options))
        .await
        .unwrap();
    let events: Vec<_> = (0..20)
        .map(|n| note(n, 0, &"the same words again and again ".repeat(200)))
        .collect();
    for event in &events {
        patiently(client.send(Frame::text(format!("[\"EVENT\",{}]", text(event)))))
            .await
            .unwrap();
    }
    let mut hear = async || {
        let frame: Frame = patiently(client.next()).await.unwrap();
        serde_json::from_slice::<Value>(frame.payload()).unwrap()
    };
    for _ in &events {
        assert_eq!(hear().await[2], true);
    }
    let mut client = client;
    patiently(client.send(Frame::text("[\"REQ\",\"s\",{}]")))
        .await
        .unwrap();
    for _ in &events {
        let frame: Frame = patiently(client.next()).await.unwrap();
        let message: Value = serde_json::from_slice(frame.payload()).unwrap();
        assert!(events.iter().any(|event| value(event) == message[2]), "{message}");
    }
}
