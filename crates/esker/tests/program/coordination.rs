//! Queues, streams, locks and schedules from the command line, on the relay's own file.

use std::io::{BufRead as _, BufReader, Write as _};

use esker_testing::postgres::Database;

use crate::support::{Folder, Relay, Running, note, with_store};

#[test]
fn jobs_go_in_are_shown_and_are_cancelled() {
    let folder = Folder::new();
    let id = folder.ok(&[
        "queue",
        "enqueue",
        "mails",
        "{\"to\":\"ada\"}",
        "--priority",
        "-3",
        "--delay",
        "3600",
    ]);
    let id = id.trim();
    let job = folder.json(&["queue", "show", "mails", id]);
    assert_eq!(job["payload"], "{\"to\":\"ada\"}");
    assert_eq!(
        job["run_at"].as_i64().unwrap() - job["created_at"].as_i64().unwrap(),
        3600
    );
    assert_eq!(
        (&job["state"], &job["priority"]),
        (&"pending".into(), &(-3).into())
    );
    let shown = folder.ok(&["queue", "show", "mails", id]);
    assert!(shown.contains("payload       {\"to\":\"ada\"}"), "{shown}");

    let queues = folder.json(&["queue", "list"]);
    assert_eq!(
        (&queues[0]["name"], &queues[0]["scheduled"]),
        (&"mails".into(), &1.into())
    );
    assert!(
        folder
            .ok(&["queue", "list"])
            .lines()
            .any(|line| line.trim_start().starts_with("mails"))
    );

    assert_eq!(folder.ok(&["queue", "cancel", "mails", id]), "cancelled 1\n");
    let gone = folder.run(&["queue", "cancel", "mails", id]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), "cancelled 0\n"));
    assert!(
        gone.stderr.contains(&format!("no live job {id} in `mails`")),
        "{}",
        gone.stderr
    );
    assert_eq!(folder.run(&["queue", "show", "mails", id]).code, Some(1));
}

#[test]
fn each_line_of_standard_input_is_a_job() {
    let folder = Folder::new();
    let lines: Vec<String> = (0..2_500).map(|n| format!("{{\"n\":{n}}}")).collect();
    let done = folder.pipe(
        &["queue", "enqueue", "work", "--lines"],
        lines.join("\n").as_bytes(),
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let ids: Vec<i64> = done.stdout.lines().map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 2_500 && ids.is_sorted());
    let last = folder.json(&["queue", "show", "work", &ids[2_499].to_string()]);
    assert_eq!(last["payload"], "{\"n\":2499}");

    let whole = folder.pipe(&["queue", "enqueue", "work", "-"], b"two\nlines\xff");
    let bytes = folder.json(&["queue", "show", "work", whole.stdout.trim()]);
    assert_eq!(bytes["payload"]["hex"], "74776f0a6c696e6573ff");
}

