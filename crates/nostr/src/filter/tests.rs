//! What a filter means (STORE-F01 to F05, F11 to F13), and which JSON is one.

use super::*;
use crate::{Canonical, Event, Keys};

fn filter(json: &str) -> Filter {
    Filter::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn refusal(json: &str) -> String {
    Filter::parse(json.as_bytes()).unwrap_err().to_string()
}

fn event(kind: u16, created_at: i64, tags: &[Vec<&str>]) -> Event {
    Keys::from_seed(1).sign(kind, created_at, tags, "")
}

/// Both forms of an event give one answer.
fn matches(json: &str, event: &Event) -> bool {
    let filter = filter(json);
    let answer = filter.matches(event);
    assert_eq!(filter.matches(&Canonical::new(event.json())), answer);
    assert!(!(answer && filter.matches_nothing()), "{json}");
    answer
}

#[test]
fn store_f01_since_and_until_are_inclusive() {
    let event = event(1, 10, &[]);
    for (json, answer) in [
        ("{\"since\":10}", true),
        ("{\"since\":11}", false),
        ("{\"until\":10}", true),
        ("{\"until\":9}", false),
        ("{\"since\":10,\"until\":10}", true),
        ("{\"since\":-5}", true),
        ("{\"until\":99999999999999999999}", true),
        ("{\"since\":99999999999999999999}", false),
        ("{\"since\":-99999999999999999999}", true),
    ] {
        assert_eq!(matches(json, &event), answer, "{json}");
    }
    assert!(filter("{\"since\":11,\"until\":10}").matches_nothing());
}

#[test]
fn store_f02_ids_and_authors_are_whole_lowercase_hex() {
    let event = event(1, 0, &[]);
    let (id, author) = (event.id().to_string(), event.pubkey().to_string());
    for (field, hex) in [("ids", id), ("authors", author)] {
        assert!(matches(&format!("{{\"{field}\":[\"{hex}\"]}}"), &event));
        assert!(matches(
            &format!("{{\"{field}\":[\"x\",\"{hex}\",\"\",\"{hex}\"]}}"),
            &event
        ));
        for bad in [
            &hex[..63],
            &hex[..8],
            &hex.to_uppercase(),
            "",
            "zz",
            &format!("{hex}0"),
        ] {
            let json = format!("{{\"{field}\":[\"{bad}\"]}}");
            assert!(!matches(&json, &event), "{json}");
            assert!(filter(&json).matches_nothing());
        }
    }
}

#[test]
fn store_f02_kinds_that_no_event_has_are_dropped() {
    let event = event(1, 0, &[]);
    assert!(matches("{\"kinds\":[65536,-1,99999999999999999999,1]}", &event));
    assert!(filter("{\"kinds\":[65536,-1]}").matches_nothing());
}

#[test]
fn store_f03_values_are_alternatives_and_names_must_all_match() {
    let event = event(1, 0, &[vec!["t", "a"], vec!["t", "b"], vec!["x", "c"]]);
    for (json, answer) in [
        ("{\"#t\":[\"a\"]}", true),
        ("{\"#t\":[\"z\",\"b\"]}", true),
        ("{\"#t\":[\"c\"]}", false),
        ("{\"#t\":[\"a\"],\"#x\":[\"c\"]}", true),
        ("{\"#t\":[\"a\"],\"#x\":[\"a\"]}", false),
        ("{\"&t\":[\"a\",\"b\"]}", true),
        ("{\"&t\":[\"a\",\"b\",\"z\"]}", false),
        ("{\"&t\":[\"a\",\"a\"]}", true),
        ("{\"&t\":[\"a\"],\"#t\":[\"z\"]}", false),
        ("{\"&t\":[\"a\"],\"#t\":[\"b\"]}", true),
        ("{\"&t\":[\"a\"],\"&x\":[\"c\"]}", true),
        ("{\"&t\":[\"a\"],\"&x\":[\"a\"]}", false),
    ] {
        assert_eq!(matches(json, &event), answer, "{json}");
    }
}

#[test]
fn store_f03_a_value_that_stands_twice_counts_once() {
    let event = event(1, 0, &[vec!["t", "a"], vec!["t", "a"], vec!["t", "a"]]);
    assert!(!matches("{\"&t\":[\"a\",\"b\"]}", &event));
    assert!(matches("{\"&t\":[\"a\"]}", &event));
}

#[test]
fn store_f04_names_are_one_character_and_longer_ones_match_nothing() {
    let event = event(
        1,
        0,
        &[
            vec!["t", "a", "b"],
            vec!["tt", "a"],
            vec!["\u{1f600}", "a"],
            vec!["t"],
            vec!["\"", "q"],
        ],
    );
    for (json, answer) in [
        ("{\"#t\":[\"b\"]}", false),
        ("{\"#tt\":[\"a\"]}", false),
        ("{\"&tt\":[\"a\"]}", false),
        ("{\"#\":[\"a\"]}", false),
        ("{\"#\u{1f600}\":[\"a\"]}", true),
        ("{\"#\\ud83d\\ude00\":[\"a\"]}", true),
        ("{\"#\\\"\":[\"q\"]}", true),
        ("{\"#T\":[\"a\"]}", false),
        ("{\"\\u0023t\":[\"a\"]}", true),
        ("{\"#t\":[\"\\u0061\"]}", true),
    ] {
        assert_eq!(matches(json, &event), answer, "{json}");
    }
    assert!(filter("{\"#tt\":[\"a\"]}").unindexed_tag);
    assert!(filter("{\"#tt\":[\"a\"]}").matches_nothing());
}

#[test]
fn store_f05_d_is_the_identifier_of_an_addressable_event() {
    let two = [vec!["d", "one"], vec!["d", "two"]];
    for (json, kind, tags, answer) in [
        ("{\"#d\":[\"one\"]}", 30_000, &two[..], true),
        ("{\"#d\":[\"two\"]}", 30_000, &two[..], false),
        ("{\"#d\":[\"\"]}", 30_000, &[], true),
        ("{\"#d\":[\"\"]}", 30_000, &two[..], false),
        ("{\"&d\":[\"one\",\"two\"]}", 30_000, &two[..], false),
        ("{\"&d\":[\"one\"]}", 30_000, &two[..], true),
        ("{\"#d\":[\"two\"]}", 1, &two[..], true),
        ("{\"&d\":[\"one\",\"two\"]}", 1, &two[..], true),
        ("{\"#d\":[\"\"]}", 1, &[], false),
        ("{\"#d\":[\"a\"]}", 30_000, &[vec!["d", "a-b"]], false),
    ] {
        assert_eq!(
            matches(json, &event(kind, 0, tags)),
            answer,
            "{json} {kind} {tags:?}"
        );
    }
}

#[test]
fn store_f11_an_empty_list_matches_nothing() {
    let event = event(1, 0, &[vec!["t", "a"]]);
    for field in ["ids", "authors", "kinds", "#t", "&t", "#tt"] {
        let json = format!("{{\"{field}\":[]}}");
        assert!(!matches(&json, &event), "{json}");
        assert!(filter(&json).matches_nothing(), "{json}");
    }
    assert!(matches("{}", &event));
    assert!(!filter("{}").matches_nothing());
}

#[test]
fn store_f12_a_limit_is_an_integer_from_zero_on() {
    for (json, limit) in [
        ("{}", None),
        ("{\"limit\":0}", Some(0)),
        ("{\"limit\":18446744073709551615}", Some(u64::MAX)),
        ("{\"limit\":99999999999999999999999}", Some(u64::MAX)),
    ] {
        assert_eq!(filter(json).limit, limit, "{json}");
        assert!(matches(json, &event(1, 0, &[])));
    }
    for bad in [
        "-1", "1.5", "1.0", "1e3", "-0", "\"1\"", "null", "[1]", "true", "01",
    ] {
        assert_eq!(
            refusal(&format!("{{\"limit\":{bad}}}")),
            "limit must be an integer, 0 or more",
            "{bad}"
        );
    }
}

#[test]
fn store_f13_search_and_limit_are_no_part_of_matching() {
    assert!(matches(
        "{\"search\":\"x\\u0041\",\"limit\":0}",
        &event(1, 0, &[])
    ));
    assert_eq!(filter("{\"search\":\"x\\u0041\"}").search.as_deref(), Some("xA"));
}

#[test]
fn store_f13_thousands_of_values_cost_a_search_each() {
    let hex = |n: u32| format!("{n:064x}");
    let list: Vec<String> = (0..5_000).map(|n| format!("\"{}\"", hex(n * 2))).collect();
    let json = format!("{{\"#p\":[{}]}}", list.join(","));
    assert!(matches(&json, &event(1, 0, &[vec!["p", &hex(9_998)]])));
    assert!(!matches(&json, &event(1, 0, &[vec!["p", &hex(9_999)]])));
}

#[test]
fn a_field_of_the_wrong_type_refuses_the_whole_filter() {
    for (json, text) in [
        ("{\"ids\":\"x\"}", "ids must be a list of strings"),
        ("{\"ids\":[1]}", "ids must be a list of strings"),
        ("{\"ids\":null}", "ids must be a list of strings"),
        ("{\"authors\":[null]}", "authors must be a list of strings"),
        ("{\"kinds\":1}", "kinds must be a list of integers"),
        ("{\"kinds\":[1.0]}", "kinds must be a list of integers"),
        ("{\"kinds\":[\"1\"]}", "kinds must be a list of integers"),
        ("{\"kinds\":[1e3]}", "kinds must be a list of integers"),
        ("{\"since\":\"1\"}", "since must be an integer"),
        ("{\"until\":1.5}", "until must be an integer"),
        ("{\"until\":null}", "until must be an integer"),
        ("{\"search\":1}", "search must be a string"),
        ("{\"#e\":\"x\"}", "#e must be a list of strings"),
        ("{\"&t\":[[]]}", "&t must be a list of strings"),
        ("{\"#foo\":1}", "#foo must be a list of strings"),
        ("[]", "filter: expected an object at byte 0"),
        ("", "filter: expected an object at byte 0"),
        ("{}x", "filter: expected nothing after the last bracket at byte 2"),
        (
            "{\"kinds\":[1,]}",
            "kinds: expected another member after the comma at byte 12",
        ),
        (
            "{\"#t\":[\"\n\"]}",
            "#t: expected no control character inside a string (escape it) at byte 8",
        ),
    ] {
        assert_eq!(refusal(json), text, "{json}");
    }
    assert!(
        Filter::parse(b"{\"#t\":[\"\xff\"]}")
            .unwrap_err()
            .to_string()
            .contains("valid UTF-8")
    );
}

#[test]
fn store_f12_an_unknown_field_refuses_the_filter() {
    for (json, name) in [
        ("{\"kindss\":[1],\"until\":1}", "kindss"),
        ("{\"until\":1,\"Kinds\":[1]}", "Kinds"),
        ("{\"x\":{\"y\":null}}", "x"),
        ("{\"t\":[\"a\"]}", "t"),
        ("{\"\":0}", ""),
        ("{\"k\\u0069nd\":1}", "kind"),
    ] {
        assert_eq!(refusal(json), format!("unknown field \"{name}\""), "{json}");
    }
    let long = format!("{{\"{}\":1}}", "\u{e9}".repeat(1000));
    assert_eq!(
        refusal(&long),
        format!("unknown field \"{}\"", "\u{e9}".repeat(32))
    );
    for field in Filter::FIELDS {
        let json = format!("{{\"{field}\":{{}}}}");
        assert!(refusal(&json).starts_with(&format!("{field} must be")), "{json}");
    }
}

#[test]
fn keys_stand_once() {
    for (json, key) in [
        ("{\"ids\":[],\"ids\":[]}", "ids"),
        ("{\"#t\":[\"a\"],\"#t\":[\"b\"]}", "#t"),
        ("{\"#t\":[],\"\\u0023t\":[]}", "#t"),
        ("{\"limit\":1,\"l\\u0069mit\":1}", "limit"),
        ("{\"#tt\":[],\"#tt\":[]}", "#tt"),
    ] {
        assert_eq!(refusal(json), format!("{key} stands twice"), "{json}");
    }
    assert_eq!(filter("{\"#t\":[\"a\"],\"&t\":[\"b\"]}").tags.len(), 1);
}

#[test]
fn tags_that_hold_ids_and_keys_are_asked_for_whole_hex() {
    let hex = "ab".repeat(32);
    for name in ["e", "p"] {
        let event = event(1, 0, &[vec![name, "short"], vec![name, &hex]]);
        assert!(!matches(&format!("{{\"#{name}\":[\"short\"]}}"), &event));
        assert!(matches(&format!("{{\"#{name}\":[\"short\",\"{hex}\"]}}"), &event));
        assert!(matches(&format!("{{\"&{name}\":[\"{hex}\"]}}"), &event));
        assert!(!matches(
            &format!("{{\"&{name}\":[\"short\",\"{hex}\"]}}"),
            &event
        ));
    }
}

#[test]
fn the_number_of_tag_names_is_bounded() {
    let named = |count: u32| {
        let members = (0..count).map(|n| format!("\"#{}\":[\"a\"]", char::from_u32(0x4e00 + n).unwrap()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    assert_eq!(filter(&named(64)).tags.len(), 64);
    assert_eq!(refusal(&named(65)), "filter must name at most 64 tags");
    assert_eq!(refusal(&named(500)), "filter must name at most 64 tags");
}

#[test]
fn a_filter_is_shown_as_the_json_that_gives_it_back() {
    let hex = "ab".repeat(32);
    for json in [
        "{}".into(),
        "{\"ids\":[]}".into(),
        "{\"#unindexed\":[]}".into(),
        format!(
            "{{\"ids\":[\"{hex}\"],\"authors\":[\"{hex}\"],\"kinds\":[0,65535],\"#t\":[\"\",\"a\\n\\\"\"],\"#\\\"\":[],\
            \"&t\":[\"b\"],\"since\":-1,\"until\":9223372036854775807,\"limit\":0,\"search\":\"a\\u0000\u{1f600}\"}}"
        ),
    ] {
        assert_eq!(filter(&json).to_string(), json);
    }
    assert_eq!(
        filter("{\"kinds\":[3,1,3,2,1]}").to_string(),
        "{\"kinds\":[1,2,3]}"
    );
    assert_eq!(
        filter("{\"#long\":[\"x\"]}"),
        filter(&filter("{\"#long\":[\"x\"]}").to_string())
    );
}
