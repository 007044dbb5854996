//! Events in and out by file and pipe: what comes back, what is reported, what Ctrl-C leaves.

use std::{
    collections::BTreeSet,
    io::{BufReader, Read as _, Write as _},
    process::Stdio,
};

use esker_nostr::{Event, EventFields as _, Keys};
use rustix::process::Signal;

use crate::support::{Folder, lines, note, signal, wait_for_line};

/// Events of many kinds and contents, newest first as they are exported.
fn events() -> Vec<Event> {
    let keys: Vec<Keys> = (1..20).map(Keys::from_seed).collect();
    let mut events: Vec<Event> = (0..600_i64)
        .map(|index| {
            let author = &keys[usize::try_from(index % 19).unwrap()];
            let kind = [1, 1, 7, 30_023, 1059, 4][usize::try_from(index % 6).unwrap()];
            let content = format!(
                "{index} \"quoted\" \\ \n\t\u{0} \u{1F99C} {}",
                "x".repeat(usize::try_from(index).unwrap() * 3)
            );
            author.sign(
                kind,
                1_700_000_000 + index / 2,
                &[vec!["d", &index.to_string()], vec![], vec!["t", "é"]],
                &content,
            )
        })
        .collect();
    events.sort_by(|one, other| {
        other
            .created_at()
            .cmp(&one.created_at())
            .then_with(|| one.id().cmp(&other.id()))
    });
    events
}

#[test]
fn store_k02_what_is_imported_is_exported_byte_for_byte_plain_gzip_and_zstd() {
    let folder = Folder::new();
    let expected = lines(&events());
    folder.write("in.jsonl", &expected);
    assert!(folder.ok(&["import", "in.jsonl"]).contains("stored"));
    for name in ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"] {
        folder.ok(&["export", name]);
        // Each in a store of its own, so that the compressed ones are read, too.
        let store = format!("sqlite:{name}.db");
        let report = folder.json(&["import", name, "--store", &store]);
        assert_eq!(
            (&report["read"], &report["stored"]),
            (&600.into(), &600.into()),
            "{report}"
        );
        assert!(
            folder.ok(&["export", "--store", &store]).as_bytes() == expected,
            "{name}"
        );
    }
    assert!(folder.read("out.jsonl") == expected);
    assert_eq!(folder.read("out.jsonl.gz")[..2], [0x1F, 0x8B]);
    assert_eq!(folder.read("out.jsonl.zst")[..4], [0x28, 0xB5, 0x2F, 0xFD]);
    let piped = folder.pipe(&["import", "--store", "piped.db", "-"], &expected);
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert!(folder.ok(&["export", "--store", "piped.db"]).as_bytes() == expected);
}

#[test]
fn lines_in_any_json_layout_come_back_canonical() {
    let folder = Folder::new();
    let event = note(1, 1_700_000_000, "layout");
    let fields: serde_json::Value = serde_json::from_slice(event.json()).unwrap();
    // Sorted fields, white space, a field of strfry's, a byte order of line ends of another system.
    let mut other = fields.clone();
    other["fried"] = "00".into();
    let line = other.to_string().replace("\":", "\" : ");
    folder.write("in.jsonl", format!("\n{line}\r\n\r\n"));
    assert_eq!(folder.json(&["import", "in.jsonl"])["stored"], 1);
    assert_eq!(folder.ok(&["export"]).as_bytes(), lines([&event]));
}

