//! EVENT: outcomes, the duplicate check before the signature, policies, and who is told.

use std::sync::{Arc, atomic::Ordering};

use esker_events_api::{Clock, Options};
use esker_events_memory::MemoryStore;
use esker_nostr::Keys;
use esker_relay::{Limits, Refusal};
use serde_json::json;

use crate::{
    gated::Gated,
    support::{NOW, TestRelay, id, note, text, until},
};

#[tokio::test]
async fn relay_02_a_duplicate_is_answered_without_checking_its_signature() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let event = note(1, 0, "once");
    assert_eq!(client.publish(&event).await, (true, String::new()));
    assert_eq!(relay.counters.verifications.get(), 1);
    let (accepted, reason) = client.publish(&event).await;
    assert!(accepted && reason.starts_with("duplicate: "), "{reason}");
    assert_eq!(relay.counters.verifications.get(), 1);
    assert_eq!(
        (
            relay.counters.events_stored.get(),
            relay.counters.events_duplicate.get()
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn relay_02_each_policy_refuses_and_is_counted() {
    let limits = Limits {
        event_bytes: 600,
        event_tags: 3,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut client = relay.connect().await;
    let tag = vec!["t", "x"];
    for (event, refusal) in [
        (note(1, -901, "from tomorrow"), Refusal::Future),
        (note(1, 0, &"x".repeat(600)), Refusal::Size),
        (
            Keys::from_seed(1).sign(1, NOW, &[tag.clone(), tag.clone(), tag.clone(), tag], ""),
            Refusal::Tags,
        ),
        (
            Keys::from_seed(1).sign(22242, NOW, &[] as &[Vec<&str>], ""),
            Refusal::Kind,
        ),
        (
            Keys::from_seed(1).sign(1, NOW, &[vec!["expiration", "1"]], ""),
            Refusal::Expired,
        ),
    ] {
        let (accepted, reason) = client.publish(&event).await;
        assert!(!accepted && reason.starts_with("invalid: "), "{reason}");
        assert_eq!(relay.counters.refused(refusal).get(), 1, "{}", refusal.name());
    }
    assert_eq!(relay.counters.refused_in_all(), 5);
    // No lower bound, and some minutes ahead.
    assert!(client.publish(&note(1, NOW, "from 1970")).await.0);
    assert!(client.publish(&note(1, -900, "in fifteen minutes")).await.0);
}

#[tokio::test]
async fn relay_02_ephemeral_events_reach_subscribers_and_are_not_stored() {
    let relay = TestRelay::start();
    let (mut reader, mut writer) = (relay.connect().await, relay.connect().await);
    reader.req("s", "{\"kinds\":[20001]}").await;
    let event = Keys::from_seed(1).sign(20001, NOW, &[] as &[Vec<&str>], "typing");
    assert_eq!(writer.publish(&event).await, (true, String::new()));
    assert_eq!(reader.hear().await[2]["id"], id(&event));
    assert!(writer.req("s", "{\"kinds\":[20001]}").await.is_empty());
    // Signed like any other.
    let forged = text(&event)
        .replace("\"sig\":\"", "\"sig\":\"00")
        .replace("00\"}", "\"}");
    writer.say(format!("[\"EVENT\",{forged}]")).await;
    assert_eq!(writer.hear().await[2], false);
}

#[tokio::test]
async fn relay_02_replaced_deleted_and_vanished_say_so() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let keys = Keys::from_seed(1);
    let none: &[Vec<&str>] = &[];
    let (old, new) = (
        keys.sign(0, NOW - 10, none, "old"),
        keys.sign(0, NOW - 1, none, "new"),
    );
    assert!(client.publish(&new).await.0);
    let (accepted, reason) = client.publish(&old).await;
    assert!(!accepted && reason.starts_with("replaced: "), "{reason}");

    let event = note(1, 5, "to be deleted");
    assert!(client.publish(&event).await.0);
    assert!(
        client
            .publish(&keys.sign(5, NOW, &[vec!["e".to_owned(), id(&event)]], ""))
            .await
            .0
    );
    assert!(
        client
            .req("s", &format!("{{\"ids\":[\"{}\"]}}", id(&event)))
            .await
            .is_empty()
    );
    let (accepted, reason) = client.publish(&event).await;
    assert!(!accepted && reason.starts_with("blocked: "), "{reason}");

    assert!(
        client
            .publish(&keys.sign(62, NOW, &[vec!["relay", "ALL_RELAYS"]], ""))
            .await
            .0
    );
    let (accepted, reason) = client.publish(&note(1, 7, "from before")).await;
    assert!(!accepted && reason.starts_with("blocked: "), "{reason}");
    assert_eq!(client.req("s", "{\"kinds\":[0,1]}").await, [""; 0]);
}

#[tokio::test]
async fn relay_01_a_store_that_fails_is_an_error_and_the_relay_goes_on() {
    let store = Gated::new();
    let relay = TestRelay::with_store(Limits::default(), store.clone());
    let mut client = relay.connect().await;
    let event = note(1, 0, "x");
    store.failing_inserts.store(true, Ordering::SeqCst);
    assert_eq!(
        client.publish(&event).await,
        (false, "error: the disk is full".into())
    );
    assert!(relay.connect().await.req("s", "{}").await.is_empty());
    store.failing_inserts.store(false, Ordering::SeqCst);
    assert_eq!(client.publish(&event).await, (true, String::new()));
    assert_eq!(relay.counters.events_failed.get(), 1);
    // A closed store is no reason to fall silent.
    relay.store.close().await;
    let (accepted, reason) = client.publish(&note(1, 0, "y")).await;
    assert!(!accepted && reason.starts_with("error: "), "{reason}");
    let closed = client.ask("[\"REQ\",\"t\",{}]").await;
    assert_eq!(closed[0], "CLOSED");
    assert!(closed[2].as_str().unwrap().starts_with("error: "), "{closed}");
}

#[tokio::test]
async fn relay_01_a_panic_while_checking_is_an_error_and_the_checking_goes_on() {
    let store = Gated::new();
    let limits = Limits {
        verify_threads: 1,
        ..Limits::default()
    };
    let relay = TestRelay::with_store(limits, store.clone());
    let mut client = relay.connect().await;
    let event = note(1, 0, "x");
    store.panicking.store(true, Ordering::SeqCst);
    let refused = (false, "error: the relay could not take this event".into());
    assert_eq!(client.publish(&event).await, refused);
    assert_eq!(client.publish(&event).await, refused);
    store.panicking.store(false, Ordering::SeqCst);
    assert_eq!(client.publish(&event).await, (true, String::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn relay_02_many_events_at_once_each_get_their_ok() {
    let limits = Limits {
        pending_events: 7,
        intake_bytes: 4096,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut client = relay.connect().await;
    let events: Vec<_> = (0..300).map(|n| note(1, n, &format!("note {n}"))).collect();
    for event in &events {
        client.say(format!("[\"EVENT\",{}]", text(event))).await;
    }
    let mut oks = std::collections::HashSet::new();
    while oks.len() < events.len() {
        let ok = client.hear().await;
        assert_eq!((&ok[0], &ok[2]), (&json!("OK"), &json!(true)), "{ok}");
        assert!(
            oks.insert(ok[1].as_str().unwrap().to_owned()),
            "answered twice: {ok}"
        );
    }
    assert_eq!(relay.counters.events_stored.get(), 300);
}

#[tokio::test]
async fn relay_02_the_reading_waits_while_too_many_events_wait_for_their_ok() {
    let store = Gated::new();
    let limits = Limits {
        pending_events: 3,
        ..Limits::default()
    };
    let relay = TestRelay::with_store(limits, store.clone());
    store.after_insert.close();
    let (mut client, mut other) = (relay.connect().await, relay.connect().await);
    for n in 0..10 {
        client
            .say(format!("[\"EVENT\",{}]", text(&note(1, n, "waits"))))
            .await;
    }
    until(|| relay.counters.events.get() == 4).await;
    // Three are pending, the fourth is in hand; meanwhile others are served.
    other.lives().await;
    other.lives().await;
    assert_eq!(relay.counters.events.get(), 4);
    store.after_insert.let_pass(1000);
    for _ in 0..10 {
        assert_eq!(client.hear().await[2], true);
    }
}

#[tokio::test]
async fn relay_02_the_intake_of_all_connections_is_bounded_together() {
    let store = Gated::new();
    let limits = Limits {
        intake_bytes: 2048, // two events
        ..Limits::default()
    };
    let relay = TestRelay::with_store(limits, store.clone());
    store.after_insert.close();
    let (mut first, mut second) = (relay.connect().await, relay.connect().await);
    for (client, taken) in [(&mut first, 3), (&mut second, 4)] {
        for n in 0..5 {
            client
                .say(format!("[\"EVENT\",{}]", text(&note(taken, n, "waits"))))
                .await;
        }
        // Two are in, and each connection has one in hand.
        until(|| relay.counters.events.get() == taken).await;
    }
    relay.connect().await.lives().await;
    assert_eq!(relay.counters.events.get(), 4);
    store.after_insert.open();
    for client in [&mut first, &mut second] {
        for _ in 0..5 {
            assert_eq!(client.hear().await[2], true);
        }
    }
}

#[tokio::test]
async fn relay_02_expired_events_are_swept_on_a_timer() {
    let clock = Clock::manual(NOW);
    let store = Arc::new(MemoryStore::open(Options {
        clock: clock.clone(),
        ..Options::default()
    }));
    let relay = TestRelay::with_store(
        Limits {
            expiry_sweep_secs: 1,
            ..Limits::default()
        },
        store,
    );
    let mut client = relay.connect().await;
    let event = Keys::from_seed(1).sign(1, NOW, &[vec!["expiration", &(NOW + 1).to_string()]], "");
    assert!(client.publish(&event).await.0);
    assert_eq!(client.req("s", "{}").await, [id(&event)]);
    clock.set(NOW + 1);
    until(|| relay.counters.expired.get() == 1).await;
    assert!(client.req("s", "{}").await.is_empty());
}
