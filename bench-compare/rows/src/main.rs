//! The row-at-a-time way on Postgres: a table, a pool, and one statement and one round trip for each job and event.
//!
//! It sends no wakes on its own and checks nothing, which is to its favour.

use std::{future::poll_fn, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use deadpool_postgres::{Manager, Object, Pool};
use harness::{Callers, Contender, Listener, Result, Target, Value};
use tokio_postgres::{AsyncMessage, NoTls};

/// Connections of the pool.
const CONNECTIONS: usize = 16;

const SCHEMA: &str = "
    CREATE TABLE job (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        payload text NOT NULL,
        run_at timestamptz NOT NULL DEFAULT now(),
        attempts int NOT NULL DEFAULT 0,
        worker text,
        deadline timestamptz
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    CREATE INDEX job_ready ON job (run_at, id) WHERE worker IS NULL;
    CREATE TABLE stream (name text PRIMARY KEY, last bigint NOT NULL) WITH (fillfactor = 10);
    INSERT INTO stream VALUES ('events', 0);
    CREATE TABLE event (
        stream text NOT NULL,
        id bigint NOT NULL,
        payload text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (stream, id)
    );
    CREATE TABLE unordered (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        payload text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    );
";
const ENQUEUE: &str = "INSERT INTO job (payload) VALUES ($1)";
const CLAIM: &str = "
    UPDATE job SET worker = $1, attempts = attempts + 1, deadline = now() + interval '300 s'
    WHERE id = (SELECT id FROM job WHERE worker IS NULL AND run_at <= now() ORDER BY run_at, id
                LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload, attempts";
const ACK: &str = "DELETE FROM job WHERE id = $1 AND worker = $2";
/// The offset from a counter that is locked until the commit, so that commit order is offset order.
const PUBLISH: &str = "
    WITH next AS (UPDATE stream SET last = last + 1 WHERE name = 'events' RETURNING last)
    INSERT INTO event (stream, id, payload) SELECT 'events', last, $1 FROM next";
/// The offset from a sequence: quicker, and a reader can pass an event that commits late.
const PUBLISH_UNORDERED: &str = "INSERT INTO unordered (payload) VALUES ($1)";
const READ: &str =
    "SELECT id, payload, created_at FROM event WHERE stream = 'events' AND id > $1 ORDER BY id LIMIT $2";
const FILL_QUEUE: &str = "INSERT INTO job (payload) SELECT unnest($1::text[])";
const FILL_STREAM: &str = "
    WITH next AS (UPDATE stream SET last = last + cardinality($1::text[]) WHERE name = 'events' RETURNING last)
    INSERT INTO event (stream, id, payload)
    SELECT 'events', last - cardinality($1::text[]) + number, payload
    FROM next, unnest($1::text[]) WITH ORDINALITY AS one (payload, number)";

#[derive(Clone)]
struct Rows {
    pool: Pool,
    url: Arc<str>,
    publish: &'static str,
}

impl Rows {
    async fn execute(&self, statement: &str, payload: &str) -> Result<()> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(statement).await?;
        client.execute(&statement, &[&payload]).await?;
        Ok(())
    }

    /// One transaction, one statement for each.
    async fn execute_each(&self, statement: &str, payloads: Vec<Value>) -> Result<()> {
        let mut client = self.pool.get().await?;
        let statement = client.prepare_cached(statement).await?;
        let transaction = client.transaction().await?;
        for payload in payloads {
            transaction.execute(&statement, &[&payload.to_string()]).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn fill(&self, statement: &str, payloads: Vec<Value>) -> Result<()> {
        let payloads: Vec<String> = payloads.iter().map(Value::to_string).collect();
        self.pool.get().await?.execute(statement, &[&payloads]).await?;
        Ok(())
    }
}

impl Contender for Rows {
    const CALLERS: Callers = Callers::Tasks;
    type Job = i64;
    type Listener = Wakes;

    async fn open(target: Target) -> Result<Self> {
        ensure!(target.is_postgres(), "rows are on Postgres only");
        let publish = match target.variant.as_str() {
            "default" => PUBLISH,
            "sequence" => PUBLISH_UNORDERED,
            other => bail!("rows have no variant `{other}`"),
        };
        let manager = Manager::new(target.store.parse()?, NoTls);
        let pool = Pool::builder(manager).max_size(CONNECTIONS).build()?;
        let client: Object = pool.get().await?;
        let there: bool = client
            .query_one("SELECT to_regclass('job') IS NOT NULL", &[])
            .await?
            .get(0);
        if !there {
            client.batch_execute(SCHEMA).await?;
        }
        Ok(Self {
            pool,
            url: target.store.into(),
            publish,
        })
    }

    async fn enqueue(&self, payload: Value) -> Result<()> {
        self.execute(ENQUEUE, &payload.to_string()).await
    }

    async fn enqueue_batch(&self, payloads: Vec<Value>) -> Result<()> {
        self.execute_each(ENQUEUE, payloads).await
    }

    async fn claim(&self, worker: String, n: i64) -> Result<Vec<i64>> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(CLAIM).await?;
        let mut ids = Vec::new();
        for _ in 0..n {
            match client.query_opt(&statement, &[&worker]).await? {
                Some(row) => ids.push(row.get(0)),
                None => break,
            }
        }
        Ok(ids)
    }

    async fn ack(&self, worker: String, jobs: Vec<i64>) -> Result<usize> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(ACK).await?;
        let mut held = 0;
        for id in jobs {
            held += client.execute(&statement, &[&id, &worker]).await?;
        }
        Ok(usize::try_from(held)?)
    }

    async fn publish(&self, payload: Value) -> Result<()> {
        self.execute(self.publish, &payload.to_string()).await
    }

    async fn publish_batch(&self, payloads: Vec<Value>) -> Result<()> {
        self.execute_each(self.publish, payloads).await
    }

    async fn read(&self, after: i64, limit: i64) -> Result<(usize, i64)> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(READ).await?;
        let rows = client.query(&statement, &[&after, &limit]).await?;
        Ok((rows.len(), rows.last().map_or(after, |row| row.get(0))))
    }

    async fn notify(&self, channel: String) -> Result<()> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached("SELECT pg_notify($1, '')").await?;
        client.execute(&statement, &[&channel]).await?;
        Ok(())
    }

    async fn listen(&self, channel: String) -> Result<Wakes> {
        let (client, mut connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        let (woken, wakes) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    // One that waits says it all.
                    let _ = woken.try_send(());
                }
            }
        });
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await?;
        Ok(Wakes(wakes, client))
    }

    async fn fill_queue(&self, payloads: Vec<Value>) -> Result<()> {
        self.fill(FILL_QUEUE, payloads).await
    }

    async fn fill_stream(&self, payloads: Vec<Value>) -> Result<()> {
        self.fill(FILL_STREAM, payloads).await
    }
}

// The client keeps its connection alive.
struct Wakes(
    tokio::sync::mpsc::Receiver<()>,
    #[expect(dead_code)] tokio_postgres::Client,
);

impl Listener for Wakes {
    async fn wake(&mut self) -> Result<()> {
        self.0.recv().await.context("the connection is lost")
    }
}

fn main() -> Result<()> {
    harness::run::<Rows>()
}
