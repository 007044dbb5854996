//! What the log says of a full disk: one line when it fills, one when there is room again.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

use std::{
    io,
    sync::{Arc, Mutex},
};

use esker_coord_sqlite::{Database, Error, Options, Schema};

const NOTES: Schema = Schema {
    component: "notes",
    migrations: &["CREATE TABLE note (n INTEGER PRIMARY KEY, body BLOB) STRICT"],
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn execute(db: &Database, sql: &'static str) -> Result<(), Error> {
    db.write(move |tx| Ok(tx.sql().execute(sql, []).map(drop)?)).await
}

/// Alone in its file: the writer's thread logs to the one subscriber of the process.
#[tokio::test]
async fn foundation_full_disk_is_logged_once_and_so_is_its_end() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        max_pages: Some(64),
        ..Options::default()
    };
    let db = Database::open(&folder.path().join("notes.db"), options, &[NOTES]).unwrap();
    for _ in 0..2 {
        for _ in 0..3 {
            let full = execute(&db, "INSERT INTO note (body) VALUES (zeroblob(1000000))").await;
            assert!(matches!(full, Err(Error::DiskFull)), "{full:?}");
            // A commit that writes nothing shows nothing.
            execute(&db, "DELETE FROM note WHERE n < 0").await.unwrap();
        }
        for _ in 0..3 {
            execute(&db, "INSERT INTO note (body) VALUES ('')")
                .await
                .unwrap_err();
            execute(&db, "INSERT INTO note (body) VALUES (x'00')")
                .await
                .unwrap();
        }
    }
    db.close().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let levels: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("full") || line.contains("room again"))
        .map(|line| if line.contains(" WARN ") { "warn" } else { "info" })
        .collect();
    assert_eq!(levels, ["warn", "info", "warn", "info"], "{log}");
}