#[test]
fn a_line_is_a_job_before_the_next_one_comes() {
    let folder = Folder::new();
    let mut running = Running::start(&folder, &["queue", "enqueue", "work", "--lines"]);
    let mut ids = BufReader::new(running.0.stdout.take().unwrap());
    let mut input = running.0.stdin.take().unwrap();
    let mut id = String::new();
    for n in 0..2 {
        writeln!(input, "{n}").unwrap();
        id.clear();
        ids.read_line(&mut id).unwrap();
        assert_eq!(
            folder.json(&["queue", "show", "work", id.trim()])["payload"],
            n.to_string()
        );
    }
    drop(input);
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn dead_jobs_are_listed_redriven_and_purged_an_outboxs_too() {
    let folder = Folder::new();
    let (one, two) = with_store(&folder, async |store| {
        let queue = store.queue("q", esker_coord::QueueOptions::default()).unwrap();
        let mut ids = Vec::new();
        for error in ["no such customer", "bad\u{1b}[2J"] {
            ids.push(queue.enqueue("x").await.unwrap());
            queue
                .claim_one("w")
                .await
                .unwrap()
                .unwrap()
                .fail(Some(error))
                .await
                .unwrap();
        }
        store.outbox("hooks").unwrap().enqueue("y").await.unwrap();
        (ids[0].to_string(), ids[1].to_string())
    });
    let dead = folder.json(&["queue", "dead", "q"]);
    assert_eq!(dead[0]["last_error"], "no such customer");
    assert_eq!(
        folder
            .json(&["queue", "dead", "q", "--after", &one])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let shown = folder.ok(&["queue", "dead", "q"]);
    assert!(
        shown.contains("1/3") && shown.contains("bad\\u{1b}[2J"),
        "{shown}"
    );

    assert_eq!(folder.json(&["queue", "redrive", "q", &one])["redriven"], 1);
    assert_eq!(folder.run(&["queue", "redrive", "q", &one]).code, Some(1));
    assert_eq!(folder.ok(&["queue", "redrive", "q", "--all"]), "redriven 1\n");
    assert_eq!(folder.json(&["queue", "show", "q", &two])["state"], "pending");
    assert_eq!(folder.ok(&["queue", "sweep", "q"]), "moved 0\n");
    assert_eq!(folder.ok(&["queue", "purge", "q"]), "deleted 0\n");
    // By the name that the list shows.
    let queues = folder.json(&["queue", "list"]);
    let outbox = queues
        .as_array()
        .unwrap()
        .iter()
        .find(|queue| queue["name"] != "q")
        .unwrap();
    let listed = folder.ok(&["queue", "dead", outbox["name"].as_str().unwrap()]);
    assert!(
        listed.starts_with("id") || listed.trim_start().starts_with("id"),
        "{listed}"
    );
}

#[test]
fn events_are_published_read_followed_and_trimmed() {
    let folder = Folder::new();
    assert_eq!(
        folder.ok(&["stream", "publish", "orders", "tea", "--key", "ada"]),
        "1\n"
    );
    let done = folder.pipe(&["stream", "publish", "orders", "--lines"], b"milk\nsu\tgar\n");
    assert_eq!(done.stdout, "2\n3\n");
    let read = folder.ok(&["stream", "read", "orders", "--after", "1"]);
    let lines: Vec<Vec<&str>> = read.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines[0][0], lines[0][3], lines[1][3]), ("2", "milk", "su\\tgar"));
    let first = folder.json(&["stream", "read", "orders", "--limit", "1"]);
    assert_eq!(
        (&first["offset"], &first["key"], &first["payload"]),
        (&1.into(), &"ada".into(), &"tea".into())
    );

    with_store(&folder, async |store| {
        store
            .stream("orders")
            .unwrap()
            .save_offset("billing", 2)
            .await
            .unwrap();
    });
    let offsets = folder.json(&["stream", "offsets", "orders"]);
    assert_eq!(
        offsets,
        serde_json::json!([{ "name": "billing", "offset": 2, "lag": 1 }])
    );
    assert!(
        folder
            .ok(&["stream", "read", "orders", "--consumer", "billing"])
            .starts_with("3\t")
    );
    let mistyped = folder.run(&["stream", "read", "orders", "--consumer", "biling", "--limit", "1"]);
    assert!(
        mistyped.stdout.starts_with("1\t")
            && mistyped
                .stderr
                .contains("no offset of consumer `biling` in the store; did you mean `billing`?"),
        "{mistyped:?}"
    );

    let mut running = Running::start(
        &folder,
        &["stream", "tail", "orders", "--consumer", "billing", "--json"],
    );
    let mut events = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<serde_json::Value>(&events.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["offset"], 3);
    folder.ok(&["stream", "publish", "orders", "honey"]);
    assert_eq!(next()["payload"], "honey");
    assert_eq!(running.stop(), Some(130));

    assert_eq!(folder.ok(&["stream", "trim", "orders", "3"]), "deleted 3\n");
    let streams = folder.json(&["stream", "list"]);
    assert_eq!(
        (&streams[0]["first"], &streams[0]["last"]),
        (&4.into(), &4.into())
    );
    assert!(folder.ok(&["stream", "list"]).contains("orders"));
}

