//! Measures group commit: closures and commits per second with 1 and 64 callers that each wait for their answer.
//!
//! `cargo run --release -p esker-coord-sqlite --example commits -- [seconds] [folder]`
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant},
};

use esker_coord_sqlite::{Database, Error, Options, Schema};

const ROWS: Schema = Schema {
    component: "rows",
    migrations: &["CREATE TABLE row (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT"],
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    let parent = env::args().nth(2).map_or_else(env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(parent)?;
    println!(
        "{:>8} {:>12} {:>12} {:>10} {:>12}",
        "callers", "closures/s", "commits/s", "batch", "reads/s"
    );
    for callers in [1, 64] {
        let path = folder.path().join(format!("{callers}.db"));
        let db = Database::open(&path, Options::default(), &[ROWS])?;
        let span = Duration::from_secs(seconds);
        run(callers, span, &db, |db| async move {
            db.write(|tx| {
                let insert = "INSERT INTO row (body) VALUES (zeroblob(200))";
                tx.sql().prepare_cached(insert)?.execute([])?;
                Ok::<_, Error>(())
            })
            .await
        })
        .await?;
        run(callers, span, &db, |db| async move {
            db.read(Duration::from_secs(1), |snapshot| {
                let one = "SELECT n FROM row WHERE n = 1";
                snapshot
                    .sql()
                    .prepare_cached(one)?
                    .query_row([], |row| row.get::<_, i64>(0))?;
                Ok::<_, Error>(())
            })
            .await
        })
        .await?;
        let stats = db.stats();
        println!(
            "{callers:>8} {:>12.0} {:>12.0} {:>10.1} {:>12.0}",
            stats.closures as f64 / seconds as f64,
            stats.commits as f64 / seconds as f64,
            stats.closures as f64 / stats.commits as f64,
            stats.reads as f64 / seconds as f64,
        );
        db.close().await;
    }
    Ok(())
}

async fn run<F>(
    callers: usize,
    span: Duration,
    db: &Database,
    call: impl Fn(Database) -> F + Clone + Send + 'static,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>> + Send,
{
    let end = Instant::now() + span;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (db, call) = (db.clone(), call.clone());
            tokio::spawn(async move {
                while Instant::now() < end {
                    call(db.clone()).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|_| Error::Lost)??;
    }
    Ok(())
}
