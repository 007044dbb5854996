//! Reads: one snapshot, a budget, a bounded queue, no writes.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use esker_coord_sqlite::{Error, Options, Snapshot};

use crate::support::{Fixture, MINUTE, poll, started, write_note};

fn count(snapshot: &Snapshot<'_>) -> Result<i64, Error> {
    Ok(snapshot
        .sql()
        .query_row("SELECT count(*) FROM note", [], |row| row.get(0))?)
}

const ENDLESS: &str =
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

fn one_reader() -> Fixture {
    Fixture::with(Options {
        readers: 1,
        ..Options::default()
    })
}

#[tokio::test]
async fn store_k05_a_statement_past_its_budget_is_interrupted() {
    let fx = one_reader();
    let budget = Duration::from_millis(5);
    let endless = fx
        .db
        .read(budget, |snapshot| {
            Ok::<i64, Error>(snapshot.sql().query_row(ENDLESS, [], |row| row.get(0))?)
        })
        .await;
    assert!(matches!(endless, Err(Error::OverBudget(spent)) if spent == budget));
    assert_eq!(fx.db.stats().reads_over_budget, 1);
    // The reader serves on, with the next one's own budget.
    write_note(&fx.db, 1).await.unwrap();
    assert_eq!(fx.db.read(MINUTE, |snapshot| count(snapshot)).await.unwrap(), 1);
}

#[tokio::test]
async fn store_k05_a_loop_outside_sql_can_ask() {
    let fx = one_reader();
    let budget = Duration::from_millis(5);
    let endless: Result<(), Error> = fx
        .db
        .read(budget, |snapshot| {
            loop {
                snapshot.check()?;
            }
        })
        .await;
    assert!(matches!(endless, Err(Error::OverBudget(_))));
    let refreshing: Result<(), Error> = fx
        .db
        .read(budget, |snapshot| {
            loop {
                snapshot.refresh()?;
            }
        })
        .await;
    assert!(matches!(refreshing, Err(Error::OverBudget(_))));
}

#[tokio::test]
async fn store_k05_the_deadline_is_told() {
    let fx = one_reader();
    let (deadline, now) = fx
        .db
        .read(MINUTE, |snapshot| {
            Ok::<_, Error>((snapshot.deadline(), Instant::now()))
        })
        .await
        .unwrap();
    assert!(deadline.is_some_and(|deadline| deadline > now && deadline <= now + MINUTE));
    let never = fx
        .db
        .read(Duration::MAX, |snapshot| Ok::<_, Error>(snapshot.deadline()))
        .await
        .unwrap();
    assert_eq!(never, None);
}

#[tokio::test]
async fn foundation_a_read_sees_one_snapshot_until_it_refreshes() {
    let fx = one_reader();
    write_note(&fx.db, 1).await.unwrap();
    let (looked, first_look) = tokio::sync::oneshot::channel();
    let (go_on, wrote) = mpsc::channel();
    let read = started(fx.db.clone(), |db| async move {
        db.read(MINUTE, move |snapshot| {
            assert!(!snapshot.sql().is_autocommit());
            let first = count(snapshot)?;
            looked.send(()).unwrap();
            wrote.recv().unwrap();
            let second = count(snapshot)?;
            snapshot.refresh()?;
            Ok::<_, Error>((first, second, count(snapshot)?))
        })
        .await
    });
    first_look.await.unwrap();
    write_note(&fx.db, 2).await.unwrap();
    go_on.send(()).unwrap();
    assert_eq!(read.await.unwrap(), (1, 1, 2));
}

#[tokio::test]
async fn foundation_a_read_after_a_write_sees_it() {
    let fx = Fixture::new();
    for n in 1..50 {
        write_note(&fx.db, n).await.unwrap();
        assert_eq!(fx.db.read(MINUTE, |snapshot| count(snapshot)).await.unwrap(), n);
    }
}

#[tokio::test]
async fn foundation_reads_do_not_wait_for_the_writer() {
    let fx = Fixture::new();
    let gate = fx.shut().await;
    assert_eq!(fx.db.read(MINUTE, |snapshot| count(snapshot)).await.unwrap(), 0);
    gate.open().await.unwrap();
}