#[test]
fn a_tail_ends_when_nobody_reads_it() {
    let folder = Folder::new();
    folder.ok(&["stream", "publish", "s", "1"]);
    let mut running = Running::start(&folder, &["stream", "tail", "s", "--after", "0"]);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("1\t"));
    // Without another event.
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_name_that_is_not_in_the_store_is_told_and_one_in_which_there_is_nothing_is_not() {
    let folder = Folder::new();
    let id = folder.ok(&["queue", "enqueue", "mails", "x"]);
    folder.ok(&["queue", "cancel", "mails", id.trim()]);
    folder.ok(&["stream", "publish", "orders", "x"]);
    folder.ok(&["stream", "trim", "orders", "1"]);
    folder.ok(&["schedule", "add", "nightly", "@every 1d", "reports", "x"]);
    for (args, told) in [
        (
            &["queue", "show", "mial", "1"][..],
            "no queue `mial` in the store",
        ),
        (&["queue", "dead", "mial"], "did you mean `mails`?"),
        (&["queue", "dead", "mial", "--json"], "did you mean `mails`?"),
        (&["queue", "redrive", "mial", "1"], "did you mean `mails`?"),
        (&["queue", "redrive", "mial", "--all"], "did you mean `mails`?"),
        (&["queue", "purge", "mial"], "did you mean `mails`?"),
        (&["queue", "cancel", "mial", "1"], "did you mean `mails`?"),
        (&["queue", "sweep", "somewhere else"], "there is `mails`"),
        (
            &["stream", "read", "order"],
            "no stream `order` in the store; did you mean `orders`?",
        ),
        (
            &["stream", "read", "order", "--consumer", "c"],
            "did you mean `orders`?",
        ),
        (&["stream", "trim", "order", "1"], "did you mean `orders`?"),
        (&["stream", "offsets", "order"], "did you mean `orders`?"),
        (
            &["schedule", "remove", "nigthly"],
            "no schedule `nigthly` in the store; did you mean `nightly`?",
        ),
    ] {
        let done = folder.run(args);
        assert!(
            done.code == Some(1) && done.stdout.is_empty() && done.stderr.contains(told),
            "{args:?}: {done:?}"
        );
    }
    for args in [
        &["queue", "dead", "mails"][..],
        &["queue", "redrive", "mails", "--all"],
        &["queue", "purge", "mails"],
        &["queue", "sweep", "mails"],
        &["stream", "read", "orders"],
        &["stream", "trim", "orders", "1"],
        &["stream", "offsets", "orders"],
    ] {
        folder.ok(args);
    }
}

#[test]
fn a_tail_of_a_stream_that_is_not_there_says_so_and_waits_for_it() {
    let folder = Folder::new();
    folder.ok(&["stream", "publish", "orders", "x"]);
    let mut running = Running::start(&folder, &["stream", "tail", "ordres"]);
    let mut told = String::new();
    let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
    stderr.read_line(&mut told).unwrap();
    assert_eq!(told, "no stream `ordres` in the store; did you mean `orders`?\n");
    folder.ok(&["stream", "publish", "ordres", "first"]);
    let mut line = String::new();
    let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("1\t") && line.ends_with("first\n"), "{line}");
    assert_eq!(running.stop(), Some(130));
}

#[test]
fn what_cannot_be_a_store_is_told_in_words() {
    let folder = Folder::new();
    folder.write("notes", "these are notes, and no database at all\n".repeat(9));
    std::fs::create_dir(folder.path("data")).unwrap();
    for (store, told) in [
        ("data", "data is a folder; name a file"),
        ("notes", "notes is not a SQLite database; it was left alone"),
        ("none/a.db", "none does not exist: make it"),
        ("notes/a.db", "notes is not a folder"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/proc/a.db", "/proc/a.db cannot be made or opened"),
    ] {
        for command in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["queue", "enqueue", "q", "x"],
        ] {
            let done = folder.run(&[command, &["--store", store]].concat());
            assert!(
                done.code == Some(1) && done.stderr.contains(told) && !done.stderr.contains("rror code"),
                "{store}: {done:?}"
            );
        }
    }
}

#[test]
fn schedules_are_added_run_and_removed() {
    let folder = Folder::new();
    folder.ok(&[
        "schedule",
        "add",
        "tick",
        "@every 1s",
        "ticks",
        "now",
        "--attempts",
        "7",
    ]);
    let schedules = folder.json(&["schedule", "list"]);
    assert_eq!(
        (&schedules[0]["spec"], &schedules[0]["queue"]),
        (&"@every 1s".into(), &"ticks".into())
    );
    let unrun = folder.run(&["schedule", "list"]);
    assert!(
        unrun.stdout.contains("@every 1s") && unrun.stderr.contains("nobody runs them"),
        "{unrun:?}"
    );

    let running = Running::start(&folder, &["schedule", "run"]);
    let job = with_store(&folder, async |store| {
        let queue = store
            .queue("ticks", esker_coord::QueueOptions::default())
            .unwrap();
        let mut wakes = queue.listen().await.unwrap();
        loop {
            if let Some(handle) = queue.claim_one("w").await.unwrap() {
                break handle.job().clone();
            }
            wakes.recv().await.unwrap();
        }
    });
    assert_eq!(
        (job.payload.as_bytes(), job.stamps.max_attempts),
        (&b"now"[..], 7)
    );
    assert_eq!(job.boundary, Some(job.run_at));
    assert_eq!(folder.run(&["schedule", "list"]).stderr, "");
    assert_eq!(running.stop(), Some(0));
    // The lead was given back.
    assert_eq!(folder.json(&["lock", "list"]), serde_json::json!([]));

    assert_eq!(folder.ok(&["schedule", "remove", "tick"]), "removed tick\n");
    assert_eq!(folder.run(&["schedule", "remove", "tick"]).code, Some(1));
}

