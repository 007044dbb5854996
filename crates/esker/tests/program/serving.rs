//! `serve`: its one line, its information document, and how it ends.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
};

use esker_nostr::{Event, EventFields as _};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Client, Folder, Relay, note, signal, wait_for_line};

#[tokio::test]
async fn an_event_goes_in_comes_out_and_is_seen_live() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    let (mut reader, mut writer) = (Client::connect(&relay).await, Client::connect(&relay).await);
    reader.send(&json!(["REQ", "live", { "#t": ["esker"] }])).await;
    assert_eq!(reader.next().await, Some(json!(["EOSE", "live"])));

    let event = note(1, 1_700_000_000, "hello");
    let body: Value = serde_json::from_slice(event.json()).unwrap();
    writer.publish(&event).await;
    assert_eq!(
        writer.next().await,
        Some(json!(["OK", event.id().to_string(), true, ""]))
    );
    assert_eq!(reader.next().await, Some(json!(["EVENT", "live", body])));
    writer
        .send(&json!(["REQ", "q", { "ids": [event.id().to_string()] }]))
        .await;
    assert_eq!(writer.next().await, Some(json!(["EVENT", "q", body])));
    assert_eq!(writer.next().await, Some(json!(["EOSE", "q"])));
    // They do not answer the relay's Close any more.
    drop((reader, writer));
    assert_eq!(relay.stop().code(), Some(0));
    assert_eq!(folder.json(&["count"])["count"], 1);
}

#[test]
fn relay_09_the_information_document_says_what_the_configuration_does() {
    let folder = Folder::new();
    folder.write(
        "esker.toml",
        "[relay]\nname = 'Home'\n[limits]\nsubscriptions = 7\n",
    );
    let relay = Relay::start(&folder, &["--set", "relay.description=A test"]);
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream
        .write_all(
            b"GET / HTTP/1.1\r\nHost: x\r\nAccept: application/nostr+json\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let document: Value = serde_json::from_str(response.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(document["name"], "Home");
    assert_eq!(document["description"], "A test");
    assert_eq!(document["limitation"]["max_subscriptions"], 7);
}

#[test]
fn a_port_that_cannot_be_had_stops_the_start() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let done = folder.run(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.stderr.contains("cannot listen on"), "{done:?}");
}

#[tokio::test]
async fn sigterm_answers_what_was_taken_closes_with_1001_and_loses_nothing() {
    let folder = Folder::new();
    let mut relay = Relay::start(&folder, &[]);
    let mut client = Client::connect(&relay).await;
    let events: Vec<Event> = (0..400)
        .map(|index| note(1, 1_700_000_000 + index, "in flight"))
        .collect();
    for event in &events {
        client.publish(event).await;
    }
    let first = client.next().await.unwrap();
    signal(&relay.process, Signal::TERM);
    let (rest, code) = client.rest().await;
    assert_eq!(code, Some(1001));
    assert_eq!(relay.process.wait().unwrap().code(), Some(0));
    let answered: Vec<Value> = std::iter::once(first).chain(rest).collect();
    assert!(
        answered.iter().all(|reply| reply[0] == "OK" && reply[2] == true),
        "{answered:?}"
    );
    // What it answered is there, and what it did not answer was not taken.
    assert_eq!(folder.json(&["count"])["count"], answered.len());
}

#[tokio::test]
async fn sighup_is_logged_and_serving_goes_on() {
    let folder = Folder::new();
    let mut relay = Relay::start(&folder, &[]);
    signal(&relay.process, Signal::HUP);
    wait_for_line(&mut relay.stderr, "nothing can be reloaded");
    let mut client = Client::connect(&relay).await;
    client.send(&json!(["COUNT", "c", {}])).await;
    assert_eq!(client.next().await, Some(json!(["COUNT", "c", { "count": 0 }])));
    drop(client);
    assert_eq!(relay.stop().code(), Some(0));
}

#[test]
fn an_error_tells_each_cause_once() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder")).unwrap();
    let done = folder.run(&["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:folder"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(done.stderr.matches("is a folder").count(), 1, "{done:?}");
}

#[test]
fn with_json_the_one_line_is_json() {
    let folder = Folder::new();
    let mut process = folder
        .esker(["serve", "--listen", "127.0.0.1:0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    signal(&process, Signal::TERM);
    process.wait().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(
        line["listening"].as_str().unwrap().starts_with("ws://127.0.0.1:"),
        "{line}"
    );
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    let mut relay = Relay::start(&folder, &["--set", "limits.drain_timeout_ms=86400000"]);
    // A client that never answers the Close keeps it draining.
    let client = Client::connect(&relay).await;
    signal(&relay.process, Signal::INT);
    wait_for_line(&mut relay.stderr, "draining");
    signal(&relay.process, Signal::INT);
    assert_eq!(relay.process.wait().unwrap().code(), Some(130));
    drop(client);
}

#[tokio::test]
async fn a_store_in_memory_serves_and_leaves_no_file() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &["--store", "memory:"]);
    let mut client = Client::connect(&relay).await;
    let event = note(1, 1_700_000_000, "gone soon");
    client.publish(&event).await;
    assert_eq!(client.next().await.unwrap()[2], true);
    client.send(&json!(["COUNT", "c", {}])).await;
    assert_eq!(client.next().await, Some(json!(["COUNT", "c", { "count": 1 }])));
    drop(client);
    relay.stop();
    assert_eq!(std::fs::read_dir(folder.path(".")).unwrap().count(), 0);
}
