//! The end of a relay: what was taken is answered, what waits is sent, everybody is told.

use esker_nostr::Keys;
use esker_relay::Limits;
use tokio::net::TcpStream;

use crate::{
    gated::Gated,
    support::{NOW, Raw, TestRelay, id, note, patiently, text, until},
};

#[tokio::test]
async fn relay_12_a_drain_answers_what_was_taken_then_says_goodbye() {
    let store = Gated::new();
    let mut relay = TestRelay::with_store(Limits::default(), store.clone());
    let (mut writer, mut reader) = (relay.connect().await, relay.connect().await);
    reader.req("s", "{\"limit\":0}").await;
    store.after_insert.close();
    let event = note(1, 0, "in flight");
    writer.say(format!("[\"EVENT\",{}]", text(&event))).await;
    store.after_insert.arrived().await;
    // Delivery does not wait for the OK.
    assert_eq!(reader.hear().await[2]["id"], id(&event));
    relay.stop();
    // The reader has nothing under way.
    let goodbye = reader.closed().await;
    assert_eq!(u16::from(goodbye.code), 1001);
    // Nobody new comes in.
    assert!(TcpStream::connect(relay.address).await.is_err());
    store.after_insert.let_pass(1);
    let ok = writer.hear().await;
    assert_eq!(
        (&ok[0], &ok[1], &ok[2]),
        (&"OK".into(), &id(&event).into(), &true.into())
    );
    assert_eq!(u16::from(writer.closed().await.code), 1001);
    drop((writer, reader));
    patiently(relay.running).await.unwrap();
}

#[tokio::test]
async fn relay_12_a_drain_waits_for_nobody_for_ever() {
    let limits = Limits {
        drain_timeout_ms: 50,
        ..Limits::default()
    };
    let store = Gated::new();
    let mut relay = TestRelay::with_store(limits, store.clone());
    let mut writer = relay.connect().await;
    store.after_insert.close();
    writer
        .say(format!("[\"EVENT\",{}]", text(&note(1, 0, "stuck"))))
        .await;
    store.after_insert.arrived().await;
    // A connection that never asked for anything, and one that hangs in its request.
    let idle = Raw::open(&relay).await;
    let mut half = Raw::open(&relay).await;
    half.send(b"GET / HT").await;
    until(|| relay.counters.connections_open.get() == 3).await;
    relay.stop();
    patiently(&mut relay.running).await.unwrap();
    until(|| relay.counters.connections_open.get() == 0).await;
    drop((idle, half));
}

#[tokio::test]
async fn relay_12_a_limit_that_serves_nobody_stops_the_start() {
    let config = esker_relay::Config {
        limits: Limits {
            pending_events: 0,
            ..Limits::default()
        },
        ..Default::default()
    };
    let error = esker_relay::Server::bind(config, Gated::new()).err().unwrap();
    assert_eq!(error.to_string(), "limits.pending_events must be at least 1");
}

#[tokio::test]
async fn relay_12_two_servers_may_share_an_address() {
    let mut first = TestRelay::start();
    let config = esker_relay::Config {
        listen: first.address,
        ..Default::default()
    };
    let second = esker_relay::Server::bind(config, first.store.clone()).unwrap();
    assert_eq!(second.local_addr(), first.address);
    first.stop();
    patiently(&mut first.running).await.unwrap();
    let counters = second.counters();
    let serving = tokio::spawn(second.run(std::future::pending()));
    let event = Keys::from_seed(1).sign(1, NOW, &[] as &[Vec<&str>], "to the second");
    assert!(first.connect().await.publish(&event).await.0);
    assert_eq!(counters.events_stored.get(), 1);
    serving.abort();
}
