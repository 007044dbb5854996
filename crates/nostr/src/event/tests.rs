//! What is an event and what is not (RELAY-02), its canonical form, and what is read from it.

use super::*;
use crate::{Keys, testing};

/// A valid event's JSON with one member's value, or all of its text, changed.
fn with(field: &str, value: &str) -> String {
    let event = Keys::from_seed(1).sign(1, 1_700_000_000, &[vec!["t", "x"]], "hi");
    let json = String::from_utf8(event.json().to_vec()).unwrap();
    let start = json.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
    let end = match field {
        "sig" => json.len() - 1,
        "tags" => json.find(",\"content\"").unwrap(),
        _ => start + json[start..].find(',').unwrap(),
    };
    format!("{}{value}{}", &json[..start], &json[end..])
}

fn refusal(json: impl AsRef<[u8]>) -> String {
    Event::parse(json.as_ref()).unwrap_err().to_string()
}

fn valid() -> String {
    with("kind", "1")
}

#[test]
fn relay_02_a_whole_event_is_taken() {
    let event = Event::parse(valid().as_bytes()).unwrap();
    assert_eq!(event.verify(), Ok(()));
    assert_eq!(
        (event.kind(), event.created_at(), &*event.content()),
        (1, 1_700_000_000, "hi")
    );
    assert_eq!(event.json(), valid().as_bytes());
}

#[test]
fn relay_02_numbers_are_integers_in_range() {
    for bad in [
        "1e3", "1.0", "-1", "-0", "01", "65536", "\"1\"", "null", "true", "[]", "{}", "1e0", "+1", "",
    ] {
        assert_eq!(
            refusal(with("kind", bad)),
            "kind must be an integer from 0 to 65535",
            "{bad}"
        );
    }
    for bad in [
        "1e10",
        "1.0",
        "-0",
        "007",
        "9223372036854775808",
        "-9223372036854775809",
        "\"1\"",
        "null",
    ] {
        assert_eq!(
            refusal(with("created_at", bad)),
            "created_at must be an integer of 64 bits",
            "{bad}"
        );
    }
    for good in [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "4294967296",
    ] {
        assert!(
            refusal(with("created_at", good)).starts_with("id must be the hash of the event, "),
            "{good}"
        );
    }
}

#[test]
fn relay_02_ids_keys_and_signatures_are_lowercase_hex_of_the_right_length() {
    for (field, digits) in [("id", 64), ("pubkey", 64), ("sig", 128)] {
        let expected = format!("{field} must be {digits} lowercase hex digits");
        for bad in [
            "\"\"".into(),
            "1".into(),
            "null".into(),
            format!("\"{}\"", "a".repeat(digits - 1)),
            format!("\"{}\"", "a".repeat(digits + 1)),
            format!("\"{}\"", "A".repeat(digits)),
            format!("\"0x{}\"", "a".repeat(digits - 2)),
            format!("\" {}\"", "a".repeat(digits - 1)),
        ] {
            assert_eq!(refusal(with(field, &bad)), expected, "{bad}");
        }
    }
}

#[test]
fn relay_02_tags_are_lists_of_strings() {
    for bad in [
        "[1]",
        "[[1]]",
        "[[null]]",
        "[[[]]]",
        "{}",
        "\"\"",
        "null",
        "[\"t\"]",
        "[[\"t\",1]]",
        "[[\"t\",]]",
        "[[],]",
    ] {
        let text = refusal(with("tags", bad));
        assert!(text.starts_with("tags: expected "), "{bad}: {text}");
    }
    // A hash that differs means that the shape was taken.
    for good in [
        "[]",
        "[[]]",
        "[[],[]]",
        "[[\"\"]]",
        "[[\"t\",\"\",\"\"]]",
        "[ [ \"t\" , \"x\" ] , [ ] ]",
    ] {
        assert!(refusal(with("tags", good)).starts_with("id must be"), "{good}");
    }
}

