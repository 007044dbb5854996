//! Several processes on one file.

use std::{collections::BTreeSet, path::Path};

use esker_coord_sqlite::{Database, Error, Options, rusqlite::Connection};
use esker_testing::processes::{Process, child, line_up, tell};

use crate::support::{NOTES, note, notes};

fn open(folder: &Path) -> Database {
    // A small log, so that checkpoints and restarts of it happen too.
    let options = Options {
        wal_limit: 256 * 1024,
        ..Options::default()
    };
    Database::open(&folder.join("notes.db"), options, &[NOTES]).unwrap()
}

#[tokio::test]
async fn cx_09_many_processes_open_one_new_file_at_once() {
    if let Some((folder, number)) = child() {
        line_up();
        let db = open(folder.as_ref());
        let number = i64::try_from(number).unwrap();
        db.write(move |tx| note(tx, number)).await.unwrap();
        db.close().await;
        return;
    }
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let test = "cx_09_many_processes_open_one_new_file_at_once";
        for process in Process::start_together(test, folder.path(), 8) {
            process.finish();
        }
        assert_eq!(notes(&folder.path().join("notes.db")), (0..8).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cx_08_kill_in_mid_commit_loses_nothing_acknowledged() {
    const TEST: &str = "cx_08_kill_in_mid_commit_loses_nothing_acknowledged";
    if let Some((folder, round)) = child() {
        let db = open(folder.as_ref());
        let round = i64::try_from(round).unwrap();
        let writers = (0..8).map(|writer| {
            let db = db.clone();
            tokio::spawn(async move {
                for n in 0_i64.. {
                    let n = 1 + n * 8 + writer + round * 1_000_000;
                    let pair = move |tx: &mut esker_coord_sqlite::Transaction<'_>| {
                        note(tx, n)?;
                        let body = "INSERT INTO note VALUES (?1, zeroblob(5000))";
                        tx.sql().prepare_cached(body)?.execute([-n])?;
                        Ok::<_, Error>(())
                    };
                    db.write(pair).await.unwrap();
                    tell("done", n);
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.db");
    let mut acknowledged = BTreeSet::new();
    for (round, kill_after) in [1, 10, 57, 200, 333, 500].into_iter().enumerate() {
        let mut writer = Process::start(TEST, folder.path(), round);
        let mut seen = 0;
        for n in writer.told("done") {
            acknowledged.insert(n);
            seen += 1;
            if seen == kill_after {
                writer.kill();
            }
        }
        assert!(seen >= kill_after);

        let db = open(folder.path());
        db.write(|_| Ok::<_, Error>(())).await.unwrap();
        db.close().await;
        let conn = Connection::open(&path).unwrap();
        let check: String = conn
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        let there: BTreeSet<i64> = notes(&path).into_iter().collect();
        assert!(acknowledged.is_subset(&there));
        assert!(there.iter().all(|n| there.contains(&-n)), "half a closure");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cx_09_two_processes_write_one_file_fairly() {
    const ROWS: i64 = 2000;
    if let Some((folder, number)) = child() {
        let db = open(folder.as_ref());
        line_up();
        let number = i64::try_from(number).unwrap();
        let writers = (0..4).map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut reached = 0;
                while reached < ROWS {
                    reached = db
                        .write(move |tx| {
                            let insert = "INSERT INTO note (body) VALUES (CAST(?1 AS BLOB)) RETURNING n";
                            Ok::<_, Error>(
                                tx.sql()
                                    .prepare_cached(insert)?
                                    .query_row([number], |row| row.get(0))?,
                            )
                        })
                        .await
                        .unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        db.close().await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for process in Process::start_together("cx_09_two_processes_write_one_file_fairly", folder.path(), 2) {
        process.finish();
    }
    let conn = Connection::open(folder.path().join("notes.db")).unwrap();
    for number in ["0", "1"] {
        let share = "SELECT count(*) FROM note WHERE n <= ?1 AND body = CAST(?2 AS BLOB)";
        let share: i64 = conn.query_row(share, (ROWS, number), |row| row.get(0)).unwrap();
        // Half each where both get the processor; starved, it would be next to none.
        assert!(share >= ROWS / 20, "process {number} wrote {share} of {ROWS}");
    }
}
