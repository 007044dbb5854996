//! REQ, CLOSE and COUNT: limits, replacement, and every timing of stored and live.

use std::time::Duration;

use esker_events_api::Error;
use esker_nostr::Event;
use esker_relay::Limits;
use serde_json::json;

use crate::{
    gated::Gated,
    support::{Client, TestRelay, id, note, until, value},
};

fn notes(count: u64) -> Vec<Event> {
    (0..count)
        .map(|n| note(1, i64::try_from(n).unwrap(), &format!("note {n}")))
        .collect()
}

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(id).collect()
}

#[tokio::test]
async fn relay_03_the_limit_is_clamped_and_defaulted_for_req_alone() {
    let limits = Limits {
        limit_max: 5,
        limit_default: 3,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let events = notes(10);
    relay.store(&events).await;
    let mut client = relay.connect().await;
    assert_eq!(client.req("default", "{}").await, ids(&events[..3]));
    assert_eq!(client.req("some", "{\"limit\":4}").await, ids(&events[..4]));
    assert_eq!(client.req("clamped", "{\"limit\":1000}").await, ids(&events[..5]));
    assert_eq!(
        client.req("huge", "{\"limit\":18446744073709551615}").await,
        ids(&events[..5])
    );
    assert_eq!(
        client.ask("[\"COUNT\",\"c\",{}]").await,
        json!(["COUNT", "c", {"count": 10}])
    );
    assert_eq!(
        client.ask("[\"COUNT\",\"c\",{\"limit\":7}]").await,
        json!(["COUNT", "c", {"count": 7}])
    );
    let both = client
        .ask("[\"COUNT\",\"c\",{\"kinds\":[1]},{\"kinds\":[1,2]}]")
        .await;
    assert_eq!(both, json!(["COUNT", "c", {"count": 10}]));
}

#[tokio::test]
async fn relay_03_limit_zero_gives_eose_then_live_events() {
    let relay = TestRelay::start();
    relay.store(&notes(3)).await;
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    assert!(client.req("s", "{\"limit\":0}").await.is_empty());
    let event = note(2, 0, "live");
    writer.publish(&event).await;
    assert_eq!(client.hear().await, json!(["EVENT", "s", value(&event)]));
}

#[tokio::test]
async fn relay_03_empty_lists_match_nothing_and_other_filters_still_answer() {
    let relay = TestRelay::start();
    let events = notes(2);
    relay.store(&events).await;
    let mut client = relay.connect().await;
    for nothing in [
        "{\"kinds\":[]}",
        "{\"ids\":[]}",
        "{\"authors\":[]}",
        "{\"#e\":[]}",
        "{\"ids\":[\"XYZ\"]}",
        "{\"authors\":[\"ab\"]}",
    ] {
        assert!(client.req("s", nothing).await.is_empty(), "{nothing}");
        assert_eq!(
            client.req("s", &format!("{nothing},{{\"kinds\":[1]}}")).await,
            ids(&events),
            "{nothing}"
        );
    }
    assert_eq!(client.req("s", "{}").await, ids(&events));
    let (since, until) = (crate::support::NOW - 1, crate::support::NOW - 1);
    assert_eq!(
        client
            .req("s", &format!("{{\"since\":{since},\"until\":{until}}}"))
            .await,
        ids(&events[1..])
    );
}

#[tokio::test]
async fn relay_03_too_much_is_refused_with_closed_and_the_rest_goes_on() {
    let limits = Limits {
        subscriptions: 2,
        filters: 2,
        filter_values: 4,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut client = relay.connect().await;
    client.req("a", "{}").await;
    client.req("b", "{}").await;
    let closed = client.ask("[\"REQ\",\"c\",{}]").await;
    assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("c")));
    assert!(
        closed[2].as_str().unwrap().starts_with("rate-limited: "),
        "{closed}"
    );
    // Replacing is no more than there was.
    client.req("b", "{\"kinds\":[1]}").await;
    client.say("[\"CLOSE\",\"a\"]").await;
    client.req("c", "{}").await;
    assert_eq!(relay.counters.subscriptions_open.get(), 2);
    for filters in ["{},{},{}", "{\"kinds\":[1,2,3]},{\"#t\":[\"a\",\"b\"]}"] {
        for kind in ["REQ", "COUNT"] {
            let closed = client.ask(format!("[\"{kind}\",\"b\",{filters}]")).await;
            assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("b")));
            assert!(closed[2].as_str().unwrap().starts_with("invalid: "), "{closed}");
        }
    }
    drop(client);
    until(|| relay.counters.subscriptions_open.get() == 0).await;
}