#[test]
fn mistakes_are_told_before_anything_is_done() {
    let folder = Folder::new();
    for args in [
        &["queue", "list"][..],
        &["stream", "read", "s"],
        &["lock", "list"],
        &["schedule", "run"],
    ] {
        let done = folder.run(args);
        assert!(
            done.code == Some(1) && done.stderr.contains("no store at esker.db"),
            "{args:?}: {done:?}"
        );
    }
    let made = folder.run(&["stream", "publish", "s", "x"]);
    assert!(
        made.code == Some(0) && made.stderr == "made a new store at esker.db\n",
        "{made:?}"
    );
    assert_eq!(folder.run(&["stream", "publish", "s", "x"]).stderr, "");
    for (args, told) in [
        (&["lock", "release", "__alkstore_scheduler"][..], "is reserved"),
        (&["queue", "enqueue", " ", "x"][..], "must not be blank"),
        (&["queue", "purge", "__alkstore_x"], "is reserved"),
        (
            &["queue", "enqueue", "q", "x", "--attempts", "0"],
            "max_attempts is invalid",
        ),
        (&["queue", "redrive", "q"], "<ID|--all>"),
        (&["queue", "redrive", "q", "1", "--all"], "cannot be used with"),
        (&["stream", "publish", "s"], "<PAYLOAD|--lines>"),
        (&["stream", "offsets", ""], "must not be blank"),
        (
            &["schedule", "add", "s", "* * * * *", "q", "x"],
            "@every <n><unit>",
        ),
        (
            // Its jobs are ready at their boundaries.
            &["schedule", "add", "s", "@every 9s", "q", "x", "--delay", "5"],
            "unexpected argument '--delay'",
        ),
        (&["schedule", "run", "--ttl", "0"], "ttl_s is invalid"),
        (&["queue", "list", "--store", "memory:"], "sqlite:PATH"),
    ] {
        let done = folder.run(args);
        assert!(
            done.code == Some(2) && done.stderr.contains(told),
            "{args:?}: {done:?}"
        );
    }
}

#[test]
fn the_relay_and_its_queues_share_a_file() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    folder.ok(&["queue", "enqueue", "q", "x"]);
    folder.ok(&["stream", "publish", "s", "x"]);
    folder.write(
        "in.jsonl",
        crate::support::lines(&[note(1, 1_700_000_000, "hello")]),
    );
    folder.ok(&["import", "in.jsonl"]);
    assert!(relay.stop().success());
    assert_eq!(folder.ok(&["count", "{\"kinds\":[1]}"]).trim(), "1");
    assert_eq!(folder.json(&["queue", "list"])[0]["ready"], 1);
}

#[test]
fn queues_streams_and_schedules_are_on_postgres_by_the_url_alone() {
    let database = Database::new();
    let url = database.url();
    let folder = Folder::new();
    let on = |args: &[&'static str]| folder.json(&[args, &["--store", url.as_str()]].concat());
    let missing = folder.run(&["queue", "list", "--store", &url]);
    assert!(
        missing.code == Some(1) && missing.stderr.contains("no store in the schema esker"),
        "{missing:?}"
    );
    let id = on(&["queue", "enqueue", "mails", "hello"]).to_string();
    let job = folder.json(&["queue", "show", "mails", &id, "--store", &url]);
    assert_eq!(job["payload"], "hello");
    assert_eq!(on(&["stream", "publish", "s", "x"]), 1);
    assert_eq!(on(&["stream", "read", "s"])["payload"], "x");
    on(&["schedule", "add", "tick", "@every 1h", "q", "x"]);
    assert_eq!(on(&["schedule", "list"])[0]["spec"], "@every 1h");
    assert_eq!(on(&["queue", "list"])[0]["ready"], 1);
    let refused = folder.run(&["count", "{}", "--store", &url]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("sqlite:PATH"),
        "{refused:?}"
    );
}