#[tokio::test]
async fn foundation_a_read_cannot_write() {
    let fx = Fixture::new();
    for sql in [
        "INSERT INTO note (n) VALUES (1)",
        "CREATE TEMP TABLE t (x)",
        "DROP TABLE note",
    ] {
        let wrote = fx
            .db
            .read(MINUTE, move |snapshot| {
                Ok::<_, Error>(snapshot.sql().execute_batch(sql)?)
            })
            .await;
        assert!(matches!(wrote, Err(Error::Sqlite(_))), "{sql}");
    }
}

#[tokio::test]
async fn foundation_a_panicking_read_is_its_callers_error_only() {
    let fx = one_reader();
    let panicked: Result<(), Error> = fx.db.read(MINUTE, |_| panic!("reading")).await;
    assert!(matches!(panicked, Err(Error::Panicked(message)) if message == "reading"));
    assert_eq!(fx.db.read(MINUTE, |snapshot| count(snapshot)).await.unwrap(), 0);
}

#[tokio::test]
async fn foundation_reads_wait_in_a_bounded_queue_in_order_and_are_skipped_when_unwanted() {
    let fx = Fixture::with(Options {
        readers: 1,
        read_queue: 3,
        ..Options::default()
    });
    let order = Arc::new(Mutex::new(Vec::new()));
    let (enter, entered) = tokio::sync::oneshot::channel();
    let (open, opened) = mpsc::channel::<()>();
    let first = started(fx.db.clone(), |db| async move {
        db.read(MINUTE, move |_| {
            enter.send(()).unwrap();
            opened.recv().unwrap();
            Ok::<_, Error>(())
        })
        .await
    });
    entered.await.unwrap();
    let mut waiting: Vec<_> = (0..5)
        .map(|n| {
            let order = order.clone();
            started(fx.db.clone(), |db| async move {
                db.read(MINUTE, move |_| {
                    order.lock().unwrap().push(n);
                    Ok::<_, Error>(())
                })
                .await
            })
        })
        .collect();
    assert_eq!(fx.db.stats().reads_waiting, 3);
    drop(waiting.remove(1));
    open.send(()).unwrap();
    first.await.unwrap();
    for read in waiting {
        read.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 2, 3, 4]);
    let stats = fx.db.stats();
    assert_eq!((stats.reads, stats.reads_skipped), (5, 1));
}

#[tokio::test]
async fn foundation_close_answers_the_reads_that_wait() {
    let fx = one_reader();
    let (enter, entered) = tokio::sync::oneshot::channel();
    let (open, opened) = mpsc::channel::<()>();
    let first = started(fx.db.clone(), |db| async move {
        db.read(MINUTE, move |snapshot| {
            enter.send(()).unwrap();
            opened.recv().unwrap();
            count(snapshot)
        })
        .await
    });
    entered.await.unwrap();
    let second = started(
        fx.db.clone(),
        |db| async move { db.read(MINUTE, |s| count(s)).await },
    );
    let mut closing = started(fx.db.clone(), |db| async move { db.close().await });
    assert!(poll(closing.as_mut()).is_pending());
    open.send(()).unwrap();
    closing.await;
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 0));
}

#[tokio::test]
async fn foundation_a_statement_is_planned_once_whatever_is_bound() {
    use esker_coord_sqlite::rusqlite::{Connection, StatementStatus};
    /// How often a walk over an index was planned again for other values.
    fn planned_again(sql: &Connection) -> Result<i32, Error> {
        let mut walk = sql.prepare(
            "SELECT a FROM pair WHERE (a, b) < (?1, ?2) AND a >= ?3 ORDER BY a DESC, b DESC LIMIT ?4",
        )?;
        for value in 1..5 {
            let mut rows = walk.query([value; 4])?;
            while rows.next()?.is_some() {}
        }
        Ok(walk.get_status(StatementStatus::RePrepare))
    }
    let fx = Fixture::new();
    let writing = fx.db.write(|tx| {
        let table = "CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID";
        tx.sql().execute_batch(table)?;
        planned_again(tx.sql())
    });
    assert_eq!(writing.await.unwrap(), 0);
    let reading = fx.db.read(MINUTE, |snapshot| planned_again(snapshot.sql()));
    assert_eq!(reading.await.unwrap(), 0);
}
