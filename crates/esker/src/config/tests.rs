//! What is refused, with which words, and which source wins.

use std::{ffi::OsString, path::Path};

use super::{Config, Origin, Problems, Setting, Value, file, keys};

fn defaults() -> Config {
    Config {
        file: None,
        settings: keys::KEYS
            .iter()
            .map(|key| Setting::from_default(key.default))
            .collect(),
    }
}

fn read(text: &str) -> (Config, Vec<String>) {
    let (mut config, mut problems) = (defaults(), Problems::default());
    file::read(text, Path::new("esker.toml"), &mut config, &mut problems);
    (config, problems.0)
}

fn problem(text: &str) -> String {
    let (_, mut problems) = read(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn the_table_has_the_relays_limits_and_what_it_tells_about_itself() {
    let config = defaults();
    assert_eq!(
        config.section::<esker_relay::Limits>("limits"),
        esker_relay::Limits::default()
    );
    let info = config.info();
    assert_eq!(info, esker_relay::Info::default());
    let names = |value: serde_json::Value, section: &str| -> Vec<String> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(|name| format!("{section}.{name}"))
            .collect()
    };
    let relay = names(serde_json::to_value(&info).unwrap(), "relay");
    let limits = names(
        serde_json::to_value(esker_relay::Limits::default()).unwrap(),
        "limits",
    );
    let missing: Vec<_> = relay
        .iter()
        .chain(&limits)
        .filter(|name| keys::find(name).is_none())
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "these are no keys");
}

#[test]
fn every_limit_takes_its_least_and_its_greatest() {
    for (key, bounds) in keys::KEYS.iter().filter_map(|key| match key.kind {
        keys::Kind::Integer(min, max) => Some((key, [min, max])),
        _ => None,
    }) {
        for bound in bounds {
            let mut config = defaults();
            config.set(
                key.name,
                Value::Integer(bound),
                Origin::Default,
                &mut Problems::default(),
            );
            let _: esker_relay::Limits = config.section("limits");
        }
    }
}

