//! Group commit: who shares a transaction, what each is answered, what survives.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use esker_coord_sqlite::{Error, Options, Outcome, Transaction, rusqlite::Connection};

use crate::support::{Fixture, note, poll, started, submit, submit_note, write_note};

#[tokio::test]
async fn foundation_closures_that_wait_share_one_commit() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let waiting: Vec<_> = (0..100).map(|n| submit_note(&fx.db, n)).collect();
    assert_eq!(fx.db.stats().writes_waiting, 100);
    gate.open().await.unwrap();
    for write in waiting {
        write.await.unwrap();
    }
    let stats = fx.db.stats();
    assert_eq!((stats.commits, stats.closures, stats.undone), (1, 101, 0));
    assert_eq!(fx.notes(), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn foundation_a_batch_is_bounded() {
    let fx = Fixture::with(Options {
        max_batch: 4,
        ..Options::default()
    });
    let gate = fx.shut().await;
    let waiting: Vec<_> = (0..7).map(|n| submit_note(&fx.db, n)).collect();
    gate.open().await.unwrap();
    for write in waiting {
        write.await.unwrap();
    }
    assert_eq!((fx.db.stats().commits, fx.db.stats().closures), (2, 8));
}

#[tokio::test]
async fn foundation_a_full_queue_holds_callers_back() {
    let fx = Fixture::with(Options {
        write_queue: 2,
        ..Options::default()
    });
    let gate = fx.shut().await;
    let waiting: Vec<_> = (0..5).map(|n| submit_note(&fx.db, n)).collect();
    assert_eq!(fx.db.stats().writes_waiting, 2);
    gate.open().await.unwrap();
    for write in waiting {
        write.await.unwrap();
    }
    assert_eq!(fx.notes(), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn cx_08_a_write_is_committed_when_it_returns() {
    let fx = Fixture::new();
    for n in 0..20 {
        write_note(&fx.db, n).await.unwrap();
        assert_eq!(fx.notes().last(), Some(&n));
    }
    assert_eq!(fx.db.stats().commits, 20);
}

#[tokio::test]
async fn cx_08_synchronous_is_full_unless_asked_otherwise() {
    use esker_coord_sqlite::Synchronous;
    assert_eq!(Options::default().synchronous, Synchronous::Full);
    for (synchronous, flushes) in [(Synchronous::Full, 5), (Synchronous::Normal, 0)] {
        let fx = Fixture::with(Options {
            synchronous,
            ..Options::default()
        });
        // One after the other, so that no two share a flush.
        for n in 0..5 {
            write_note(&fx.db, n).await.unwrap();
        }
        assert_eq!(fx.db.stats().flushes, flushes, "{synchronous:?}");
    }
}

#[tokio::test]
async fn cx_08_what_is_left_for_after_the_commit_does_not_wait_for_the_disk() {
    let fx = Fixture::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let db = fx.db.clone();
    fx.db
        .write(move |tx| {
            tx.after_commit(move || sender.send((db.stats().commits, db.stats().flushes)).unwrap());
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), (1, 0));
    assert_eq!(fx.db.stats().flushes, 1);
}

#[tokio::test]
async fn foundation_writes_that_change_nothing_write_nothing() {
    let fx = Fixture::new();
    write_note(&fx.db, 1).await.unwrap();
    let (pages, bytes) = (fx.db.stats().wal_pages, fx.wal_bytes());
    for _ in 0..10 {
        fx.db.write(|_| Ok::<_, Error>(())).await.unwrap();
    }
    assert_eq!((fx.db.stats().wal_pages, fx.wal_bytes()), (pages, bytes));
}

#[tokio::test]
async fn foundation_an_error_undoes_its_own_closure_only() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let first = submit_note(&fx.db, 1);
    let failing = submit(&fx.db, |tx| {
        note(tx, 2)?;
        note(tx, 1)
    });
    let last = submit_note(&fx.db, 3);
    gate.open().await.unwrap();
    first.await.unwrap();
    assert!(matches!(failing.await, Err(Error::Sqlite(_))));
    last.await.unwrap();
    assert_eq!(fx.notes(), [1, 3]);
    assert_eq!((fx.db.stats().commits, fx.db.stats().undone), (1, 1));
}

#[tokio::test]
async fn foundation_a_panic_undoes_its_own_closure_only() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let first = submit_note(&fx.db, 1);
    let panicking = submit(&fx.db, |tx| -> Result<(), Error> {
        note(tx, 2)?;
        tx.savepoint(|tx| {
            note(tx, 4)?;
            panic!("about {}", "this")
        })
    });
    let last = submit_note(&fx.db, 3);
    gate.open().await.unwrap();
    first.await.unwrap();
    match panicking.await {
        Err(error @ Error::Panicked(_)) => {
            assert_eq!(error.to_string(), "the work panicked: about this");
            assert_eq!(error.outcome(), Outcome::Aborted);
        }
        other => panic!("{other:?}"),
    }
    last.await.unwrap();
    assert_eq!(fx.notes(), [1, 3]);
    write_note(&fx.db, 5).await.unwrap();
}

#[tokio::test]
async fn foundation_a_nested_savepoint_undoes_itself_only() {
    let fx = Fixture::new();
    let seen = fx
        .db
        .write(|tx| {
            note(tx, 1)?;
            tx.savepoint(|tx| note(tx, 2))?;
            let inner = tx.savepoint(|tx| {
                note(tx, 3)?;
                tx.savepoint(|tx| note(tx, 4))?;
                note(tx, 1)
            });
            note(tx, 5)?;
            Ok::<_, Error>(inner.is_err())
        })
        .await
        .unwrap();
    assert!(seen);
    assert_eq!(fx.notes(), [1, 2, 5]);
}

type Log = Arc<Mutex<Vec<&'static str>>>;

fn leave(tx: &mut Transaction<'_>, log: &Log, word: &'static str) {
    let log = log.clone();
    tx.after_commit(move || log.lock().unwrap().push(word));
}

#[tokio::test]
async fn foundation_after_commit_runs_in_order_and_before_the_answers() {
    let fx = Fixture::new();
    let log = Log::default();
    let gate = fx.shut().await;
    let mut waiting = Vec::new();
    for words in [["one", "two"], ["three", "four"]] {
        let log = log.clone();
        waiting.push(submit(&fx.db, move |tx| {
            for word in words {
                leave(tx, &log, word);
            }
            let undone: Result<(), Error> = tx.savepoint(|tx| {
                leave(tx, &log, "never: savepoint");
                Err(Error::Busy)
            });
            assert!(undone.is_err());
            tx.savepoint(|tx| {
                leave(tx, &log, "nested");
                Ok::<_, Error>(())
            })
        }));
    }
    let failing_log = log.clone();
    let failing = submit(&fx.db, move |tx| -> Result<(), Error> {
        leave(tx, &failing_log, "never: closure");
        Err(Error::Busy)
    });
    let path = fx.path();
    let visible = Arc::new(Mutex::new(Vec::new()));
    let seen = visible.clone();
    waiting.push(submit(&fx.db, move |tx| {
        note(tx, 1)?;
        tx.after_commit(move || *seen.lock().unwrap() = crate::support::notes(&path));
        Ok(())
    }));
    assert!(log.lock().unwrap().is_empty());
    gate.open().await.unwrap();
    // The gate shared the commit, so all has run by its answer.
    assert_eq!(
        *log.lock().unwrap(),
        ["one", "two", "nested", "three", "four", "nested"]
    );
    assert_eq!(*visible.lock().unwrap(), [1]);
    for write in waiting {
        write.await.unwrap();
    }
    assert!(matches!(failing.await, Err(Error::Busy)));
}

#[tokio::test]
async fn foundation_a_panic_after_the_commit_harms_nothing() {
    let fx = Fixture::new();
    let log = Log::default();
    let inner = log.clone();
    fx.db
        .write(move |tx| {
            tx.after_commit(|| panic!("after the commit"));
            leave(tx, &inner, "the next");
            note(tx, 1)
        })
        .await
        .unwrap();
    assert_eq!(*log.lock().unwrap(), ["the next"]);
    write_note(&fx.db, 2).await.unwrap();
    assert_eq!(fx.notes(), [1, 2]);
}

#[tokio::test]
async fn foundation_a_failing_commit_is_everybodys_error_and_leaves_nothing() {
    let fx = Fixture::new();
    let log = Log::default();
    let gate = fx.shut().await;
    let inner = log.clone();
    let innocent = submit(&fx.db, move |tx| {
        leave(tx, &inner, "never");
        note(tx, 1)
    });
    // SQLite checks this one at the commit, which then fails and leaves the transaction open.
    let guilty = submit(&fx.db, |tx| {
        tx.sql().execute("INSERT INTO child VALUES (404)", [])?;
        Ok(())
    });
    let own_error = submit(&fx.db, |_| -> Result<(), Error> {
        Err(Error::Panicked("mine".to_owned()))
    });
    assert!(matches!(gate.open().await, Err(Error::Commit(_))));
    for write in [innocent, guilty] {
        match write.await {
            Err(error @ Error::Commit(_)) => assert_eq!(error.outcome(), Outcome::Aborted),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(own_error.await, Err(Error::Panicked(_))));
    assert!(fx.notes().is_empty());
    // Nor is the lock kept.
    let other = Connection::open(fx.path()).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
    write_note(&fx.db, 2).await.unwrap();
    assert_eq!(fx.notes(), [2]);
    assert!(log.lock().unwrap().is_empty());
    let stats = fx.db.stats();
    assert_eq!((stats.commits, stats.rollbacks), (1, 1));
}

fn fill(tx: &Transaction<'_>, n: i64) -> Result<(), Error> {
    tx.sql()
        .execute("INSERT INTO note VALUES (?1, zeroblob(1000000))", [n])?;
    Ok(())
}

#[tokio::test]
async fn foundation_full_disk_in_mid_batch_answers_no_false_success() {
    let fx = Fixture::with(Options {
        max_pages: Some(64),
        ..Options::default()
    });
    let log = Log::default();
    let gate = fx.shut().await;
    let inner = log.clone();
    let before = submit(&fx.db, move |tx| {
        leave(tx, &inner, "never");
        note(tx, 1)
    });
    // This makes SQLite give up the whole transaction.
    let full = submit(&fx.db, |tx| fill(tx, 2));
    let after = submit_note(&fx.db, 3);
    assert!(matches!(gate.open().await, Err(Error::RolledBack)));
    assert!(matches!(before.await, Err(Error::RolledBack)));
    assert!(matches!(full.await, Err(Error::DiskFull)));
    after.await.unwrap();
    assert_eq!(fx.notes(), [3]);
    assert!(log.lock().unwrap().is_empty());
    assert_eq!((fx.db.stats().commits, fx.db.stats().rollbacks), (1, 1));
}

#[tokio::test]
async fn foundation_a_closure_that_ignores_the_full_disk_keeps_nothing() {
    let fx = Fixture::with(Options {
        max_pages: Some(64),
        ..Options::default()
    });
    let ignoring = fx
        .db
        .write(|tx| {
            note(tx, 1)?;
            let full = tx.savepoint(|tx| fill(tx, 2));
            assert!(matches!(full, Err(Error::DiskFull)));
            assert!(matches!(tx.savepoint(|tx| note(tx, 3)), Err(Error::RolledBack)));
            // Without a transaction, this would be one of its own.
            assert!(note(tx, 4).is_err());
            Ok::<_, Error>(())
        })
        .await;
    assert!(matches!(ignoring, Err(Error::RolledBack)));
    assert!(fx.notes().is_empty());
}

#[tokio::test]
async fn foundation_full_disk_heals_when_there_is_room() {
    let fx = Fixture::with(Options {
        max_pages: Some(64),
        ..Options::default()
    });
    let half = |n| {
        move |tx: &mut Transaction<'_>| -> Result<(), Error> {
            tx.sql()
                .execute("INSERT INTO note VALUES (?1, zeroblob(150000))", [n])?;
            Ok(())
        }
    };
    fx.db.write(half(1)).await.unwrap();
    assert!(matches!(fx.db.write(half(2)).await, Err(Error::DiskFull)));
    assert_eq!(fx.notes(), [1]);
    fx.db
        .write(|tx| {
            tx.sql().execute("DELETE FROM note", [])?;
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
    fx.db.write(half(2)).await.unwrap();
    assert_eq!(fx.notes(), [2]);
}

#[tokio::test]
async fn foundation_only_the_writer_commits() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let innocent = submit_note(&fx.db, 1);
    let meddler = submit(&fx.db, |tx| {
        note(tx, 2)?;
        tx.sql().execute_batch("COMMIT")?;
        Ok(())
    });
    let after = submit_note(&fx.db, 3);
    assert!(matches!(gate.open().await, Err(Error::RolledBack)));
    assert!(matches!(innocent.await, Err(Error::RolledBack)));
    assert!(meddler.await.is_err());
    after.await.unwrap();
    assert_eq!(fx.notes(), [3]);
}

#[tokio::test]
async fn cx_09_a_locked_file_is_waited_for_then_told_and_nothing_is_done() {
    let fx = Fixture::with(Options {
        busy_timeout: Duration::from_millis(20),
        ..Options::default()
    });
    let other = Connection::open(fx.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let all: Vec<_> = (0..3).map(|n| submit_note(&fx.db, n)).collect();
    for write in all {
        match write.await {
            Err(error @ Error::Busy) => assert_eq!(error.outcome(), Outcome::Aborted),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fx.db.stats().closures, 0);
    other.execute_batch("COMMIT").unwrap();
    write_note(&fx.db, 9).await.unwrap();
    assert_eq!(fx.notes(), [9]);
}

#[tokio::test]
async fn cx_09_a_locked_file_is_waited_for_as_long_as_asked() {
    let fx = Fixture::new();
    let other = Connection::open(fx.path()).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO note (n) VALUES (1)")
        .unwrap();
    let write = submit_note(&fx.db, 2);
    other.execute_batch("COMMIT").unwrap();
    write.await.unwrap();
    assert_eq!(fx.notes(), [1, 2]);
}

#[tokio::test]
async fn cx_10_a_dropped_future_loses_the_answer_only() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    drop(submit_note(&fx.db, 1));
    let last = submit_note(&fx.db, 2);
    gate.open().await.unwrap();
    last.await.unwrap();
    assert_eq!(fx.notes(), [1, 2]);
}

#[tokio::test]
async fn foundation_close_answers_what_waits_and_refuses_what_comes() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let waiting: Vec<_> = (0..5).map(|n| submit_note(&fx.db, n)).collect();
    let mut closing = started(fx.db.clone(), |db| async move { db.close().await });
    assert!(matches!(write_note(&fx.db, 9).await, Err(Error::Closed)));
    let read = fx.db.read(Duration::from_secs(1), |_| Ok::<_, Error>(())).await;
    assert!(matches!(read, Err(Error::Closed)));
    assert!(matches!(fx.db.begin().await.map(drop), Err(Error::Closed)));
    assert!(poll(closing.as_mut()).is_pending());
    gate.open().await.unwrap();
    closing.await;
    for write in waiting {
        write.await.unwrap();
    }
    assert_eq!(fx.wal_bytes(), 0);
    assert_eq!(fx.notes(), [0, 1, 2, 3, 4]);
    // Again, and by a clone: at once.
    fx.db.clone().close().await;
}

#[tokio::test]
async fn foundation_close_refuses_those_who_wait_for_a_place() {
    let fx = Fixture::with(Options {
        write_queue: 1,
        ..Options::default()
    });
    let gate = fx.shut().await;
    let queued = submit_note(&fx.db, 1);
    let outside = submit_note(&fx.db, 2);
    let closing = started(fx.db.clone(), |db| async move { db.close().await });
    assert!(matches!(outside.await, Err(Error::Closed)));
    gate.open().await.unwrap();
    queued.await.unwrap();
    closing.await;
    assert_eq!(fx.notes(), [1]);
}

#[tokio::test]
async fn foundation_dropping_the_last_handle_does_what_was_submitted() {
    let Fixture { folder, db } = Fixture::new();
    let (done, ended) = mpsc::channel();
    let mut write = Box::pin(async move {
        db.write(move |tx| {
            tx.after_commit(move || done.send(()).unwrap());
            note(tx, 1)
        })
        .await
    });
    drop(poll(write.as_mut()));
    drop(write);
    ended.recv().unwrap();
    assert_eq!(crate::support::notes(&folder.path().join("notes.db")), [1]);
}
