//! What a client may say, and what it hears when it says something else.

use esker_relay::Refusal;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Client, TestRelay, hex, id, note, text};

/// Says something and checks what the answer begins with, and that the connection lives.
async fn expect(client: &mut Client, message: &str, kind: &str, prefix: &str) -> serde_json::Value {
    let answer = client.ask(message).await;
    let cut: String = message.chars().take(100).collect();
    let text = answer.as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(answer[0] == kind && text.starts_with(prefix), "{cut}: {answer}");
    client.lives().await;
    answer
}

#[tokio::test]
async fn relay_01_a_client_publishes_reads_back_and_another_sees_it_live() {
    let relay = TestRelay::start();
    let (mut writer, mut reader) = (relay.connect().await, relay.connect().await);
    assert!(reader.req("live", "{\"kinds\":[1]}").await.is_empty());
    let event = note(1, 0, "hello, wörld \u{1F30D}");
    assert_eq!(writer.publish(&event).await, (true, String::new()));
    assert_eq!(
        reader.hear().await,
        json!(["EVENT", "live", crate::support::value(&event)])
    );
    assert_eq!(
        writer
            .req(
                "back",
                "{\"authors\":[\"PK\"]}".replace("PK", &hex(&author(1))).as_str()
            )
            .await,
        [id(&event)]
    );
}

fn author(seed: u64) -> [u8; 32] {
    esker_nostr::Keys::from_seed(seed).public().0
}

#[tokio::test]
async fn relay_01_what_is_no_message_gets_a_notice_and_the_connection_lives() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let deep = "[".repeat(10_000);
    let long = format!("\"{}\"", "a".repeat(1_000_000));
    for message in [
        "",
        "hello",
        "[]",
        "{}",
        "null",
        "[1]",
        "[\"\"]",
        "[\"EVENT\"]",
        "[\"EVENT\",1]",
        "[\"EVENT\",{}]",
        "[\"EVENT\",{\"id\":\"short\"}]",
        "[\"REQ\"]",
        "[\"REQ\",1,{}]",
        "[\"CLOSE\"]",
        "[\"CLOSE\",{}]",
        "[\"COUNT\"]",
        "[\"AUTH\"]",
        "[\"AUTH\",\"challenge\"]",
        "[\"event\",{}]",
        "[\"UNHEARD-OF\",\"x\"]",
        "\u{FEFF}[\"REQ\",\"s\",{}]",
        "[\"EVENT\",\u{0}]",
        &deep,
        &long,
    ] {
        let answer = client.ask(message).await;
        assert_eq!(answer[0], "NOTICE", "{answer}");
        let text = answer[1].as_str().unwrap();
        assert!(
            text.starts_with("invalid: ") || text.starts_with("unsupported: "),
            "{answer}"
        );
        assert!(text.chars().count() <= 300, "{answer}");
    }
    client.lives().await;
    // Two of them were events, if broken ones.
    assert_eq!(
        (
            relay.counters.messages_refused.get(),
            relay.counters.refused(Refusal::Malformed).get()
        ),
        (22, 2)
    );
}

#[tokio::test]
async fn relay_01_what_is_not_offered_is_refused_by_name() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let auth = esker_nostr::Keys::from_seed(1).sign(22242, crate::support::NOW, &[] as &[Vec<&str>], "");
    let ok = expect(
        &mut client,
        &format!("[\"AUTH\",{}]", text(&auth)),
        "OK",
        "error: ",
    )
    .await;
    assert_eq!((&ok[1], &ok[2]), (&json!(id(&auth)), &json!(false)));
    let err = expect(
        &mut client,
        "[\"NEG-OPEN\",\"n\",{},\"61\"]",
        "NEG-ERR",
        "error: ",
    )
    .await;
    assert_eq!(err[1], "n");
    expect(&mut client, "[\"NEG-MSG\",\"n\",\"61\"]", "NEG-ERR", "closed: ").await;
    expect(
        &mut client,
        "[\"NEG-OPEN\",\"n\",{\"kinds\":1},\"61\"]",
        "NEG-ERR",
        "invalid: ",
    )
    .await;
    client.say("[\"NEG-CLOSE\",\"n\"]").await;
    client.lives().await;
}