#[test]
fn relay_02_strings_are_whole_unicode_with_escapes_for_controls() {
    assert_eq!(refusal(with("content", "1")), "content must be a string");
    for (bad, expected) in [
        ("\"a\nb\"", "no control character inside a string (escape it)"),
        ("\"a\u{0}b\"", "no control character inside a string (escape it)"),
        ("\"\\x\"", "an escape that JSON knows"),
        (
            "\"\\ud800\"",
            "a whole \\u escape (four digits, no lone surrogate)",
        ),
        (
            "\"\\udc00\\ud800\"",
            "a whole \\u escape (four digits, no lone surrogate)",
        ),
        (
            "\"\\ud83d\\ue000\"",
            "a whole \\u escape (four digits, no lone surrogate)",
        ),
        ("\"\\u00\"", "a whole \\u escape (four digits, no lone surrogate)"),
    ] {
        let text = refusal(with("content", bad));
        assert!(
            text.starts_with(&format!("content: expected {expected} at byte ")),
            "{bad}: {text}"
        );
    }
    let mut bytes = with("content", "\"ab\"").into_bytes();
    let at = bytes.windows(2).position(|pair| pair == b"ab").unwrap();
    for bad in [[0xff, b'x'], [0xc0, 0x80], [0xed, 0xa0], [b'x', 0xc3]] {
        bytes[at..at + 2].copy_from_slice(&bad);
        assert!(
            refusal(&bytes).starts_with("event: expected valid UTF-8 at byte "),
            "{bad:?}"
        );
    }
}

#[test]
fn relay_02_keys_stand_once_however_they_are_spelled() {
    let valid = valid();
    let with_first = |member: &str| format!("{{{member},{}", &valid[1..]);
    for (member, key) in [
        ("\"kind\":1", "kind"),
        ("\"k\\u0069nd\":1", "kind"),
        ("\"content\":\"\"", "content"),
        ("\"tags\":[]", "tags"),
        ("\"x\":1,\"x\":2", "x"),
        ("\"x\":1,\"\\u0078\":2", "x"),
    ] {
        assert_eq!(
            refusal(with_first(member)),
            format!("{key} stands twice"),
            "{member}"
        );
    }
    let long = "x".repeat(10_000);
    assert_eq!(
        refusal(with_first(&format!("\"{long}\":1,\"{long}\":1"))),
        format!("{} stands twice", &long[..32])
    );
}

#[test]
fn relay_02_unknown_fields_are_dropped_if_they_are_well_formed() {
    let valid = valid();
    let with_first = |member: &str| format!("{{{member},{}", &valid[1..]);
    let nested = |depth| format!("\"x\":{}{}", "[".repeat(depth), "]".repeat(depth));
    for member in [
        "\"x\":1.5e3",
        "\"Kind\":null",
        "\"\":{\"kind\":[1,{}]}",
        &nested(64),
    ] {
        assert_eq!(
            Event::parse(with_first(member).as_bytes()).unwrap().json(),
            valid.as_bytes(),
            "{member}"
        );
    }
    for member in [
        "\"x\":",
        "\"x\":01",
        "\"x\":[1,]",
        "\"x\":\"\t\"",
        "x:1",
        &nested(65),
    ] {
        assert!(
            refusal(with_first(member)).starts_with("event: expected "),
            "{member}"
        );
    }
}

#[test]
fn relay_02_nothing_stands_around_the_object() {
    let valid = valid();
    assert!(Event::parse(format!(" \r\n\t{valid}\n ").as_bytes()).is_ok());
    for bad in [
        format!("\u{feff}{valid}"),
        format!("[{valid}]"),
        "null".into(),
        "[]".into(),
        String::new(),
        " ".into(),
    ] {
        assert!(
            refusal(&bad).starts_with("event: expected an object at byte "),
            "{bad}"
        );
    }
    for after in ["x", "{}", ",", "\0", "]"] {
        let text = refusal(format!("{valid}{after}"));
        assert!(
            text.starts_with("event: expected nothing after the last bracket at byte "),
            "{after:?}: {text}"
        );
    }
    for end in 0..valid.len() {
        assert!(Event::parse(&valid.as_bytes()[..end]).is_err());
    }
}

#[test]
fn relay_02_every_field_is_there() {
    assert_eq!(refusal("{}"), "id is missing");
    for field in ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"] {
        assert_eq!(
            refusal(valid().replace(&format!("\"{field}\":"), "\"other\":")),
            format!("{field} is missing")
        );
    }
}

