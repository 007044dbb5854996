//! Configuration at the command line: where values come from, and what stops the start.

use crate::support::Folder;

#[test]
fn an_unknown_key_stops_the_start_with_its_line_and_the_nearest_name() {
    let folder = Folder::new();
    folder.write(
        "esker.toml",
        "store = 'esker.db'\n\n[limits]\nsubscription = 10\n",
    );
    let done = folder.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert_eq!(
        done.stderr.trim_end(),
        "error: esker.toml:4: unknown key `limits.subscription`; did you mean `limits.subscriptions`?"
    );
    assert!(!folder.path("esker.db").exists());
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let folder = Folder::new();
    folder.write(
        "other.toml",
        "listen = '127.0.0.1:1'\n[relay]\nname = 'File'\ncontact = 'mailto:a@example.com'\n",
    );
    let output = folder
        .esker([
            "config",
            "--json",
            "--config",
            "other.toml",
            "--set",
            "relay.name=Flag",
        ])
        .envs([("ESKER_LISTEN", "127.0.0.1:2"), ("ESKER_RELAY_NAME", "Variable")])
        .output()
        .unwrap();
    let config: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |key: &str| {
        (
            config[key]["value"].as_str().unwrap(),
            config[key]["origin"].as_str().unwrap(),
        )
    };
    assert_eq!(of("store"), ("sqlite:esker.db", "default"));
    assert_eq!(of("listen"), ("127.0.0.1:2", "ESKER_LISTEN"));
    assert_eq!(of("relay.name"), ("Flag", "--set relay.name"));
    assert_eq!(of("relay.contact"), ("mailto:a@example.com", "other.toml:4"));
}

#[test]
fn a_file_that_is_named_must_be_there_and_a_bad_value_names_its_source() {
    let folder = Folder::new();
    for (args, message) in [
        (&["stats", "--config", "none.toml"][..], "none.toml"),
        (
            &["stats", "--store", "postgres://localhost/x"],
            "events are kept in a SQLite file",
        ),
        (
            &["serve", "--listen", "nowhere"],
            "--listen: `listen` cannot be `nowhere`",
        ),
        (&["config", "--set", "log.level=,,="], "log.level"),
        (
            &["config", "--set", "log.level=loud"],
            "--set log.level: `log.level` cannot be `loud`",
        ),
        (
            &["import", "--store", "mysql:foo", "none.jsonl"],
            "`mysql:` is no store; there are `sqlite:path.db`, `postgres://user@host/database` and `memory:` (`./mysql:foo` is",
        ),
        (&["query", "{\"kinds\":1}"], "{\"kinds\":1}"),
        (
            &["query", "{\"kindss\":[1]}"],
            "unknown field \"kindss\"; did you mean `kinds`?",
        ),
        (&["count", "{\"completely_unheard_of\":1}"], "unknown field"),
        (&["delete", "{}"], "deletes nothing"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let done = folder.run(args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(done.stderr.contains(message), "{args:?}: {done:?}");
    }
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking_at_it() {
    let folder = Folder::new();
    for args in [
        &["stats"][..],
        &["count"],
        &["query", "{}"],
        &["export"],
        &["delete", "{\"kinds\":[1]}"],
    ] {
        let done = folder.run(args);
        assert_eq!(done.code, Some(1), "{args:?}: {done:?}");
        assert!(done.stderr.contains("no store at esker.db"), "{done:?}");
    }
    assert!(!folder.path("esker.db").exists());
}

#[test]
fn every_command_has_help_with_examples_and_the_exit_codes_are_told() {
    let folder = Folder::new();
    assert!(folder.ok(&["--help"]).contains("Exit codes:"));
    for command in [
        "serve", "import", "export", "query", "count", "delete", "stats", "config", "bench",
    ] {
        assert!(folder.ok(&[command, "--help"]).contains("Examples:"), "{command}");
    }
}