#[test]
fn store_k02_the_report_counts_every_outcome_and_tells_each_refused_line() {
    let folder = Folder::new();
    let keys = Keys::from_seed(1);
    let none: &[Vec<&str>] = &[];
    let old_profile = keys.sign(0, 1_700_000_000, none, "old");
    let new_profile = keys.sign(0, 1_700_000_001, none, "new");
    let first = note(1, 1_700_000_000, "first");
    let deleted = note(1, 1_700_000_000, "deleted");
    let deletion = keys.sign(5, 1_700_000_002, &[vec!["e", &deleted.id().to_string()]], "");
    let ephemeral = keys.sign(20_001, 1_700_000_000, none, "");
    let expired = keys.sign(1, 1_600_000_000, &[vec!["expiration", "1600000001"]], "");
    let forged = String::from_utf8(lines([&note(2, 1, "x")])).unwrap();
    let sig = forged.find("\"sig\":\"").unwrap() + 7;
    let forged = format!("{}{}{}", &forged[..sig], "0".repeat(128), &forged[sig + 128..]);
    let mut text = lines([
        &new_profile,
        &old_profile,
        &first,
        &first,
        &deletion,
        &deleted,
        &ephemeral,
        &expired,
    ]);
    text.extend(b"{\"id\":\"nonsense\"}\n\nnot json\n");
    text.extend(forged.as_bytes());
    folder.write("in.jsonl", &text);

    let done = folder.run(&["import", "--json", "--rejects", "rejects.jsonl", "in.jsonl"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    for (name, count) in [
        ("read", 11),
        ("stored", 3),
        ("replaced", 1),
        ("duplicates", 1),
        ("ephemeral", 1),
        ("invalid", 3),
        ("failed", 0),
    ] {
        assert_eq!(report[name], count, "{name} in {report}");
    }
    let rejected: BTreeSet<(String, u64)> = report["rejected"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(reason, count)| {
            (
                reason.split(':').next().unwrap().to_owned(),
                count.as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rejected,
        BTreeSet::from([("blocked".to_owned(), 1), ("invalid".to_owned(), 1)])
    );
    for line in [
        "in.jsonl:6: blocked:",
        "in.jsonl:8: invalid:",
        "in.jsonl:9: ",
        "in.jsonl:11: ",
        "in.jsonl:12: ",
    ] {
        assert!(done.stderr.contains(line), "{line} in {}", done.stderr);
    }
    let rejects = String::from_utf8(folder.read("rejects.jsonl")).unwrap();
    let told: BTreeSet<u64> = rejects
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["line"]
                .as_u64()
                .unwrap()
        })
        .collect();
    assert_eq!(told, BTreeSet::from([6, 8, 9, 11, 12]));

    // A second time there is nothing new, and without the bad lines the code says so.
    folder.write("good.jsonl", lines([&new_profile, &first, &deletion]));
    assert_eq!(folder.json(&["import", "good.jsonl"])["duplicates"], 3);
    // Trusted lines are not verified, their ids are.
    let trusted = folder.pipe(
        &["import", "--json", "--no-verify", "-"],
        format!("{forged}not json\n").as_bytes(),
    );
    let report: serde_json::Value = serde_json::from_str(&trusted.stdout).unwrap();
    assert_eq!(
        (&report["stored"], &report["invalid"], trusted.code),
        (&1.into(), &1.into(), Some(3))
    );
}

#[test]
fn many_bad_lines_are_counted_and_only_the_first_are_shown() {
    let folder = Folder::new();
    let mut text = b"bad\n".repeat(5_000);
    text.extend(lines([&note(1, 1_700_000_000, "good")]));
    // A line that no memory should hold.
    text.extend(vec![b'x'; 9 << 20]);
    folder.write("in.jsonl", text);
    let done = folder.run(&["import", "--json", "in.jsonl"]);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&report["invalid"], &report["stored"]),
        (&5_001.into(), &1.into())
    );
    assert_eq!(done.stderr.lines().count(), 11, "{}", done.stderr);
}

#[test]
fn an_input_that_ends_too_early_keeps_what_was_read_and_fails() {
    let folder = Folder::new();
    let events = events();
    folder.write("in.jsonl", lines(&events));
    folder.ok(&["import", "in.jsonl"]);
    folder.ok(&["export", "whole.jsonl.gz"]);
    let whole = folder.read("whole.jsonl.gz");
    folder.write("cut.jsonl.gz", &whole[..whole.len() / 2]);
    let done = folder.run(&[
        "import",
        "--store",
        "cut.db",
        "--json",
        "cut.jsonl.gz",
        "in.jsonl",
    ]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr.contains("cannot read cut.jsonl.gz after line"),
        "{}",
        done.stderr
    );
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(report["stored"].as_u64() > Some(0), "{report}");
    assert_eq!(
        folder.json(&["count", "--store", "cut.db"])["count"],
        report["stored"]
    );
    assert_eq!(folder.run(&["import", "missing.jsonl"]).code, Some(1));
}

