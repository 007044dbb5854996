//! A projection that sees each event exactly once: its table and its offset change in the same transaction, so that a
//! failure in between leaves both as they were.
//!
//! ```text
//! cargo run -p esker-coord --example projection
//! cargo run -p esker-coord --features postgres --example projection -- postgres://app@localhost/app
//! ```

use std::{env, error::Error};

use esker_coord::{Store, Transaction, open};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const STREAM: &str = "example-sales";
const CONSUMER: &str = "total";

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("shop.db").display());
    let store = open(&env::args().nth(1).unwrap_or(file)).await?;
    store
        .with_transaction(async |tx| {
            run(
                tx,
                "CREATE TABLE IF NOT EXISTS example_total (amount BIGINT NOT NULL)",
            )
            .await?;
            run(
                tx,
                "INSERT INTO example_total SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM example_total)",
            )
            .await
        })
        .await?;

    let before = total(&store).await?;
    let sales = store.stream(STREAM)?;
    for amount in 1..=10 {
        sales.publish(amount.to_string()).await?;
    }

    // The first try dies after its work, which is undone with its offset.
    let died = project(&store, true).await;
    println!("undone: {}", died.expect_err("it dies"));
    while let Some(applied) = project(&store, false).await? {
        println!("applied {applied} events");
    }

    let total = total(&store).await?;
    println!("the total is {total}");
    assert_eq!(total - before, 55);
    store.close().await;
    Ok(())
}

/// Applies the next events, and tells how many there were; `None` when there are none. One that runs for ever waits for
/// the wakes of [`Stream::listen`](esker_coord::Stream::listen) then.
async fn project(store: &Store, dies: bool) -> Result<Option<usize>> {
    store
        .with_transaction(async |tx| {
            // Another projector waits here, and then reads from the offset that this one saved.
            let events = tx.read_from_consumer(STREAM, CONSUMER, 4).await?;
            let Some(last) = events.last() else {
                return Ok(None);
            };
            let mut sum = 0;
            for event in &events {
                sum += event.payload_as::<i64>()?;
            }
            run(tx, &format!("UPDATE example_total SET amount = amount + {sum}")).await?;
            if dies {
                return Err("the process dies here".into());
            }
            tx.save_offset(STREAM, CONSUMER, last.offset).await?;
            Ok(Some(events.len()))
        })
        .await
}

/// Runs a statement in the caller's transaction, on whatever engine it is.
async fn run(tx: &mut Transaction, statement: &str) -> Result<()> {
    #[cfg(feature = "sqlite")]
    if let Some(own) = tx.engine_mut::<esker_coord::sqlite::SqliteTransaction>() {
        let statement = statement.to_owned();
        own.run(move |tx| Ok::<_, esker_coord::sqlite::Error>(tx.sql().execute_batch(&statement)?))
            .await?;
    }
    #[cfg(feature = "postgres")]
    if let Some(own) = tx.engine_mut::<esker_coord::postgres::PostgresTransaction>() {
        own.client()?.batch_execute(statement).await?;
    }
    Ok(())
}

async fn total(store: &Store) -> Result<i64> {
    const TOTAL: &str = "SELECT amount FROM example_total";
    let mut tx = store.begin().await?;
    #[cfg(feature = "sqlite")]
    if let Some(own) = tx.engine_mut::<esker_coord::sqlite::SqliteTransaction>() {
        let total = own.run(|tx| {
            let total = tx.sql().query_row(TOTAL, [], |row| row.get(0))?;
            Ok::<_, esker_coord::sqlite::Error>(total)
        });
        return Ok(total.await?);
    }
    #[cfg(feature = "postgres")]
    if let Some(own) = tx.engine_mut::<esker_coord::postgres::PostgresTransaction>() {
        return Ok(own.client()?.query_one(TOTAL, &[]).await?.get(0));
    }
    Err("this engine has no tables".into())
}
