//! Readers that do not read: paced, then disconnected, and nobody else notices.

use esker_nostr::Event;
use esker_relay::Limits;
use tokio::io::AsyncReadExt;

use crate::support::{Raw, TestRelay, note, patiently, text, until};

/// Together far more than sockets on both sides hold.
fn large() -> Vec<Event> {
    (0..300).map(|n| note(1, n, &"x".repeat(100_000))).collect()
}

/// Pages of five of them.
fn limits() -> Limits {
    Limits {
        outbound_bytes: 1 << 20,
        ..Limits::default()
    }
}

#[tokio::test]
async fn relay_04_a_slow_reader_is_paced_and_gets_everything_when_it_resumes() {
    let relay = TestRelay::with_limits(limits());
    relay.store(&large()).await;
    let mut slow = Raw::upgrade(&relay).await;
    slow.frame(0x81, b"[\"REQ\",\"s\",{}]").await;
    until(|| relay.counters.pages.get() >= 2).await;
    // Others go on meanwhile, for as long as they like.
    let (mut writer, mut reader) = (relay.connect().await, relay.connect().await);
    reader.req("live", "{\"limit\":0}").await;
    for n in 0..100 {
        assert!(writer.publish(&note(2, 0, &format!("{n}"))).await.0);
        assert_eq!(reader.hear().await[0], "EVENT");
    }
    // The query waits for the socket: the store was not asked for what cannot be sent.
    assert!(relay.counters.pages.get() < 50, "{}", relay.counters.pages.get());
    let (mut stored, mut live) = (0, 0);
    loop {
        let message = slow.hear().await;
        match message[0].as_str().unwrap() {
            "EVENT" if message[2]["content"].as_str().unwrap().len() == 100_000 => stored += 1,
            "EVENT" => live += 1,
            "EOSE" => break,
            _ => panic!("{message}"),
        }
    }
    assert_eq!((stored, live), (300, 0));
    // What was held follows the EOSE.
    for _ in 0..100 {
        assert_eq!(slow.hear().await[0], "EVENT");
    }
    assert_eq!(relay.counters.stalled.get(), 0);
}

#[tokio::test]
async fn relay_04_a_reader_that_takes_nothing_is_disconnected() {
    let relay = TestRelay::with_limits(Limits {
        stall_timeout_ms: 100,
        ..limits()
    });
    relay.store(&large()).await;
    let mut stuck = Raw::upgrade(&relay).await;
    stuck.frame(0x81, b"[\"REQ\",\"s\",{}]").await;
    until(|| relay.counters.stalled.get() == 1).await;
    until(|| relay.counters.connections_open.get() == 0).await;
    assert_eq!(relay.counters.subscriptions_open.get(), 0);
    let mut rest = Vec::new();
    // A reset, or the end, but never everything.
    let _ = patiently(stuck.0.read_to_end(&mut rest)).await;
    assert!(rest.len() < 30_000_000);
    relay.connect().await.lives().await;
}

#[tokio::test]
async fn live_12_a_reader_that_live_events_overflow_is_disconnected_and_others_are_not() {
    let relay = TestRelay::with_limits(Limits {
        outbound_bytes: 300_000,
        close_timeout_ms: 100,
        ..Limits::default()
    });
    let mut stuck = Raw::upgrade(&relay).await;
    stuck.frame(0x81, b"[\"REQ\",\"s\",{\"limit\":0}]").await;
    stuck.hear().await;
    let (mut writer, mut reader) = (relay.connect().await, relay.connect().await);
    reader.req("s", "{\"limit\":0}").await;
    let mut published = 0;
    while relay.counters.sessions_open.get() == 3 {
        assert!(writer.publish(&note(1, published, &"x".repeat(100_000))).await.0);
        assert_eq!(reader.hear().await[0], "EVENT");
        published += 1;
        assert!(published < 1000, "the buffer is bounded");
    }
    reader.lives().await;
    writer.lives().await;
}

#[tokio::test]
async fn relay_04_who_publishes_without_reading_is_slowed_not_disconnected() {
    let limits = Limits {
        outbound_frames: 16,
        pending_events: 4,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut client = Raw::upgrade(&relay).await;
    let event = text(&note(1, 0, "again and again"));
    let message = format!("[\"EVENT\",{event}]");
    let (mut reading, mut writing) = client.0.split();
    let count = 2000;
    let sending = async {
        for _ in 0..count {
            let frame = crate::support::masked(0x81, message.as_bytes());
            patiently(tokio::io::AsyncWriteExt::write_all(&mut writing, &frame))
                .await
                .unwrap();
        }
    };
    let receiving = async {
        for _ in 0..count {
            assert_eq!(patiently(reading.read_u8()).await.unwrap(), 0x81);
            let len = patiently(reading.read_u8()).await.unwrap();
            let mut payload = vec![0; usize::from(len)];
            patiently(reading.read_exact(&mut payload)).await.unwrap();
            assert!(payload.starts_with(b"[\"OK\""));
        }
    };
    tokio::join!(sending, receiving);
}
