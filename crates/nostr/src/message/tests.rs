//! Which frames are messages, whom refusals name, and what is written (RELAY-01, RELAY-03).

use super::*;
use crate::{Event, EventFields, Keys};

fn parse(frame: &str) -> ClientMessage<'_> {
    ClientMessage::parse(frame.as_bytes()).unwrap_or_else(|error| panic!("{frame}: {error}"))
}

fn refusal(frame: impl AsRef<[u8]>) -> (String, Subject) {
    let error = ClientMessage::parse(frame.as_ref()).unwrap_err();
    (error.to_string(), error.subject)
}

fn subscription(id: &str) -> Subject {
    Subject::Subscription(id.into())
}

fn negentropy(id: &str) -> Subject {
    Subject::Negentropy(id.into())
}

#[test]
fn relay_01_every_message_of_a_client_is_read() {
    let one = || Filter::parse(b"{\"kinds\":[1]}").unwrap();
    assert_eq!(
        parse("[\"EVENT\",{\"a\":[1]}]"),
        ClientMessage::Event(b"{\"a\":[1]}")
    );
    assert_eq!(parse(" [ \"EVENT\" , {} \n] \r\n"), ClientMessage::Event(b"{}"));
    assert_eq!(parse("[\"AUTH\",{}]"), ClientMessage::Auth(b"{}"));
    assert_eq!(
        parse("[\"REQ\",\"s\",{\"kinds\":[1]} , {}]"),
        ClientMessage::Req {
            id: "s".into(),
            filters: vec![one(), Filter::default()]
        }
    );
    assert_eq!(
        parse("[\"COUNT\",\"\\u0073\",{\"kinds\":[1]}]"),
        ClientMessage::Count {
            id: "s".into(),
            filters: vec![one()]
        }
    );
    assert_eq!(parse("[\"CLOSE\",\"s\"]"), ClientMessage::Close("s".into()));
    assert_eq!(
        parse("[\"NEG-OPEN\",\"n\",{\"kinds\":[1]},\"61ab\"]"),
        ClientMessage::NegOpen {
            id: "n".into(),
            filter: Box::new(one()),
            message: "61ab"
        }
    );
    assert_eq!(
        parse("[\"NEG-MSG\",\"n\",\"61\"]"),
        ClientMessage::NegMsg {
            id: "n".into(),
            message: "61"
        }
    );
    assert_eq!(
        parse("[\"NEG-CLOSE\",\"n\"]"),
        ClientMessage::NegClose("n".into())
    );
    assert_eq!(parse("[\"R\\u0045Q\",\"s\",{}]"), parse("[\"REQ\",\"s\",{}]"));
}

#[test]
fn relay_01_anything_else_is_told_what_was_wrong() {
    for (frame, text) in [
        ("", "invalid: expected a list at byte 0"),
        ("{}", "invalid: expected a list at byte 0"),
        ("\u{feff}[]", "invalid: expected a list at byte 0"),
        ("[]", "invalid: a message must begin with its type, a string"),
        ("[1]", "invalid: a message must begin with its type, a string"),
        ("[\"NOPE\",1]", "unsupported: unknown message type NOPE"),
        ("[\"req\",\"s\",{}]", "unsupported: unknown message type req"),
        ("[\"EVENT\"]", "invalid: an event must follow"),
        ("[\"EVENT\",1]", "invalid: the event must be an object"),
        (
            "[\"EVENT\",]",
            "invalid: expected another member after the comma at byte 9",
        ),
        ("[\"EVENT\",{}", "invalid: the message must end with ]"),
        ("[\"AUTH\",\"challenge\"]", "invalid: the event must be an object"),
        ("[\"REQ\"]", "invalid: an id must follow"),
        ("[\"REQ\",1,{}]", "invalid: the id must be a string"),
        ("[\"REQ\",null,{}]", "invalid: the id must be a string"),
        ("[\"CLOSE\"]", "invalid: an id must follow"),
        ("[\"CLOSE\",\"\"]", "invalid: the id must not be empty"),
        ("[\"CLOSE\",\"s\",\"t\"]", "invalid: nothing more may follow"),
        (
            "[\"CLOSE\",\"s\"]]",
            "invalid: expected nothing after the last bracket at byte 13",
        ),
        ("[\"CLOSE\" \"s\"]", "invalid: expected a comma or ] at byte 9"),
    ] {
        assert_eq!(refusal(frame), (text.into(), Subject::None), "{frame}");
    }
    let long = refusal(format!("[\"{}\"]", "\u{1f600}".repeat(1000))).0;
    assert_eq!(
        long,
        format!("unsupported: unknown message type {}", "\u{1f600}".repeat(32))
    );
}