#[test]
fn relay_02_the_id_is_the_hash_and_the_signature_is_checked() {
    let event = Event::parse(valid().as_bytes()).unwrap();
    let other = "0".repeat(64);
    assert_eq!(
        refusal(with("id", &format!("\"{other}\""))),
        format!("id must be the hash of the event, {}", event.id())
    );
    let forged = Event::parse(with("sig", &format!("\"{}\"", "0".repeat(128))).as_bytes()).unwrap();
    assert_eq!(
        forged.verify().unwrap_err().to_string(),
        "sig must be a signature of the id by the pubkey"
    );
    let lost = testing::unsigned(PublicKey([0xff; 32]), 1, 1, &[] as &[Vec<&str>], "");
    assert_eq!(
        lost.verify().unwrap_err().to_string(),
        "pubkey must be a point of the curve"
    );
    // The right signature of another event.
    let another = Keys::from_seed(1).sign(1, 1, &[] as &[Vec<&str>], "");
    let sig = format!("\"{}\"", hex::encode(&another.sig()));
    assert_eq!(
        Event::parse(with("sig", &sig).as_bytes()).unwrap().verify(),
        Err(EventError::Signature)
    );
}

#[test]
fn relay_02_the_id_of_a_refused_event_is_found() {
    let id = EventId([0xab; 32]);
    for json in [
        format!("{{\"id\":\"{id}\"}}"),
        format!(" {{ \"id\" : \"{id}\" , \"kind\" : 1.0 }} trailing"),
        format!(
            "{{\"tags\":[[\"id\"]],\"content\":\"raw \n \\\" \u{7}\",\"x\":{{\"id\":\"{}\"}},\"id\":\"{id}\"",
            "0".repeat(64)
        ),
        format!("{{\"kind\":01,\"id\":\"short\",\"id\":\"{id}\",\"content\":\"cut"),
        format!(
            "{{\"content\":\"\\\"id\\\":\\\"{}\\\"\",\"id\":\"{id}\"}}",
            "0".repeat(64)
        ),
    ] {
        assert_eq!(peek_id(json.as_bytes()), Some(id), "{json}");
    }
    let mut latin1 = format!("{{\"content\":\"?\",\"id\":\"{id}\"}}").into_bytes();
    latin1[12] = 0xe9;
    assert_eq!(peek_id(&latin1), Some(id));
    for json in [
        String::new(),
        "{".into(),
        "{\"id".into(),
        "{\"id\":".into(),
        "{\"id\":\"".into(),
        "\"\\".into(),
        format!("{{\"id\":\"{id}"),
        format!("{{\"id\":\"{}\"}}", id.to_string().to_uppercase()),
        format!("[{{\"id\":\"{id}\"}}]"),
        format!("{{\"x\":{{\"id\":\"{id}\"}}}}"),
        format!("{{\"id\":[\"{id}\"]}}"),
    ] {
        assert_eq!(peek_id(json.as_bytes()), None, "{json}");
    }
}

#[test]
fn store_w10_every_layout_gives_the_same_canonical_bytes() {
    let tags = [vec!["t", "a/\u{e9}\n", ""], vec![], vec!["\u{0}\u{7f}\u{2028}"]];
    let event = Keys::from_seed(3).sign(7, -5, &tags, "\u{8}\u{c}\r\t\"\\/\u{1}\u{1f}\u{7f}\u{1f600}");
    let (id, pubkey, sig) = (event.id(), event.pubkey(), hex::encode(&event.sig()));
    let digits = id.to_string();
    let escaped_id = digits
        .bytes()
        .map(|digit| format!("\\u{digit:04X}"))
        .collect::<Vec<_>>()
        .concat();
    let other = format!(
        "\n{{ \"sig\" : \"{sig}\" ,\"content\":\"\\u0008\\f\\u000D\\t\\u0022\\u005c\\/\\u0001\\u001F\\u007F\\uD83D\\ude00\",\r\n\
        \"t\\u0061gs\":[ [\"\\u0074\",\"a\\/\\u00E9\\u000a\",\"\"] , [ ],[\"\\u0000\\u007f\\u2028\"]],\"extra\":[{{}}],\t\
        \"kind\":7,\"created_at\":-5,\"pubkey\":\"{pubkey}\",\"id\":\"{escaped_id}\"}} "
    );
    let parsed = Event::parse(other.as_bytes()).unwrap();
    assert_eq!(parsed.json(), event.json());
    assert_eq!(parsed.verify(), Ok(()));
    let canonical = String::from_utf8(event.json().to_vec()).unwrap();
    assert!(
        canonical.contains(",\"tags\":[[\"t\",\"a/\u{e9}\\n\",\"\"],[],[\"\\u0000\u{7f}\u{2028}\"]],"),
        "{canonical}"
    );
    assert!(
        canonical.contains("\"content\":\"\\b\\f\\r\\t\\\"\\\\/\\u0001\\u001f\u{7f}\u{1f600}\""),
        "{canonical}"
    );
    let texts: Vec<Vec<&str>> = parsed.tags().map(|tag| tag.elements().collect()).collect();
    assert_eq!(texts, tags);
}