#[test]
fn query_count_delete_and_stats_act_on_filters() {
    let folder = Folder::new();
    let events: Vec<Event> = (0..10)
        .map(|index| note(index % 2, 1_700_000_000 + i64::try_from(index).unwrap(), "n"))
        .collect();
    folder.write("in.jsonl", lines(&events));
    folder.ok(&["import", "in.jsonl"]);
    let author = Keys::from_seed(0).public();
    let newest_two = folder.ok(&["query", &format!("{{\"authors\":[\"{author}\"],\"limit\":2}}")]);
    assert_eq!(newest_two.as_bytes(), lines([&events[8], &events[6]]));
    let of_author = format!("{{\"authors\":[\"{author}\"]}}");
    assert_eq!(folder.ok(&["count", &of_author]).trim(), "5");
    assert_eq!(
        folder.ok(&["count", &of_author, "{\"#t\":[\"esker\"]}"]).trim(),
        "10"
    );
    assert_eq!(
        folder.json(&["delete", "--dry-run", &of_author])["would_delete"],
        5
    );
    assert_eq!(folder.json(&["count"])["count"], 10);
    assert_eq!(folder.json(&["delete", &of_author])["deleted"], 5);
    // A mistyped condition must not widen what is deleted.
    let mistyped = folder.run(&["delete", "{\"kindss\":[1],\"until\":99999999999}"]);
    assert_eq!(mistyped.code, Some(2), "{mistyped:?}");
    assert_eq!(folder.json(&["count"])["count"], 5);
    let id = events[9].id().to_string();
    assert_eq!(folder.json(&["delete", "--id", &id])["deleted"], 1);
    let stats = folder.json(&["stats"]);
    assert_eq!(
        (&stats["events"], &stats["newest"]),
        (&4.into(), &1_700_000_007.into())
    );
    assert_eq!(stats["kinds"][0]["kind"], 1);
    assert!(folder.ok(&["stats"]).starts_with("events    4\n"));
    // Nothing is blocked.
    assert_eq!(folder.json(&["import", "in.jsonl"])["stored"], 6);
}

#[test]
fn ctrl_c_in_an_import_keeps_and_reports_what_was_committed() {
    let folder = Folder::new();
    let mut import = folder
        .esker(["import", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = import.stdin.take().unwrap();
    stdin.write_all(&lines(&events())).unwrap();
    // Everything that is in the pipe is committed though the pipe stays open.
    while folder.run(&["count"]).stdout.trim() != "600" {}
    signal(&import, Signal::INT);
    let status = import.wait().unwrap();
    drop(stdin);
    let mut stdout = String::new();
    import.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(
        (&report["stored"], &report["interrupted"]),
        (&600.into(), &true.into())
    );
    assert_eq!(folder.ok(&["count"]).trim(), "600");
}

#[test]
fn ctrl_c_ends_an_import_whose_input_does_not_end() {
    let folder = Folder::new();
    let mut import = folder
        .esker(["import", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let text = lines(&events());
    // It gives up long after anybody would stop reading, so that a failure comes to its end.
    let rounds = 400;
    let writer = std::thread::spawn(move || (0..rounds).all(|_| stdin.write_all(&text).is_ok()));
    while folder.run(&["count"]).stdout.trim() != "600" {}
    signal(&import, Signal::INT);
    let mut stdout = String::new();
    import.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(import.wait().unwrap().code(), Some(130));
    assert!(!writer.join().unwrap(), "it read to the end");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["stored"], 600);
    assert_eq!(
        report["read"].as_u64(),
        report["duplicates"].as_u64().map(|duplicates| duplicates + 600)
    );
}

#[test]
fn ctrl_c_in_an_export_ends_at_a_whole_line() {
    let folder = Folder::new();
    let text = "x".repeat(20_000);
    let events: Vec<Event> = (0..1_500)
        .map(|index| note(1, 1_700_000_000 + index, &text))
        .collect();
    folder.write("in.jsonl", lines(&events));
    folder.ok(&["import", "--no-verify", "in.jsonl"]);
    let mut export = folder
        .esker(["export"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun, and without a reader it stands in the first of several pages.
    let mut stdout = export.stdout.take().unwrap();
    let mut out = vec![0; 100];
    stdout.read_exact(&mut out).unwrap();
    signal(&export, Signal::INT);
    wait_for_line(&mut BufReader::new(export.stderr.as_mut().unwrap()), "stopping");
    stdout.read_to_end(&mut out).unwrap();
    assert_eq!(export.wait().unwrap().code(), Some(130));
    assert_eq!(out.last(), Some(&b'\n'));
    assert!(out.split(|byte| *byte == b'\n').count() < 1_500);
    for line in out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        Event::parse(line).unwrap();
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let folder = Folder::new();
    folder.write("in.jsonl", lines(&events()));
    folder.ok(&["import", "in.jsonl"]);
    for args in [&["export"][..], &["query", "{}"]] {
        let mut child = folder
            .esker(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    }
}
