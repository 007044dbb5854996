//! Stores by URL (CX-02), and what a build contains.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use esker_coord::{Error, Job, Transaction, open};

async fn refusal(url: &str) -> String {
    match open(url).await {
        Err(Error::InvalidOption {
            option: "url",
            reason,
        }) => reason,
        other => panic!("{url}: {other:?}"),
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn cx_02_a_url_opens_a_file_with_its_options_and_what_is_in_it_stays() {
    use esker_coord::QueueOptions;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my store.db");
    let url = format!("sqlite:{}?synchronous=normal&readers=2", path.display()).replace(' ', "%20");
    let store = open(&url).await.unwrap();
    assert_eq!(store.kind(), "sqlite");
    assert!(store.engine::<esker_coord::sqlite::SqliteEngine>().is_some());
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let id = queue.enqueue("x").await.unwrap();
    store.close().await;
    assert!(path.exists());
    let again = open(&url).await.unwrap();
    let queue = again.queue("q", QueueOptions::default()).unwrap();
    assert_eq!(queue.claim_one("w").await.unwrap().unwrap().job().id, id);
    again.close().await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn cx_02_an_option_that_the_engine_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for (option, value) in [
        ("readers", "readers=0"),
        ("busy_timeout", "busy_timeout_ms=3000000000"),
        ("read_budget", "read_budget_ms=18446744073709551615"),
        ("idle_transaction", "idle_transaction_ms=18446744073709551615"),
        ("watch_interval", "watch_interval_ms=0"),
        ("safety_poll", "safety_poll_ms=2147483648"),
        ("writer_cache", "writer_cache_kib=4294967295"),
        ("wal_limit", "wal_limit_bytes=18446744073709551615"),
        ("max_pages", "max_pages=0"),
    ] {
        match open(&format!("sqlite:{}?{value}", path.display())).await {
            Err(Error::InvalidOption { option: refused, .. }) => assert_eq!(refused, option),
            other => panic!("{value}: {other:?}"),
        }
        assert!(!path.exists(), "{value}");
    }
    let nowhere = format!("sqlite:{}", folder.path().join("no/such/a.db").display());
    assert!(matches!(open(&nowhere).await, Err(Error::Database { .. })));
}

#[tokio::test]
async fn cx_02_a_url_of_no_engine_is_refused_with_those_that_there_are() {
    for url in [
        "",
        "app.db",
        "./app.db",
        "mysql://root:secret@db/app",
        "memory:x",
        "SQLITE:a.db",
        "c:app.db",
    ] {
        let reason = refusal(url).await;
        assert!(
            reason.contains("sqlite:path.db") && !reason.contains("secret"),
            "{url}: {reason}"
        );
    }
}

#[tokio::test]
async fn cx_02_the_url_of_an_engine_that_was_left_out_says_its_feature() {
    for (url, feature, compiled) in [
        ("sqlite:a.db", "sqlite", cfg!(feature = "sqlite")),
        ("postgres://db/app", "postgres", cfg!(feature = "postgres")),
        ("postgresql://db/app", "postgres", cfg!(feature = "postgres")),
        ("memory:", "memory", cfg!(feature = "memory")),
    ] {
        if !compiled {
            let reason = refusal(url).await;
            assert!(
                reason.contains(&format!("feature `{feature}`")),
                "{url}: {reason}"
            );
        }
    }
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn cx_02_each_store_in_memory_is_its_own() {
    let (one, two) = (open("memory:").await.unwrap(), open("memory:").await.unwrap());
    one.stream("s").unwrap().publish("x").await.unwrap();
    assert!(two.inspect().await.unwrap().streams.is_empty());
}

/// The packages that a build of the front with these features contains.
fn packages(features: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--offline",
        "--package",
        "esker-coord",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    cargo.args(["--format", "{p}", "--no-default-features", "--features", features]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn cx_02_a_build_with_one_engine_contains_no_other_driver() {
    let drivers = [
        ("sqlite", "rusqlite "),
        ("postgres", "tokio-postgres "),
        ("memory", "esker-coord-memory "),
    ];
    for (feature, _) in drivers {
        let contained = packages(feature);
        for (of, driver) in drivers {
            let contains = contained.lines().any(|package| package.starts_with(driver));
            assert_eq!(contains, of == feature, "{driver} with the feature {feature}");
        }
    }
    let none = packages("");
    assert!(
        drivers
            .iter()
            .all(|(_, driver)| !none.lines().any(|package| package.starts_with(driver)))
    );
}

/// What spawns must be `Send`; these are not run.
#[expect(dead_code, reason = "it compiles")]
fn cx_01_what_runs_on_a_store_can_be_spawned(store: esker_coord::Store, queue: esker_coord::Queue) {
    use esker_coord::{CancellationToken, WorkOptions};

    struct Client(String);
    impl Client {
        async fn post(&self, job: &Job) -> std::io::Result<()> {
            tokio::task::yield_now().await;
            let _ = (&self.0, job);
            Ok(())
        }
        async fn note(&self, tx: &mut Transaction) -> Result<(), Error> {
            tx.notify("noted", self.0.clone()).await
        }
    }
    let (borrowed, moved, worker) = (Client("a".into()), Client("b".into()), Client("c".into()));
    let (by_reference, by_value, runs) = (store.clone(), store.clone(), store);
    tokio::spawn(async move {
        let name = String::from("q");
        let done = by_reference.with_transaction(async |tx| {
            tx.enqueue(&name, "x").await?;
            borrowed.note(tx).await
        });
        done.await
    });
    tokio::spawn(async move {
        by_value
            .with_transaction(async move |tx| moved.note(tx).await)
            .await
    });
    tokio::spawn(async move { runs.run_schedules(CancellationToken::new()).await });
    tokio::spawn(async move {
        let handler = async move |job: &Job| {
            worker.post(job).await?;
            Ok(())
        };
        queue
            .work(WorkOptions::default(), handler, CancellationToken::new())
            .await
    });
}