#[tokio::test]
async fn relay_03_a_refused_req_or_count_gets_closed_with_its_id() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    for kind in ["REQ", "COUNT"] {
        for filter in [
            "{\"kinds\":[1e10]}",
            "{\"kinds\":[\"1\"]}",
            "{\"kinds\":[1.0]}",
            "{\"kinds\":1}",
            "{\"since\":\"1\"}",
            "{\"since\":1e10}",
            "{\"until\":1.5}",
            "{\"limit\":01}",
            "{\"limit\":-1}",
            "{\"limit\":\"10\"}",
            "{\"ids\":\"x\"}",
            "{\"authors\":[1]}",
            "{\"#e\":\"x\"}",
            "[]",
            "\"x\"",
            "null",
        ] {
            let closed = expect(
                &mut client,
                &format!("[\"{kind}\",\"s\",{filter}]"),
                "CLOSED",
                "invalid: ",
            )
            .await;
            assert_eq!(closed[1], "s");
        }
        let unknown = format!("[\"{kind}\",\"s\",{{\"kindss\":[1],\"until\":1}}]");
        let closed = expect(
            &mut client,
            &unknown,
            "CLOSED",
            "unsupported: unknown field \"kindss\"",
        )
        .await;
        assert_eq!(closed[1], "s");
        let closed = expect(&mut client, &format!("[\"{kind}\",\"s\"]"), "CLOSED", "invalid: ").await;
        assert_eq!(closed[1], "s");
        let closed = expect(
            &mut client,
            &format!("[\"{kind}\",\"\",{{}}]"),
            "CLOSED",
            "invalid: ",
        )
        .await;
        assert_eq!(closed[1], "");
        let closed = expect(&mut client, &format!("[\"{kind}\",\"s\""), "CLOSED", "invalid: ").await;
        assert_eq!(closed[1], "s");
        // Too long: cut to fit.
        let id = "ä".repeat(65);
        let closed = expect(
            &mut client,
            &format!("[\"{kind}\",\"{id}\",{{}}]"),
            "CLOSED",
            "invalid: ",
        )
        .await;
        assert_eq!(closed[1], "ä".repeat(64));
    }
    // The longest that fits, in bytes too.
    let id = "\u{1F600}".repeat(64);
    assert!(client.req(&id, "{}").await.is_empty());
}

#[tokio::test]
async fn relay_03_error_texts_are_valid_json_whatever_they_quote() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    // `ask` parses the answer.
    for message in [
        "[\"A\\\"B\\\\C\\u0000\\n\",1]",
        "[\"REQ\",\"q\\\"\\\\\\u0001\",{\"kinds\":[\"\\\"\\u0007\"]}]",
        "[\"EVENT\",{\"\\\"\\u001f\":1}]",
    ] {
        let answer = client.ask(message).await;
        assert!(answer[0] == "NOTICE" || answer[0] == "CLOSED", "{answer}");
    }
    client.lives().await;
}

#[tokio::test]
async fn relay_02_a_malformed_event_is_refused_by_its_id_and_its_field() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let event = note(1, 0, "x");
    let good = text(&event);
    let swap = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let created_at = format!("\"created_at\":{}", crate::support::NOW);
    for (bad, field) in [
        (swap(&created_at, "\"created_at\":1e10"), "created_at"),
        (swap(&created_at, "\"created_at\":1.0"), "created_at"),
        (swap(&created_at, "\"created_at\":\"1\""), "created_at"),
        (swap(&created_at, "\"created_at\":01"), "created_at"),
        (
            swap(&created_at, "\"created_at\":18446744073709551616"),
            "created_at",
        ),
        (swap("\"kind\":1", "\"kind\":1e0"), "kind"),
        (swap("\"kind\":1", "\"kind\":-1"), "kind"),
        (swap("\"kind\":1", "\"kind\":65536"), "kind"),
        (swap("\"kind\":1", "\"kind\":\"1\""), "kind"),
        (swap("\"kind\":1", "\"kind\":1,\"kind\":1"), "kind"),
        (swap("\"tags\":[]", "\"tags\":{}"), "tags"),
        (swap("\"tags\":[]", "\"tags\":[[1]]"), "tags"),
        (swap("\"tags\":[]", "\"tags\":[\"t\"]"), "tags"),
        (swap("\"content\":\"x\"", "\"content\":null"), "content"),
        (swap("\"content\":\"x\"", "\"content\":\"\\ud800\""), "content"),
        (swap("\"content\":\"x\"", "\"content\":\"\n\""), "content"),
        (swap("\"content\":\"x\"", "\"content\":\"y\""), "id"),
        (swap("\"content\":\"x\",", ""), "content"),
    ] {
        let answer = client.ask(format!("[\"EVENT\",{bad}]")).await;
        assert_eq!(
            (&answer[0], &answer[1], &answer[2]),
            (&json!("OK"), &json!(id(&event)), &json!(false)),
            "{bad}"
        );
        let reason = answer[3].as_str().unwrap();
        assert!(
            reason.starts_with("invalid: ") && reason.contains(field),
            "{bad}: {reason}"
        );
    }
    client.lives().await;
    // Another order of the fields, white space and unknown fields are fine.
    let loose = good.replacen('{', "{ \"unknown\" : [ {} ] , ", 1);
    let ok = client.ask(format!("[ \"EVENT\" , {loose} ]")).await;
    assert_eq!(ok, json!(["OK", id(&event), true, ""]));
}

#[tokio::test]
async fn relay_02_a_wrong_signature_is_refused() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    let event = note(1, 0, "x");
    let forged = text(&event).replace(&hex(&event.sig()), &hex(&note(1, 0, "y").sig()));
    let answer = client.ask(format!("[\"EVENT\",{forged}]")).await;
    assert_eq!((&answer[0], &answer[2]), (&json!("OK"), &json!(false)));
    assert!(
        answer[3].as_str().unwrap().starts_with("invalid: sig"),
        "{answer}"
    );
    assert_eq!(client.publish(&event).await, (true, String::new()));
}

#[tokio::test]
async fn relay_12_a_binary_message_gets_a_notice_and_the_connection_lives() {
    let relay = TestRelay::start();
    let mut client = relay.connect().await;
    client.send(Message::binary(&b"[\"REQ\",\"s\",{}]"[..])).await;
    assert_eq!(
        client.hear().await,
        json!(["NOTICE", "invalid: messages are text frames"])
    );
    client.lives().await;
}