#[tokio::test]
async fn relay_03_the_filters_of_a_connection_are_bounded_together() {
    let limits = Limits {
        subscription_bytes: 10_000,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    let mut client = relay.connect().await;
    let filter = format!("{{\"#t\":[\"{}\"]}}", "x".repeat(4000));
    client.req("a", &filter).await;
    client.req("b", &filter).await;
    let closed = client.ask(format!("[\"REQ\",\"c\",{filter}]")).await;
    assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("c")));
    assert!(
        closed[2].as_str().unwrap().starts_with("rate-limited: "),
        "{closed}"
    );
    client.req("b", &filter).await;
    client.say("[\"CLOSE\",\"a\"]").await;
    client.req("c", &filter).await;
}

#[tokio::test]
async fn relay_03_count_ids_are_names_of_their_own() {
    let relay = TestRelay::start();
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    client.req("x", "{}").await;
    assert_eq!(
        client.ask("[\"COUNT\",\"x\",{}]").await,
        json!(["COUNT", "x", {"count": 0}])
    );
    writer.publish(&note(1, 0, "still open")).await;
    assert_eq!(client.hear().await[0], "EVENT");
    // Ids are per connection.
    writer.say("[\"CLOSE\",\"x\"]").await;
    writer.publish(&note(1, 0, "not theirs to close")).await;
    assert_eq!(client.hear().await[0], "EVENT");
}

/// Starts a REQ whose first page waits in the store: before its snapshot, or after it.
async fn under_way(client: &mut Client, store: &Gated, before: bool, subscription: &str) {
    let gate = if before {
        &store.before_page
    } else {
        &store.after_page
    };
    gate.close();
    client.say(format!("[\"REQ\",\"{subscription}\",{{}}]")).await;
    gate.arrived().await;
}

#[tokio::test]
async fn live_10_each_event_once_committed_before_or_after_the_snapshot() {
    for before in [true, false] {
        let store = Gated::new();
        let relay = TestRelay::with_store(Limits::default(), store.clone());
        let old = note(1, 10, "old");
        relay.store(std::slice::from_ref(&old)).await;
        let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
        under_way(&mut client, &store, before, "s").await;
        let during = note(1, 5, "during");
        assert!(writer.publish(&during).await.0);
        if before {
            &store.before_page
        } else {
            &store.after_page
        }
        .open();
        let stored = client.stored("s").await;
        if before {
            assert_eq!(stored, [id(&during), id(&old)]);
        } else {
            assert_eq!(stored, [id(&old)]);
            assert_eq!(client.hear().await[2]["id"], id(&during));
        }
        let after = note(1, 0, "after");
        assert!(writer.publish(&after).await.0);
        assert_eq!(client.hear().await[2]["id"], id(&after));
        client.lives().await;
    }
}

#[tokio::test]
async fn relay_04_a_close_in_mid_query_ends_it_at_once() {
    let store = Gated::new();
    let limits = Limits {
        outbound_frames: 8,
        ..Limits::default()
    }; // pages of 4
    let relay = TestRelay::with_store(limits, store.clone());
    relay.store(&notes(100)).await;
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    under_way(&mut client, &store, true, "s").await;
    store.before_page.let_pass(1);
    for _ in 0..4 {
        assert_eq!(client.hear().await[0], "EVENT");
    }
    store.before_page.arrived().await;
    // The second page stands at the gate, and never passes.
    client.say("[\"CLOSE\",\"s\"]").await;
    assert_eq!(
        client.ask("[\"COUNT\",\"c\",{}]").await,
        json!(["COUNT", "c", {"count": 100}])
    );
    assert!(writer.publish(&note(2, 0, "nobody asked")).await.0);
    assert_eq!(
        client.ask("[\"COUNT\",\"c\",{}]").await,
        json!(["COUNT", "c", {"count": 101}])
    );
    assert_eq!(relay.counters.pages.get(), 2);
    assert_eq!(relay.counters.subscriptions_open.get(), 0);
}

