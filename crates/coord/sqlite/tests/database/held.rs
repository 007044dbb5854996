//! Transactions that their caller holds.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use esker_coord_sqlite::{Error, HeldTransaction, Options};

use crate::support::{Fixture, MINUTE, note, poll, started, submit_note, write_note};

async fn add(held: &mut HeldTransaction, n: i64) -> Result<(), Error> {
    held.run(move |tx| note(tx, n)).await
}

#[tokio::test]
async fn ct_02_a_held_transaction_is_seen_whole_after_its_commit() {
    let fx = Fixture::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut held = fx.db.begin().await.unwrap();
    for n in 1..4 {
        let told = told.clone();
        let sees: i64 = held
            .run(move |tx| {
                note(tx, n)?;
                tx.after_commit(move || told.lock().unwrap().push(n));
                Ok::<_, Error>(
                    tx.sql()
                        .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?,
                )
            })
            .await
            .unwrap();
        assert_eq!(sees, n);
    }
    assert!(fx.notes().is_empty());
    assert!(told.lock().unwrap().is_empty());
    held.commit().await.unwrap();
    assert_eq!(fx.notes(), [1, 2, 3]);
    assert_eq!(*told.lock().unwrap(), [1, 2, 3]);
    assert_eq!(fx.db.stats().commits, 1);
}

#[tokio::test]
async fn ct_03_dropping_a_held_transaction_rolls_back() {
    let fx = Fixture::new();
    let mut held = fx.db.begin().await.unwrap();
    add(&mut held, 1).await.unwrap();
    held.run(|tx| {
        tx.after_commit(|| panic!("of a transaction that was rolled back"));
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
    drop(held);
    write_note(&fx.db, 2).await.unwrap();
    assert_eq!(fx.notes(), [2]);
    assert_eq!((fx.db.stats().commits, fx.db.stats().rollbacks), (1, 1));
}

#[tokio::test]
async fn ct_03_an_error_or_a_panic_inside_undoes_its_own_call_only() {
    let fx = Fixture::new();
    let mut held = fx.db.begin().await.unwrap();
    add(&mut held, 1).await.unwrap();
    let failed: Result<(), Error> = held
        .run(|tx| {
            note(tx, 2)?;
            Err(Error::Busy)
        })
        .await;
    assert!(matches!(failed, Err(Error::Busy)));
    let panicked: Result<(), Error> = held
        .run(|tx| {
            note(tx, 3)?;
            panic!("inside")
        })
        .await;
    assert!(matches!(panicked, Err(Error::Panicked(_))));
    add(&mut held, 4).await.unwrap();
    held.commit().await.unwrap();
    assert_eq!(fx.notes(), [1, 4]);
}

#[tokio::test]
async fn ct_05_other_writes_wait_for_the_held_transaction() {
    let fx = Fixture::new();
    let before = submit_note_behind_gate(&fx).await;
    let mut held = fx.db.begin().await.unwrap();
    before.await.unwrap();
    let waiting = submit_note(&fx.db, 2);
    add(&mut held, 3).await.unwrap();
    assert_eq!(fx.db.stats().writes_waiting, 1);
    // Readers do not wait.
    let count: i64 = fx
        .db
        .read(MINUTE, |snapshot| {
            Ok::<_, Error>(
                snapshot
                    .sql()
                    .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?,
            )
        })
        .await
        .unwrap();
    assert_eq!(count, 1);
    held.commit().await.unwrap();
    waiting.await.unwrap();
    assert_eq!(fx.notes(), [1, 2, 3]);
    assert_eq!(fx.db.stats().commits, 3);
}

/// A write that was submitted before the held transaction is in an earlier commit.
async fn submit_note_behind_gate(fx: &Fixture) -> crate::support::Started<Result<(), Error>> {
    let gate = fx.shut().await;
    let write = submit_note(&fx.db, 1);
    gate.open().await.unwrap();
    write
}

#[tokio::test]
async fn ct_05_an_idle_transaction_is_rolled_back_and_its_next_call_says_so() {
    let idle = Duration::from_millis(20);
    let fx = Fixture::with(Options {
        idle_transaction: idle,
        ..Options::default()
    });
    let mut held = fx.db.begin().await.unwrap();
    add(&mut held, 1).await.unwrap();
    // Goes through when the idle one has ended.
    write_note(&fx.db, 2).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(add(&mut held, 3).await, Err(Error::IdleTransaction(limit)) if limit == idle));
    }
    assert!(matches!(held.commit().await, Err(Error::IdleTransaction(_))));
    assert_eq!(fx.notes(), [2]);
}

