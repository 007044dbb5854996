//! The write-ahead log stays within its bound, whatever readers do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use esker_coord_sqlite::{Database, Error, Options, Synchronous, rusqlite::Connection};

use crate::support::{Fixture, MINUTE, started};

const LIMIT: u64 = 64;
const FRAME: u64 = 4096 + 24;

fn small_log() -> Options {
    Options {
        wal_limit: LIMIT * 4096,
        synchronous: Synchronous::Normal,
        busy_timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

/// The most frames that the log ever had: its file is written over, never shortened while in use.
fn frames(fx: &Fixture) -> u64 {
    fx.wal_bytes() / FRAME
}

async fn write_page(db: &Database) {
    db.write(|tx| {
        // Read back, and not stepped to its end.
        let insert = "INSERT INTO note (body) VALUES (zeroblob(3000)) RETURNING n";
        let _: i64 = tx.sql().prepare_cached(insert)?.query_row([], |row| row.get(0))?;
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn foundation_the_log_starts_anew_at_its_limit() {
    let fx = Fixture::with(small_log());
    for _ in 0..500 {
        write_page(&fx.db).await;
    }
    let stats = fx.db.stats();
    assert!(stats.checkpoints >= 500 / LIMIT, "{stats:?}");
    assert_eq!(stats.checkpoints_held_up, 0);
    assert!(frames(&fx) <= LIMIT + 8, "{}", frames(&fx));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foundation_busy_readers_do_not_make_the_log_grow() {
    let fx = Fixture::with(small_log());
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (db, stop) = (fx.db.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    db.read(MINUTE, |snapshot| {
                        let sql = "SELECT sum(length(body)) FROM note";
                        let _: Option<i64> =
                            snapshot.sql().prepare_cached(sql)?.query_row([], |r| r.get(0))?;
                        Ok::<_, Error>(())
                    })
                    .await
                    .unwrap();
                }
            })
        })
        .collect();
    for _ in 0..1000 {
        write_page(&fx.db).await;
    }
    stop.store(true, Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    assert!(fx.db.stats().reads > 0);
    assert!(
        frames(&fx) <= 2 * LIMIT + LIMIT / 8 + 8,
        "{} {:?}",
        frames(&fx),
        fx.db.stats()
    );
}

#[tokio::test]
async fn foundation_a_lingering_reader_delays_the_log_and_fails_nobody() {
    let fx = Fixture::with(Options {
        busy_timeout: Duration::from_millis(5),
        ..small_log()
    });
    let (looked, look) = tokio::sync::oneshot::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let lingering = started(fx.db.clone(), |db| async move {
        db.read(MINUTE, move |snapshot| {
            let first: i64 = snapshot
                .sql()
                .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?;
            looked.send(()).unwrap();
            wait.recv().unwrap();
            let then: i64 = snapshot
                .sql()
                .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?;
            Ok::<_, Error>((first, then))
        })
        .await
    });
    look.await.unwrap();
    for _ in 0..200 {
        write_page(&fx.db).await;
    }
    let held_up = fx.db.stats();
    assert_eq!(held_up.checkpoints, 0);
    // Tried at the limit and then at each eighth of it, not at each commit.
    let tries = (held_up.wal_pages - LIMIT) / (LIMIT / 8) + 1;
    assert!((1..=tries).contains(&held_up.checkpoints_held_up), "{held_up:?}");
    assert!(tries < 100, "{held_up:?}");
    go_on.send(()).unwrap();
    assert_eq!(lingering.await.unwrap(), (0, 0));
    for _ in 0..LIMIT {
        write_page(&fx.db).await;
    }
    assert!(fx.db.stats().checkpoints > 0);
    assert!(fx.db.stats().wal_pages < 2 * LIMIT + 8, "{:?}", fx.db.stats());
}

#[tokio::test]
async fn foundation_close_empties_the_log() {
    let fx = Fixture::with(small_log());
    write_page(&fx.db).await;
    assert!(fx.wal_bytes() > 0);
    fx.db.close().await;
    assert_eq!(fx.wal_bytes(), 0);
    assert_eq!(fx.db.stats().wal_pages, 0);
}

#[tokio::test]
async fn foundation_close_waits_for_no_other_process() {
    let patient = Options {
        busy_timeout: Duration::from_hours(1),
        ..small_log()
    };
    let fx = Fixture::with(patient);
    write_page(&fx.db).await;
    // As another process would.
    let other = Connection::open(fx.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    fx.db.close().await;
    assert!(fx.wal_bytes() > 0);
}