#[tokio::test]
async fn relay_04_reading_goes_on_while_a_query_runs() {
    let store = Gated::new();
    let relay = TestRelay::with_store(Limits::default(), store.clone());
    let mut client = relay.connect().await;
    under_way(&mut client, &store, true, "s").await;
    let event = note(1, 0, "meanwhile");
    assert_eq!(client.publish(&event).await, (true, String::new()));
    assert_eq!(client.ask("[\"NONSENSE\"]").await[0], "NOTICE");
    store.before_page.let_pass(1);
    assert_eq!(client.stored("s").await, [id(&event)]);
}

#[tokio::test]
async fn relay_03_the_same_id_in_mid_query_replaces_and_gives_one_eose() {
    let store = Gated::new();
    let relay = TestRelay::with_store(Limits::default(), store.clone());
    let (first, second) = (note(1, 9, "first"), note(2, 8, "second"));
    relay.store(&[first.clone(), second.clone()]).await;
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    under_way(&mut client, &store, true, "s").await;
    let author = value(&second)["pubkey"].as_str().unwrap().to_owned();
    client
        .say(format!("[\"REQ\",\"s\",{{\"authors\":[\"{author}\"]}}]"))
        .await;
    store.before_page.arrived().await;
    store.before_page.open();
    assert_eq!(client.stored("s").await, [id(&second)]);
    assert!(writer.publish(&note(1, 0, "of the first filter")).await.0);
    let live = note(2, 0, "of the second filter");
    assert!(writer.publish(&live).await.0);
    assert_eq!(client.hear().await[2]["id"], id(&live));
    client.lives().await;
    until(|| relay.counters.subscriptions_open.get() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn relay_03_replacing_leaves_no_gap() {
    let relay = TestRelay::start();
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    client.req("s", "{\"limit\":0}").await;
    // Publishing and replacing race; each event must come by one of them.
    let mut seen = std::collections::HashSet::new();
    for round in 0..50 {
        let event = note(1, 0, &format!("round {round}"));
        client.say("[\"REQ\",\"s\",{}]").await;
        writer.publish(&event).await;
        let mut eose = false;
        while !(eose && seen.contains(&id(&event))) {
            let message = client.hear().await;
            match message[0].as_str().unwrap() {
                "EVENT" => {
                    seen.insert(message[2]["id"].as_str().unwrap().to_owned());
                }
                "EOSE" => assert!(!std::mem::replace(&mut eose, true), "one EOSE for each REQ"),
                _ => panic!("{message}"),
            }
        }
    }
    assert_eq!(seen.len(), 50);
}

#[tokio::test]
async fn relay_04_queries_of_one_connection_take_turns() {
    let limits = Limits {
        outbound_frames: 8,
        ..Limits::default()
    }; // pages of 4
    let store = Gated::new();
    let relay = TestRelay::with_store(limits, store.clone());
    relay.store(&notes(40)).await;
    let mut client = relay.connect().await;
    under_way(&mut client, &store, true, "long").await;
    client.say("[\"REQ\",\"short\",{\"limit\":1}]").await;
    until(|| relay.counters.queries.get() == 2).await;
    store.before_page.open();
    let mut order = Vec::new();
    while order.len() < 2 {
        let message = client.hear().await;
        if message[0] == "EOSE" {
            order.push(message[1].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(order, ["short", "long"]);
}

#[tokio::test]
async fn relay_04_a_query_that_the_store_refuses_is_closed_with_the_reason() {
    let store = Gated::new();
    let relay = TestRelay::with_store(Limits::default(), store.clone());
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    let over = || Error::OverBudget {
        budget: Duration::from_secs(5),
        filter: "{\"kinds\":[1]}".into(),
    };
    store.failures.lock().unwrap().push(over());
    let closed = client.ask("[\"REQ\",\"s\",{\"kinds\":[1]}]").await;
    assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("s")));
    let reason = closed[2].as_str().unwrap();
    assert!(
        reason.starts_with("error: ") && reason.contains("{\"kinds\":[1]}"),
        "{reason}"
    );
    assert_eq!(relay.counters.subscriptions_open.get(), 0);
    store.failures.lock().unwrap().push(over());
    let closed = client.ask("[\"COUNT\",\"c\",{\"kinds\":[1]}]").await;
    assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("c")));
    // A closed subscription hears no live events.
    writer.publish(&note(1, 0, "x")).await;
    client.lives().await;
}

#[tokio::test]
async fn relay_03_counts_that_wait_are_bounded() {
    let store = Gated::new();
    let limits = Limits {
        counts: 2,
        ..Limits::default()
    };
    let relay = TestRelay::with_store(limits, store.clone());
    let mut client = relay.connect().await;
    under_way(&mut client, &store, true, "s").await;
    for name in ["1", "2", "3"] {
        client.say(format!("[\"COUNT\",\"{name}\",{{}}]")).await;
    }
    let closed = client.hear().await;
    assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!("3")));
    assert!(
        closed[2].as_str().unwrap().starts_with("rate-limited: "),
        "{closed}"
    );
    store.before_page.let_pass(1);
    for _ in 0..3 {
        assert_ne!(client.hear().await[0], "CLOSED");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn live_10_publishing_while_subscribing_loses_and_doubles_nothing() {
    let relay = TestRelay::start();
    let mut writer = relay.connect().await;
    let publishing = tokio::spawn(async move {
        for n in 0..200 {
            writer.publish(&note(1, 0, &format!("note {n}"))).await;
        }
    });
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = relay.connect().await;
        client.say("[\"REQ\",\"s\",{}]").await;
        clients.push(client);
        tokio::task::yield_now().await;
    }
    publishing.await.unwrap();
    for client in &mut clients {
        let mut seen = std::collections::HashSet::new();
        while seen.len() < 200 {
            let message = client.hear().await;
            if message[0] == "EVENT" {
                assert!(
                    seen.insert(message[2]["id"].as_str().unwrap().to_owned()),
                    "doubled: {message}"
                );
            }
        }
    }
}