#[test]
fn store_w10_stored_bytes_are_taken_back_as_they_are() {
    let event = Keys::from_seed(3).sign(7, -5, &[vec!["t", "a\n"], vec![]], "\"x\"");
    let back = Event::from_canonical(event.json().clone()).unwrap();
    assert_eq!(back, event);
    assert_eq!(
        (back.id(), back.pubkey(), back.kind(), back.created_at()),
        (event.id(), event.pubkey(), 7, -5)
    );
    assert_eq!((back.content(), back.sig()), (event.content(), event.sig()));
    assert_eq!(back.json().as_ptr(), event.json().as_ptr());
    let json = String::from_utf8(event.json().to_vec()).unwrap();
    for bad in [
        format!(" {json}"),
        format!("{json} "),
        json.replace(",\"kind\"", ", \"kind\""),
        json.replace(":7", ":70000"),
    ] {
        assert_eq!(Event::from_canonical(bad.into()), Err(EventError::NotCanonical));
    }
    for end in 0..json.len() {
        assert!(Event::from_canonical(event.json().slice(..end)).is_err());
    }
}

#[test]
fn store_f04_a_tag_is_indexed_by_one_character_and_its_first_value() {
    let tags = [
        vec!["t", "a", "b"],
        vec!["tt", "c"],
        vec!["t"],
        vec![],
        vec!["\u{1f600}", ""],
        vec!["", "d"],
    ];
    let event = Keys::from_seed(1).sign(1, 0, &tags, "");
    let indexed: Vec<_> = event.tags().filter_map(|tag| tag.indexed()).collect();
    assert_eq!(indexed, [('t', "a"), ('\u{1f600}', "")]);
    assert_eq!(event.tags().next().unwrap().get(3), None);
    assert_eq!(event.tags().next().unwrap().get(usize::MAX), None);
    assert_eq!(event.tags().len(), 6);
}

#[test]
fn store_f05_an_addressable_event_shows_one_identifier() {
    let d_values = |kind, tags: &[Vec<&str>]| {
        let mut values = Vec::new();
        Keys::from_seed(1)
            .sign(kind, 0, tags, "")
            .any_tag(&mut |name, value| {
                if name == 'd' {
                    values.push(value.to_owned());
                }
                false
            });
        values
    };
    let two = [vec!["d"], vec!["d", "one"], vec!["d", "two"]];
    assert_eq!(d_values(30_000, &two), ["one"]);
    assert_eq!(d_values(39_999, &[vec!["e", "x"]]), [""]);
    assert_eq!(d_values(1, &two), ["one", "two"]);
    assert_eq!(d_values(1, &[vec!["e", "x"]]), [""; 0]);
}

#[test]
fn store_w05_the_first_integer_expiration_counts() {
    let expiration = |values: &[&str]| {
        let tags: Vec<Vec<&str>> = values.iter().map(|value| vec!["expiration", value]).collect();
        Keys::from_seed(1).sign(1, 0, &tags, "").expiration()
    };
    assert_eq!(expiration(&[]), None);
    assert_eq!(expiration(&["1700000000", "5"]), Some(1_700_000_000));
    assert_eq!(
        expiration(&["soon", "", "1.5", "1e3", "+4", " 4", "-", "7"]),
        Some(7)
    );
    assert_eq!(expiration(&["-1"]), Some(-1));
    assert_eq!(expiration(&["99999999999999999999"]), Some(i64::MAX));
    assert_eq!(expiration(&["9223372036854775807"]), Some(i64::MAX));
}

#[test]
fn store_w06_a_gift_wrap_belongs_to_its_recipient() {
    let keys = Keys::from_seed(1);
    let (one, two) = (Keys::from_seed(2).public(), Keys::from_seed(3).public());
    let (one_hex, two_hex) = (one.to_string(), two.to_string());
    let tags = [
        vec!["p"],
        vec!["p", "x"],
        vec!["p", &one_hex],
        vec!["p", &two_hex],
    ];
    assert_eq!(keys.sign(1059, 0, &tags, "").owner(), one);
    assert_eq!(keys.sign(1, 0, &tags, "").owner(), keys.public());
    assert_eq!(
        keys.sign(1059, 0, &[vec!["e", &one_hex]], "").owner(),
        keys.public()
    );
}