#[test]
fn relay_01_a_refused_req_or_count_names_its_id() {
    for kind in ["REQ", "COUNT"] {
        for (rest, text) in [
            ("]", "invalid: a filter must follow"),
            (",]", "invalid: expected another member after the comma"),
            (",1]", "invalid: filter: expected an object"),
            (
                ",{\"ids\":1}]",
                "invalid: ids must be a list of strings (filter 1)",
            ),
            (
                ",{},{\"limit\":-1}]",
                "invalid: limit must be an integer, 0 or more (filter 2)",
            ),
            (
                ",{},{\"kindss\":[1],\"until\":1}]",
                "unsupported: unknown field \"kindss\" (filter 2)",
            ),
            (",{}", "invalid: expected a comma or ]"),
            (",{}]x", "invalid: expected nothing after the last bracket"),
            (",{\"kinds\":[1", "invalid: kinds: expected a comma or ]"),
        ] {
            let (reason, subject) = refusal(format!("[\"{kind}\",\"my \\\"id\"{rest}"));
            assert!(reason.starts_with(text), "{rest}: {reason}");
            assert_eq!(subject, subscription("my \"id"), "{rest}");
        }
        let mut frame = format!("[\"{kind}\",\"s\",{{\"#t\":[\"?\"]}}]").into_bytes();
        let at = frame.iter().position(|byte| *byte == b'?').unwrap();
        frame[at] = 0xff;
        assert_eq!(
            refusal(&frame),
            (
                format!("invalid: expected valid UTF-8 at byte {at}"),
                subscription("s")
            )
        );
    }
    assert_eq!(
        refusal(b"[\"CLOSE\",\"s\"]\xff"),
        ("invalid: expected valid UTF-8 at byte 13".into(), Subject::None)
    );
}

#[test]
fn relay_01_a_refused_negentropy_message_names_its_session() {
    for (frame, text) in [
        ("[\"NEG-OPEN\",\"n\"]", "invalid: a filter must follow"),
        (
            "[\"NEG-OPEN\",\"n\",{\"ids\":1},\"61\"]",
            "invalid: ids must be a list of strings (filter 1)",
        ),
        ("[\"NEG-OPEN\",\"n\",{}]", "invalid: a message in hex must follow"),
        (
            "[\"NEG-OPEN\",\"n\",{},\"6\"]",
            "invalid: the message must be lowercase hex",
        ),
        (
            "[\"NEG-OPEN\",\"n\",{},\"6A\"]",
            "invalid: the message must be lowercase hex",
        ),
        (
            "[\"NEG-OPEN\",\"n\",{},\"\\u0061a\"]",
            "invalid: the message must be lowercase hex",
        ),
        (
            "[\"NEG-OPEN\",\"n\",{},1]",
            "invalid: expected a string at byte 19",
        ),
        (
            "[\"NEG-OPEN\",\"n\",{},\"61\",1]",
            "invalid: nothing more may follow",
        ),
        ("[\"NEG-MSG\",\"n\"]", "invalid: a message in hex must follow"),
        ("[\"NEG-CLOSE\",\"n\",1]", "invalid: nothing more may follow"),
    ] {
        assert_eq!(refusal(frame), (text.into(), negentropy("n")), "{frame}");
    }
}

