//! Locks from the command line, and commands that run under one.

use std::{
    io::{BufReader, Read as _},
    process::{ChildStdout, Stdio},
};

use esker_testing::{postgres::Database, wire::Wire};
use rustix::{
    fs::{Mode, OFlags, open},
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::support::{Folder, Running, signal, wait_for_line, with_store};

#[test]
fn a_lock_is_shown_and_taken_from_its_holder() {
    let folder = Folder::new();
    with_store(&folder, async |store| {
        store.try_lock("report", "host-1", 1000).await.unwrap().unwrap();
    });
    let locks = folder.json(&["lock", "list"]);
    assert_eq!(
        (&locks[0]["name"], &locks[0]["owner"], &locks[0]["fence"]),
        (&"report".into(), &"host-1".into(), &1.into())
    );
    assert!(folder.ok(&["lock", "list"]).contains("host-1"));
    assert_eq!(
        folder.ok(&["lock", "release", "report"]),
        "released report, which host-1 held\n"
    );
    assert_eq!(folder.json(&["lock", "list"]), serde_json::json!([]));
    let again = folder.run(&["lock", "release", "report"]);
    assert!(
        again.code == Some(1)
            && again
                .stderr
                .contains("no held lock `report` in the store; there is none"),
        "{again:?}"
    );
    let next = with_store(&folder, async |store| {
        store
            .try_lock("report", "host-2", 10)
            .await
            .unwrap()
            .unwrap()
            .fence()
    });
    assert_eq!(next, 2);
}

/// A lock of this name, held by another program.
fn hold(folder: &Folder, name: &str) {
    with_store(folder, async |store| {
        store.try_lock(name, "host-1", 1000).await.unwrap().unwrap();
    });
}

/// Starts `lock run` with a shell script that prints `started` first.
fn start(folder: &Folder, options: &[&str], script: &str) -> (Running, BufReader<ChildStdout>) {
    let script = format!("echo started; {script}");
    let args = [&["lock", "run", "l"], options, &["--", "sh", "-c", &script]].concat();
    let mut running = Running::start(folder, &args);
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    wait_for_line(&mut out, "started");
    (running, out)
}

/// Waits for the program and for all that has its standard output; the exit code and what else was printed there.
fn ended(mut running: Running, mut out: BufReader<ChildStdout>) -> (Option<i32>, String) {
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    (running.0.wait().unwrap().code(), rest)
}

fn stderr(running: &mut Running) -> String {
    let mut text = String::new();
    running
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn a_command_runs_under_a_lock_with_its_fence_and_its_code_is_the_programs() {
    let folder = Folder::new();
    for (fence, told) in [(1, "made a new store at esker.db\n"), (2, "")] {
        let done = folder.run(&["lock", "run", "l", "--", "sh", "-c", "echo $ESKER_FENCE; exit 7"]);
        assert_eq!(
            (done.code, done.stdout, done.stderr.as_str()),
            (Some(7), format!("{fence}\n"), told)
        );
        assert_eq!(folder.json(&["lock", "list"]), serde_json::json!([]));
    }
    let done = folder.run(&["lock", "run", "l", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(done.code, Some(128 + 9), "{done:?}");
    // Its own arguments are not taken for the command's, nor the fence for a setting.
    let program = env!("CARGO_BIN_EXE_esker");
    let listed = folder.run(&[
        "lock", "run", "l", "--owner", "ada", "--", program, "lock", "list", "--json",
    ]);
    let locks: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert!(locks[0]["owner"].as_str().unwrap().starts_with("ada:"), "{locks}");
    assert_eq!((&locks[0]["name"], listed.stderr.as_str()), (&"l".into(), ""));
}

#[test]
fn a_command_that_cannot_be_started_leaves_the_lock_free() {
    let folder = Folder::new();
    folder.write("text", "no program");
    for (command, code) in [("./none", 127), ("./text", 126)] {
        let done = folder.run(&["lock", "run", "l", "--", command]);
        assert!(
            done.code == Some(code) && done.stderr.contains(&format!("cannot run {command}")),
            "{done:?}"
        );
        assert_eq!(folder.json(&["lock", "list"]), serde_json::json!([]));
    }
    assert_eq!(folder.run(&["lock", "run", "l"]).code, Some(2));
    assert_eq!(
        folder.run(&["lock", "run", "l", "--ttl", "1", "--", "true"]).code,
        Some(2)
    );
    assert_eq!(folder.run(&["lock", "run", " ", "--", "true"]).code, Some(2));
}

#[test]
fn a_command_does_not_run_while_another_holds_the_lock() {
    let folder = Folder::new();
    hold(&folder, "l");
    for (wait, told) in [
        (&[][..], "`l` is held by host-1"),
        (&["--wait=0"], "still after 0 s"),
    ] {
        let args = [&["lock", "run", "l"], wait, &["--", "echo", "ran"]].concat();
        let done = folder.run(&args);
        assert!(
            done.code == Some(1) && done.stdout.is_empty() && done.stderr.contains(told),
            "{done:?}"
        );
    }
    // Nor while another run does, under whatever name.
    folder.ok(&["lock", "release", "l"]);
    let held = start(&folder, &["--owner", "ada"], "read line");
    let done = folder.run(&["lock", "run", "l", "--owner", "ada", "--", "echo", "ran"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    drop(held);
}

#[test]
fn a_command_waits_for_the_lock_if_it_is_to() {
    let folder = Folder::new();
    hold(&folder, "l");
    let mut running = Running::start(&folder, &["lock", "run", "l", "--wait", "--", "echo", "ran"]);
    let mut told = BufReader::new(running.0.stderr.take().unwrap());
    wait_for_line(&mut told, "waiting for `l`, which host-1 holds");
    folder.ok(&["lock", "release", "l"]);
    let out = BufReader::new(running.0.stdout.take().unwrap());
    assert_eq!(ended(running, out), (Some(0), "ran\n".into()));

    hold(&folder, "l");
    let mut running = Running::start(&folder, &["lock", "run", "l", "--wait", "--", "echo", "ran"]);
    let mut told = BufReader::new(running.0.stderr.take().unwrap());
    wait_for_line(&mut told, "waiting");
    assert_eq!(running.stop(), Some(130));
}

#[test]
fn the_lock_is_renewed_while_its_command_runs() {
    let folder = Folder::new();
    let (mut running, out) = start(&folder, &["--ttl", "5"], "read line; exit 3");
    let lapses = || {
        let locks = folder.json(&["lock", "list"]);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        now + locks[0]["expires_in_s"].as_u64().expect("it is held")
    };
    let first = lapses();
    while lapses() < first + 2 {}
    drop(running.0.stdin.take());
    assert_eq!(ended(running, out), (Some(3), String::new()));
}

#[test]
fn a_command_that_lost_its_lock_is_stopped_with_all_that_it_started() {
    let folder = Folder::new();
    for script in ["sleep 1000; true", "trap '' TERM; sleep 1000; sleep 1000"] {
        let (mut running, out) = start(&folder, &["--ttl", "2"], script);
        folder.ok(&["lock", "release", "l"]);
        let told = stderr(&mut running);
        assert!(
            told.contains("the lock `l` was lost, and the command was stopped"),
            "{told}"
        );
        assert_eq!(ended(running, out), (Some(1), String::new()), "{script}");
    }
}

#[test]
fn signals_are_the_commands_to_answer_and_the_second_ends_both() {
    let folder = Folder::new();
    for (sent, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'echo bye; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let (running, mut out) = start(&folder, &[], &script);
        wait_for_line(&mut out, "ready");
        signal(&running.0, sent);
        assert_eq!(ended(running, out), (Some(5), "bye\n".into()));
        assert_eq!(folder.json(&["lock", "list"]), serde_json::json!([]));
    }
    let (mut running, mut out) = start(&folder, &[], "trap '' INT; echo ready; sleep 1000; sleep 1000");
    wait_for_line(&mut out, "ready");
    let mut told = BufReader::new(running.0.stderr.take().unwrap());
    signal(&running.0, Signal::INT);
    wait_for_line(&mut told, "once more");
    signal(&running.0, Signal::INT);
    assert_eq!(ended(running, out), (Some(130), String::new()));
}

#[test]
fn a_command_does_not_wait_longer_for_a_store_that_fails_than_for_a_lock() {
    let (database, folder) = (Database::new(), Folder::new());
    // Makes the tables.
    folder.ok(&["lock", "run", "l", "--store", &database.url(), "--", "true"]);
    let wire = Wire::to(&database.url());
    let args = [
        "lock",
        "run",
        "l",
        "--wait=0",
        "--store",
        wire.url(),
        "--",
        "echo",
        "ran",
    ];
    let mut running = Running::start(&folder, &args);
    while_a_call_for_a_lock_waits(&database, || wire.cut());
    let told = stderr(&mut running);
    assert!(
        told.contains("`l` was not had within 0 s: the database failed"),
        "{told}"
    );
    let out = BufReader::new(running.0.stdout.take().unwrap());
    assert_eq!(ended(running, out), (Some(1), String::new()));
}

#[test]
fn a_command_is_stopped_when_the_store_fails_its_lock_again_and_again() {
    let (database, folder) = (Database::new(), Folder::new());
    let wire = Wire::to(&database.url());
    let options = ["--ttl", "2", "--store", wire.url()];
    let (mut running, out) = start(&folder, &options, "exec sleep 600");
    // From now on each call fails at once, which leaves time for many before the lock lapses.
    wire.cut();
    let told = stderr(&mut running);
    assert!(
        told.contains("the lock `l` was lost, and the command was stopped"),
        "{told}"
    );
    assert_eq!(ended(running, out), (Some(1), String::new()));
}

#[test]
fn a_lock_that_is_had_after_the_user_stopped_is_given_back_and_nothing_runs() {
    let (database, folder) = (Database::new(), Folder::new());
    let url = database.url();
    folder.ok(&["lock", "run", "l", "--store", &url, "--", "true"]);
    let args = ["lock", "run", "l", "--store", &url, "--", "echo", "ran"];
    let mut running = Running::start(&folder, &args);
    let mut told = BufReader::new(running.0.stderr.take().unwrap());
    while_a_call_for_a_lock_waits(&database, || {
        signal(&running.0, Signal::INT);
        wait_for_line(&mut told, "stopping");
    });
    let out = BufReader::new(running.0.stdout.take().unwrap());
    assert_eq!(ended(running, out), (Some(130), String::new()));
    assert_eq!(
        folder.json(&["lock", "list", "--store", &url]),
        serde_json::json!([])
    );
}

#[test]
fn on_a_terminal_ctrl_c_is_the_commands_alone() {
    let folder = Folder::new();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let input = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = folder.esker(["lock", "run", "l", "--", "sh", "-c", script]);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    wait_for_line(&mut out, "ready");
    // Were the first of them counted, the second would be the one that ends all at once.
    signal(&running.0, Signal::INT);
    signal(&running.0, Signal::TERM);
    assert_eq!(ended(running, out), (Some(5), "bye\n".into()));
    drop(terminal);
}

/// Has all calls that need a lock wait, as if the server were slow; `work` is done once one waits, and the calls go on
/// when it has ended.
fn while_a_call_for_a_lock_waits(database: &Database, work: impl FnOnce()) {
    const WAITING: &str =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'esker.locks'::regclass";
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = database.client().await;
        client
            .batch_execute("BEGIN; LOCK TABLE esker.locks")
            .await
            .unwrap();
        while client.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
        work();
        client.batch_execute("COMMIT").await.unwrap();
    });
}
