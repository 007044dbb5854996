//! The information document, the landing page, and what the HTTP side refuses.

use esker_relay::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::support::{Raw, TestRelay, id, note, patiently, until};

/// A response, read to the end of the connection.
async fn get(relay: &TestRelay, request: &str) -> (String, String) {
    let mut raw = Raw::open(relay).await;
    raw.send(format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await;
    let mut response = String::new();
    patiently(raw.0.read_to_string(&mut response)).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[tokio::test]
async fn relay_09_the_document_is_true_and_open_to_every_page() {
    let limits = Limits {
        limit_max: 77,
        subscriptions: 5,
        message_bytes: 9000,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    for path in ["/", "/any/path?x=y"] {
        for accept in [
            "application/nostr+json",
            "text/html;q=0.1, Application/Nostr+JSON;q=1",
        ] {
            let (head, body) = get(&relay, &format!("GET {path} HTTP/1.1\r\nAccept: {accept}")).await;
            assert!(head.starts_with("http/1.1 200 "), "{head}");
            assert!(head.contains("content-type: application/nostr+json"), "{head}");
            assert!(head.contains("access-control-allow-origin: *"), "{head}");
            let document: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(document["name"], "Test relay");
            assert_eq!(document["supported_nips"], json!([1, 9, 11, 40, 45, 62, 91]));
            assert_eq!(document["limitation"]["max_limit"], 77);
            assert_eq!(document["limitation"]["max_subscriptions"], 5);
            assert_eq!(document["limitation"]["max_message_length"], 9000);
            assert_eq!(document["limitation"]["auth_required"], false);
            assert_eq!(document["limitation"]["created_at_upper_limit"], 900);
            assert!(document.get("icon").is_none());
        }
    }
    let (head, _) = get(
        &relay,
        "OPTIONS / HTTP/1.1\r\nOrigin: https://x\r\nAccess-Control-Request-Method: GET\r\n\
         Access-Control-Request-Headers: accept",
    )
    .await;
    assert!(head.starts_with("http/1.1 204 "), "{head}");
    for allowed in ["allow-origin: *", "allow-headers: *", "allow-methods: get"] {
        assert!(head.contains(&format!("access-control-{allowed}")), "{head}");
    }
}

#[tokio::test]
async fn relay_09_nip_91_is_spoken_as_the_document_says() {
    let relay = TestRelay::start();
    let keys = esker_nostr::Keys::from_seed(1);
    let both = keys.sign(1, crate::support::NOW, &[vec!["t", "a"], vec!["t", "b"]], "");
    let one = keys.sign(1, crate::support::NOW, &[vec!["t", "a"]], "");
    relay.store(&[both.clone(), one]).await;
    let mut client = relay.connect().await;
    assert_eq!(client.req("s", "{\"&t\":[\"a\",\"b\"]}").await, [id(&both)]);
}

#[tokio::test]
async fn relay_09_a_browser_gets_a_page_with_live_figures() {
    let relay = TestRelay::start();
    relay.connect().await.publish(&note(1, 0, "x")).await;
    let (head, body) = get(&relay, "GET / HTTP/1.1\r\nAccept: text/html,*/*").await;
    assert!(
        head.starts_with("http/1.1 200 ") && head.contains("content-type: text/html"),
        "{head}"
    );
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(
        body.contains("<h1>Test relay</h1>") && body.contains("<dt>Events stored</dt><dd>1</dd>"),
        "{body}"
    );
    let (head, body) = get(&relay, "HEAD / HTTP/1.1").await;
    assert!(head.starts_with("http/1.1 200 ") && body.is_empty(), "{head}");
    assert_eq!(get(&relay, "GET /healthz HTTP/1.1").await.1, "ok\n");
}

#[tokio::test]
async fn relay_09_what_is_not_served_is_refused_as_http_has_it() {
    let relay = TestRelay::start();
    let (head, _) = get(&relay, "GET /nothing HTTP/1.1").await;
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    let (head, _) = get(&relay, "POST / HTTP/1.1\r\nContent-Length: 2\r\nX: y").await;
    assert!(
        head.starts_with("http/1.1 405 ") && head.contains("allow: get, head, options"),
        "{head}"
    );
    let mut raw = Raw::open(&relay).await;
    let head = raw
        .request(
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await
        .to_lowercase();
    assert!(
        head.starts_with("http/1.1 426 ") && head.contains("sec-websocket-version: 13"),
        "{head}"
    );
    let mut raw = Raw::open(&relay).await;
    let head = raw
        .request("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n")
        .await;
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
}

#[tokio::test]
async fn relay_12_a_websocket_may_be_opened_on_any_path() {
    let relay = TestRelay::start();
    let url = format!("ws://{}/some/path?x", relay.address);
    patiently(tokio_tungstenite::connect_async(url)).await.unwrap();
}

#[tokio::test]
async fn relay_12_a_client_that_sends_no_request_is_disconnected() {
    let limits = Limits {
        request_timeout_ms: 50,
        ..Limits::default()
    };
    let relay = TestRelay::with_limits(limits);
    for beginning in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow"] {
        let mut raw = Raw::open(&relay).await;
        raw.send(beginning).await;
        let mut rest = Vec::new();
        let _ = patiently(raw.0.read_to_end(&mut rest)).await;
        until(|| relay.counters.connections_open.get() == 0).await;
    }
    // A WebSocket is past that.
    let mut client = relay.connect().await;
    client.lives().await;
}

#[tokio::test]
async fn relay_12_a_request_head_is_bounded() {
    let relay = TestRelay::start();
    let mut raw = Raw::open(&relay).await;
    let request = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(100_000));
    // The relay may hang up before it has read all.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.0, request.as_bytes()).await;
    let mut response = Vec::new();
    let _ = patiently(raw.0.read_to_end(&mut response)).await;
    assert!(
        response.is_empty() || response.starts_with(b"HTTP/1.1 431 "),
        "{}",
        String::from_utf8_lossy(&response)
    );
    until(|| relay.counters.connections_open.get() == 0).await;
}

#[tokio::test]
async fn relay_12_connections_are_limited_in_all_and_per_address() {
    for (limits, status) in [
        (
            Limits {
                connections: 2,
                ..Limits::default()
            },
            "503",
        ),
        (
            Limits {
                connections_per_ip: 2,
                ..Limits::default()
            },
            "429",
        ),
    ] {
        let relay = TestRelay::with_limits(limits);
        let (mut first, second) = (relay.connect().await, relay.connect().await);
        let mut raw = Raw::open(&relay).await;
        let mut response = Vec::new();
        let _ = patiently(raw.0.read_to_end(&mut response)).await;
        assert!(response.starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
        first.lives().await;
        drop(second);
        until(|| relay.counters.connections_open.get() == 1).await;
        relay.connect().await.lives().await;
        let refused = relay.counters.connections_over_total.get() + relay.counters.connections_over_ip.get();
        assert_eq!(refused, 1);
    }
}