#[test]
fn defaults_pass_their_own_checks() {
    for (key, setting) in keys::KEYS.iter().zip(defaults().settings) {
        let mut problems = Problems::default();
        defaults().set(key.name, setting.value, Origin::Default, &mut problems);
        assert_eq!(problems.0, Vec::<String>::new(), "{}", key.name);
    }
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_one() {
    assert_eq!(
        problem("store = 'a.db'\n\n[relay]\nnmae = 'x'\n"),
        "esker.toml:4: unknown key `relay.nmae`; did you mean `relay.name`?"
    );
    assert_eq!(
        problem("lisen = ':1'"),
        "esker.toml:1: unknown key `lisen`; did you mean `listen`?"
    );
    assert_eq!(
        problem("[reley]\nname = 'x'"),
        "esker.toml:2: unknown key `reley.name`; did you mean `relay.name`?"
    );
    assert_eq!(
        problem("query_secs = 3"),
        "esker.toml:1: unknown key `query_secs`; did you mean `events.query_secs`?"
    );
    assert_eq!(
        problem("completely_unheard_of = 3"),
        "esker.toml:1: unknown key `completely_unheard_of`"
    );
}

#[test]
fn a_bad_value_names_its_line_and_what_is_taken() {
    assert_eq!(
        problem("[events]\nquery_secs = 0"),
        "esker.toml:2: `events.query_secs` takes a whole number from 1 to 3600, not 0"
    );
    assert_eq!(
        problem("[events]\nquery_secs = '5'"),
        "esker.toml:2: `events.query_secs` takes a whole number from 1 to 3600, not \"5\""
    );
    assert_eq!(
        problem("[log]\nformat = 'jsn'"),
        "esker.toml:2: `log.format` takes `text` or `json`, not `jsn`; did you mean `json`?"
    );
    assert_eq!(
        problem("listen = [1]"),
        "esker.toml:1: `listen` takes text, not an array"
    );
    assert_eq!(
        problem("listen = 7447"),
        "esker.toml:1: `listen` takes text, not 7447"
    );
    assert_eq!(
        problem("relay = 7447"),
        "esker.toml:1: unknown key `relay`: it is a section, `[relay]`"
    );
    assert!(problem("listen = 'nowhere'").starts_with("esker.toml:1: `listen` cannot be `nowhere`: "));
    assert!(problem("store = 'mysql://x'").contains("is no store"));
    assert!(problem("[events]\nquery_secs = 99999999999999999999").contains("too large"));
}

#[test]
fn a_file_that_is_no_toml_names_its_line() {
    assert!(problem("store = 'a'\nlisten == 'b'\n").starts_with("esker.toml:2: "));
    assert!(problem("store = 'a'\nstore = 'b'\n").starts_with("esker.toml:2: "));
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let (_, problems) = read("zebra = 1\nlisten = 3\n[relay]\napple = 2\n");
    let lines: Vec<_> = problems
        .iter()
        .map(|problem| problem.split(' ').next().unwrap())
        .collect();
    assert_eq!(lines, ["esker.toml:1:", "esker.toml:2:", "esker.toml:4:"]);
}

#[test]
fn dotted_keys_and_number_formats_are_taken() {
    let (config, problems) = read("relay.name = 'Home'\nevents = { query_secs = 0x1_0 }\n");
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(config.text("relay.name"), "Home");
    assert_eq!(config.integer("events.query_secs"), 16);
}

#[test]
fn variables_win_over_the_file_and_flags_over_both() {
    let (mut config, mut problems) =
        read("listen = '127.0.0.1:1'\nstore = 'file.db'\n[relay]\nname = 'File'");
    let variables = [
        ("ESKER_LISTEN", "127.0.0.1:2"),
        ("ESKER_RELAY_NAME", "Variable"),
        ("HOME", "/"),
    ];
    let mut all = Problems::default();
    config.read_variables(
        variables
            .map(|(name, value)| (name.to_owned(), OsString::from(value)))
            .into_iter(),
        &mut all,
    );
    config.set_text(
        "relay.name",
        "Flag",
        Origin::Flag("--set relay.name".into()),
        &mut all,
    );
    problems.append(&mut all.0);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(config.text("store"), "file.db");
    assert_eq!(config.text("listen"), "127.0.0.1:2");
    assert_eq!(config.text("relay.name"), "Flag");
    let toml = config.to_toml();
    for origin in [
        "# esker.toml:2",
        "# ESKER_LISTEN",
        "# --set relay.name",
        "# default",
    ] {
        assert!(toml.contains(origin), "{origin} in {toml}");
    }
    assert_eq!(
        config.to_json()["listen"],
        serde_json::json!({ "value": "127.0.0.1:2", "origin": "ESKER_LISTEN" })
    );
}

#[test]
fn a_bad_variable_or_flag_names_itself() {
    let mut problems = Problems::default();
    let mut config = defaults();
    let variables = [("ESKER_EVENTS_QUERY_SECS".to_owned(), OsString::from("soon"))];
    config.read_variables(variables.into_iter(), &mut problems);
    config.set_text(
        "log.levle",
        "warn",
        Origin::Flag("--set log.levle".into()),
        &mut problems,
    );
    assert_eq!(
        problems.0,
        [
            "ESKER_EVENTS_QUERY_SECS: `events.query_secs` takes a whole number from 1 to 3600, not `soon`",
            "--set log.levle: unknown key `log.levle`; did you mean `log.level`?",
        ]
    );
}

#[test]
fn the_printed_configuration_reads_as_a_file_again() {
    let (mut config, _) = read("[relay]\nname = 'A \"quoted\" # name'\ndescription = 'two\\nlines'\n");
    config.set(
        "events.query_secs",
        Value::Integer(9),
        Origin::Default,
        &mut Problems::default(),
    );
    let (again, problems) = read(&config.to_toml());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        again
            .settings
            .iter()
            .map(|setting| &setting.value)
            .collect::<Vec<_>>(),
        config
            .settings
            .iter()
            .map(|setting| &setting.value)
            .collect::<Vec<_>>()
    );
}

#[test]
fn the_reference_in_the_docs_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let docs = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        docs,
        super::reference(),
        "run: cargo run -- config --reference > docs/configuration.md"
    );
}