#[test]
fn relay_02_a_refused_event_is_named_when_its_id_can_be_read() {
    let event = Keys::from_seed(1).sign(1, 0, &[vec!["t", "[{\"}]"]], "]");
    let json = String::from_utf8(event.json().to_vec()).unwrap();
    assert_eq!(
        refusal(format!("[\"EVENT\",{json}")).1,
        Subject::Event(event.id())
    );
    assert_eq!(refusal(format!("[\"AUTH\",{json}")).1, Subject::Event(event.id()));
    // What follows the event is the event parser's to refuse.
    let frame = format!("[\"EVENT\",{json},1]");
    let ClientMessage::Event(body) = parse(&frame) else {
        panic!("{frame}")
    };
    assert!(Event::parse(body).is_err());
    assert_eq!(crate::event::peek_id(body), Some(event.id()));
    let mut frame = format!("[\"EVENT\",{json}]").into_bytes();
    let ClientMessage::Event(body) = ClientMessage::parse(&frame).unwrap() else {
        panic!("{json}")
    };
    assert_eq!(body, json.as_bytes());
    let at = frame.len() - 3;
    frame[at] = 0xff;
    assert!(matches!(
        ClientMessage::parse(&frame),
        Ok(ClientMessage::Event(_))
    ));
}

#[test]
fn relay_03_an_id_has_one_to_64_characters() {
    for id in [
        "a".repeat(64),
        "\u{1f600}".repeat(64),
        "\\u0000".repeat(64),
        " ".into(),
    ] {
        let frame = format!("[\"REQ\",\"{id}\",{{}}]");
        assert!(matches!(parse(&frame), ClientMessage::Req { .. }), "{id}");
    }
    for char in ["a", "\u{1f600}", "\u{e9}"] {
        let (reason, subject) = refusal(format!("[\"REQ\",\"{}\",{{}}]", char.repeat(65)));
        assert_eq!(reason, "invalid: the id must have at most 64 characters");
        assert_eq!(subject, subscription(&char.repeat(64)));
    }
    assert_eq!(
        refusal("[\"REQ\",\"\",{}]"),
        ("invalid: the id must not be empty".into(), subscription(""))
    );
    let (_, subject) = refusal(format!("[\"NEG-OPEN\",\"{}\",{{}},\"\"]", "n".repeat(1_000_000)));
    assert_eq!(subject, negentropy(&"n".repeat(64)));
}

#[test]
fn the_number_of_filters_is_bounded() {
    let frame = |count: usize| format!("[\"REQ\",\"s\"{}]", ",{}".repeat(count));
    assert!(matches!(parse(&frame(256)), ClientMessage::Req { filters, .. } if filters.len() == 256));
    assert_eq!(
        refusal(frame(257)),
        (
            "invalid: a message may carry at most 256 filters".into(),
            subscription("s")
        )
    );
}

#[test]
fn relay_01_what_is_written_is_json_whatever_the_texts_hold() {
    let text: String = ('\0'..='\u{80}').chain(['\u{2028}', '\u{1f600}']).collect();
    let id = EventId([0xab; 32]);
    let hex = "ab".repeat(32);
    for (message, expected) in [
        (
            RelayMessage::Ok {
                id,
                accepted: true,
                message: &text,
            },
            serde_json::json!(["OK", hex, true, text]),
        ),
        (
            RelayMessage::Ok {
                id,
                accepted: false,
                message: "",
            },
            serde_json::json!(["OK", hex, false, ""]),
        ),
        (RelayMessage::Eose(&text), serde_json::json!(["EOSE", text])),
        (
            RelayMessage::Closed(&text, &text),
            serde_json::json!(["CLOSED", text, text]),
        ),
        (RelayMessage::Notice(&text), serde_json::json!(["NOTICE", text])),
        (
            RelayMessage::Count(&text, u64::MAX),
            serde_json::json!(["COUNT", text, { "count": u64::MAX }]),
        ),
        (
            RelayMessage::NegMsg(&text, "61"),
            serde_json::json!(["NEG-MSG", text, "61"]),
        ),
        (
            RelayMessage::NegErr(&text, &text),
            serde_json::json!(["NEG-ERR", text, text]),
        ),
        (RelayMessage::Auth(&text), serde_json::json!(["AUTH", text])),
    ] {
        assert_eq!(message.to_json(), expected.to_string());
    }
    assert_eq!(
        event_head(&text) + "{}]",
        serde_json::json!(["EVENT", text, {}]).to_string()
    );
}