#[tokio::test]
async fn live_10_what_comes_between_a_req_and_its_query_is_live_whatever_the_limit() {
    for limit in [0, 1] {
        let store = Gated::new();
        let relay = TestRelay::with_store(Limits::default(), store.clone());
        let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
        store.before_page.close();
        client.say(format!("[\"REQ\",\"s\",{{\"limit\":{limit}}}]")).await;
        store.before_page.arrived().await;
        let events = [note(1, 0, "the newest"), note(2, 10, "older, and later")];
        for event in &events {
            assert!(writer.publish(event).await.0);
        }
        store.before_page.let_pass(1);
        let mut heard = client.stored("s").await;
        assert_eq!(heard, events[..limit].iter().map(id).collect::<Vec<_>>());
        while heard.len() < events.len() {
            heard.push(client.hear().await[2]["id"].as_str().unwrap().to_owned());
        }
        assert_eq!(heard, events.each_ref().map(id));
    }
}

#[tokio::test]
async fn relay_03_replacing_over_and_over_leaves_no_gap() {
    let relay = TestRelay::start();
    let (mut client, mut writer) = (relay.connect().await, relay.connect().await);
    client.req("z", "{\"limit\":0}").await;
    let events: Vec<_> = (0..200).map(|n| note(1, n, "one of many")).collect();
    let publishing = tokio::spawn(async move {
        for event in &events {
            assert!(writer.publish(event).await.0);
        }
        events
    });
    let mut heard = Vec::new();
    for _ in 0..50 {
        client.say("[\"REQ\",\"z\",{\"limit\":0}]").await;
        heard.extend(client.stored("z").await);
    }
    let expected: Vec<_> = publishing.await.unwrap().iter().map(id).collect();
    while heard.len() < expected.len() {
        heard.push(client.hear().await[2]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(heard, expected);
}
