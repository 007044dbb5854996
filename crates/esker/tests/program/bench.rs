//! `bench` at a small size: every measurement comes to its end and says what it promises. No time is asserted.

use crate::support::{Folder, Relay};

fn corpus(folder: &Folder) {
    folder.ok(&[
        "bench",
        "corpus",
        "--events",
        "3000",
        "--seed",
        "5",
        "corpus.jsonl",
    ]);
}

#[test]
fn a_corpus_is_the_same_each_time_and_imports_whole() {
    let folder = Folder::new();
    corpus(&folder);
    let again = folder.ok(&["bench", "corpus", "--events", "3000", "--seed", "5"]);
    assert!(again.as_bytes() == folder.read("corpus.jsonl"));
    let report = folder.json(&["import", "corpus.jsonl"]);
    assert_eq!(
        (&report["read"], &report["invalid"]),
        (&3_000.into(), &0.into()),
        "{report}"
    );
}

#[test]
fn ingest_publishes_every_event_over_sockets_and_in_process() {
    let folder = Folder::new();
    corpus(&folder);
    let answered = |figures: &serde_json::Value| {
        let refused = figures["refused"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap());
        figures["accepted"].as_u64().unwrap() + refused.sum::<u64>()
    };
    let figures = folder.json(&[
        "bench",
        "ingest",
        "--corpus",
        "corpus.jsonl",
        "--out",
        "figures.json",
    ]);
    assert_eq!(answered(&figures), 3_000, "{figures}");
    let written: serde_json::Value = serde_json::from_slice(&folder.read("figures.json")).unwrap();
    assert_eq!(written, figures);
    let figures = folder.json(&[
        "bench",
        "ingest",
        "--corpus",
        "corpus.jsonl",
        "--direct",
        "--window",
        "4",
    ]);
    assert_eq!(answered(&figures), 3_000, "{figures}");
    // A relay that is there already.
    let relay = Relay::start(&folder, &["--store", "memory:"]);
    let figures = folder.json(&["bench", "ingest", "--events", "500", "--url", &relay.url]);
    assert_eq!(answered(&figures), 500, "{figures}");
}

#[test]
fn query_asks_every_shape_and_gets_answers() {
    let folder = Folder::new();
    corpus(&folder);
    let figures = folder.json(&[
        "bench",
        "query",
        "--corpus",
        "corpus.jsonl",
        "--seconds",
        "0.1",
        "--connections",
        "2",
    ]);
    let shapes = figures["shapes"].as_array().unwrap();
    assert_eq!(shapes.len(), 8);
    assert!(
        shapes.iter().all(|shape| shape["events"].as_f64() > Some(0.0)),
        "{figures}"
    );
}

#[test]
fn fanout_and_broadcast_reach_every_subscriber() {
    let folder = Folder::new();
    let fanout = folder.json(&[
        "bench",
        "fanout",
        "--subscriptions",
        "50",
        "--connections",
        "5",
        "--messages",
        "20",
    ]);
    assert!(fanout["p50_ms"].as_f64() > Some(0.0), "{fanout}");
    let broadcast = folder.json(&["bench", "broadcast", "--connections", "20", "--messages", "10"]);
    assert!(
        broadcast["deliveries_per_second"].as_f64() > Some(0.0),
        "{broadcast}"
    );
    let text = folder.ok(&["bench", "broadcast", "--connections", "2", "--messages", "2"]);
    assert!(text.contains("deliveries/s"), "{text}");
}

#[test]
fn a_queue_is_measured_alone_and_among_jobs_that_wait_are_delayed_claimed_or_dead() {
    let folder = Folder::new();
    let small = [
        "--seconds",
        "0.05",
        "--callers",
        "4",
        "--batch",
        "50",
        "--waiting",
        "200",
        "--workers",
        "2",
    ];
    let measure = |store: &[&str], depths: &str| {
        let figures = folder.json(&[&["bench", "queue", "--depths", depths], &small[..], store].concat());
        let figures = figures["figures"].as_array().unwrap().clone();
        assert!(
            figures.iter().all(|figure| figure["p99_ms"].as_f64() > Some(0.0)),
            "{figures:?}"
        );
        figures.len()
    };
    // Three ways to enqueue, four sizes of a claim by one worker and by two, and four kinds of other jobs.
    assert_eq!(measure(&[], "50,2000"), 3 + 8 + 4 * 2);
    // A store that is there, twice: what the first left in it does not matter.
    assert_eq!(measure(&["--store", "sqlite:jobs.db"], "10"), 3 + 8 + 4);
    assert_eq!(measure(&["--store", "sqlite:jobs.db"], "10"), 3 + 8 + 4);
}

#[test]
fn a_stream_is_measured_up_to_its_subscriber() {
    let folder = Folder::new();
    let small = [
        "--seconds",
        "0.05",
        "--callers",
        "4",
        "--batch",
        "50",
        "--events",
        "2500",
        "--messages",
        "5",
    ];
    let figures = folder.json(&[&["bench", "stream"], &small[..]].concat());
    assert_eq!(figures["figures"].as_array().unwrap().len(), 6, "{figures}");
    let text = folder.ok(&[&["bench", "stream"], &small[..]].concat());
    assert!(
        text.contains("events/s") && text.contains("publish to a subscriber"),
        "{text}"
    );
}

#[test]
fn another_process_is_woken_each_time() {
    let folder = Folder::new();
    let small = ["--messages", "10", "--seconds", "0.1", "--listeners", "3"];
    let figures = folder.json(&[&["bench", "wake"], &small[..]].concat());
    assert!(figures["p50_ms"].as_f64() > Some(0.0), "{figures}");
    assert!(figures["idle_percent_of_a_core"].is_number(), "{figures}");
    let done = folder.run(&[&["bench", "wake", "--store", "memory:"], &small[..]].concat());
    assert!(done.code == Some(2) && done.stderr.contains("memory"), "{done:?}");
}
