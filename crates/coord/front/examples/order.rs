//! An order in a table of one's own, and the job and the event that belong to it: all of them or none, on SQLite and on
//! Postgres, by the URL alone.
//!
//! ```text
//! cargo run -p esker-coord --example order
//! cargo run -p esker-coord --features postgres --example order -- postgres://app@localhost/app
//! ```

use std::{env, error::Error};

use esker_coord::{QueueOptions, Transaction, open};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("shop.db").display());
    let store = open(&env::args().nth(1).unwrap_or(file)).await?;
    store.with_transaction(async |tx| make_table(tx).await).await?;

    // The job's payload is the order's number, so the worker finds what was ordered.
    for item in ["tea", "cake"] {
        store
            .with_transaction(async |tx| {
                let order = insert_order(tx, item).await?;
                tx.enqueue("example-ship", order.to_string()).await?;
                tx.publish("example-orders", format!("{order} {item}")).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            })
            .await?;
    }

    // An order that fails halfway leaves nothing: no row, no job, no event.
    let failed: Result<()> = store
        .with_transaction(async |tx| {
            let order = insert_order(tx, "soup").await?;
            tx.enqueue("example-ship", order.to_string()).await?;
            Err("there is no soup".into())
        })
        .await;
    println!("the third order failed: {}", failed.expect_err("it has an error"));

    let mut shipped = 0;
    let queue = store.queue("example-ship", QueueOptions::default())?;
    while let Some(job) = queue.claim_one("shipper").await? {
        println!(
            "shipping order {}",
            String::from_utf8_lossy(job.job().payload.as_bytes())
        );
        job.ack().await?;
        shipped += 1;
    }
    assert_eq!(shipped, 2);
    store.close().await;
    Ok(())
}

async fn make_table(tx: &mut Transaction) -> Result<()> {
    #[cfg(feature = "sqlite")]
    if let Some(own) = tx.engine_mut::<esker_coord::sqlite::SqliteTransaction>() {
        own.run(|tx| {
            let table =
                "CREATE TABLE IF NOT EXISTS example_order (number INTEGER PRIMARY KEY, item TEXT NOT NULL)";
            tx.sql().execute_batch(table)?;
            Ok::<_, esker_coord::sqlite::Error>(())
        })
        .await?;
    }
    #[cfg(feature = "postgres")]
    if let Some(own) = tx.engine_mut::<esker_coord::postgres::PostgresTransaction>() {
        let table =
            "CREATE TABLE IF NOT EXISTS example_order (number BIGSERIAL PRIMARY KEY, item TEXT NOT NULL)";
        own.client()?.batch_execute(table).await?;
    }
    Ok(())
}

/// Inserts an order, and gives its number.
async fn insert_order(tx: &mut Transaction, item: &'static str) -> Result<i64> {
    #[cfg(feature = "sqlite")]
    if let Some(own) = tx.engine_mut::<esker_coord::sqlite::SqliteTransaction>() {
        let number = own.run(move |tx| {
            tx.sql()
                .execute("INSERT INTO example_order (item) VALUES (?1)", [item])?;
            Ok::<_, esker_coord::sqlite::Error>(tx.sql().last_insert_rowid())
        });
        return Ok(number.await?);
    }
    #[cfg(feature = "postgres")]
    if let Some(own) = tx.engine_mut::<esker_coord::postgres::PostgresTransaction>() {
        let insert = "INSERT INTO example_order (item) VALUES ($1) RETURNING number";
        return Ok(own.client()?.query_one(insert, &[&item]).await?.get(0));
    }
    Err("this engine has no tables".into())
}