#[tokio::test]
async fn ct_03_close_rolls_back_a_held_transaction_without_a_deadlock() {
    let fx = Fixture::new();
    let mut held = fx.db.begin().await.unwrap();
    add(&mut held, 1).await.unwrap();
    let waiting = submit_note(&fx.db, 2);
    fx.db.close().await;
    waiting.await.unwrap();
    assert!(matches!(add(&mut held, 3).await, Err(Error::Closed)));
    assert!(matches!(held.commit().await, Err(Error::Closed)));
    assert_eq!(fx.notes(), [2]);
}

#[tokio::test]
async fn ct_03_a_begin_that_nobody_waits_for_holds_nobody_up() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    let begin = started(fx.db.clone(), |db| async move { db.begin().await });
    drop(begin);
    let write = submit_note(&fx.db, 1);
    gate.open().await.unwrap();
    write.await.unwrap();
    assert_eq!(fx.notes(), [1]);
}

#[tokio::test]
async fn ct_03_a_held_transaction_keeps_the_database_open() {
    let Fixture { folder, db } = Fixture::new();
    let mut held = db.begin().await.unwrap();
    drop(db);
    add(&mut held, 1).await.unwrap();
    held.commit().await.unwrap();
    assert_eq!(crate::support::notes(&folder.path().join("notes.db")), [1]);
}

#[tokio::test]
async fn cx_10_a_dropped_call_of_a_held_transaction_is_done_in_its_order() {
    let fx = Fixture::new();
    let mut held = fx.db.begin().await.unwrap();
    {
        let mut call = Box::pin(add(&mut held, 1));
        drop(poll(call.as_mut()));
    }
    let seen: i64 = held
        .run(|tx| {
            Ok::<_, Error>(
                tx.sql()
                    .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?,
            )
        })
        .await
        .unwrap();
    assert_eq!(seen, 1);
    held.commit().await.unwrap();
    assert_eq!(fx.notes(), [1]);
}

#[tokio::test]
async fn ct_03_a_failing_commit_of_a_held_transaction_leaves_nothing() {
    let fx = Fixture::new();
    let mut held = fx.db.begin().await.unwrap();
    held.run(|tx| {
        note(tx, 1)?;
        tx.sql().execute("INSERT INTO child VALUES (404)", [])?;
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
    assert!(matches!(held.commit().await, Err(Error::Commit(_))));
    write_note(&fx.db, 2).await.unwrap();
    assert_eq!(fx.notes(), [2]);
}

#[tokio::test]
async fn ct_03_a_full_disk_ends_the_held_transaction() {
    let fx = Fixture::with(Options {
        max_pages: Some(64),
        ..Options::default()
    });
    let mut held = fx.db.begin().await.unwrap();
    add(&mut held, 1).await.unwrap();
    let full = held
        .run(|tx| {
            tx.sql()
                .execute("INSERT INTO note VALUES (2, zeroblob(1000000))", [])?;
            Ok::<_, Error>(())
        })
        .await;
    assert!(matches!(full, Err(Error::DiskFull)));
    assert!(matches!(add(&mut held, 3).await, Err(Error::RolledBack)));
    assert!(matches!(held.commit().await, Err(Error::RolledBack)));
    write_note(&fx.db, 4).await.unwrap();
    assert_eq!(fx.notes(), [4]);
}
