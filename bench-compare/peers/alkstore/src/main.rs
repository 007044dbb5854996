//! alkstore, the published engines for SQLite and Postgres.

mod durability;

use std::sync::Arc;

use alkstore::{EnqueueOpts, JobHandle, Queue, QueueOpts, Store, StreamHandle, WakeReceiver};
use alkstore_postgres::PgOpts;
use alkstore_sqlite::SqliteOpts;
use anyhow::{Context as _, bail};
use harness::{Callers, Contender, Listener, Result, Target, Value};

#[derive(Clone)]
struct Alkstore {
    store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
    stream: Arc<dyn StreamHandle>,
}

impl Contender for Alkstore {
    const CALLERS: Callers = Callers::Tasks;
    type Job = Box<dyn JobHandle>;
    type Listener = Wakes;

    async fn open(target: Target) -> Result<Self> {
        let store: Arc<dyn Store> = match (target.is_postgres(), target.variant.as_str()) {
            (true, "default") => alkstore_postgres::open(&target.store, PgOpts::default())
                .await?
                .into(),
            (false, "default") => alkstore_sqlite::open(&target.store, SqliteOpts::default())?.into(),
            (false, "full") => {
                durability::watch()?;
                let store = alkstore_sqlite::open(&target.store, SqliteOpts::default())?.into();
                durability::flush_each_commit()?;
                store
            }
            (_, other) => bail!("alkstore has no variant `{other}` here"),
        };
        let queue = store.queue("jobs", QueueOpts::default()).await?.into();
        let stream = store.stream("events").await?.into();
        Ok(Self { store, queue, stream })
    }

    async fn enqueue(&self, payload: Value) -> Result<()> {
        self.queue.enqueue(payload, EnqueueOpts::default()).await?;
        Ok(())
    }

    async fn enqueue_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let mut transaction = self.store.begin_tx().await?;
        for payload in payloads {
            transaction
                .enqueue_tx("jobs", EnqueueOpts::default(), payload)
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn claim(&self, worker: String, n: i64) -> Result<Vec<Box<dyn JobHandle>>> {
        Ok(self.queue.claim_batch(&worker, n).await?)
    }

    async fn ack(&self, _worker: String, mut jobs: Vec<Box<dyn JobHandle>>) -> Result<usize> {
        if jobs.len() == 1 {
            let job = jobs.pop().expect("there is one");
            return Ok(usize::from(job.ack().await?));
        }
        let ids: Vec<i64> = jobs.iter().map(|job| job.job().id).collect();
        Ok(usize::try_from(self.queue.ack_batch(&ids).await?)?)
    }

    async fn publish(&self, payload: Value) -> Result<()> {
        self.stream.publish(payload).await?;
        Ok(())
    }

    async fn publish_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let mut transaction = self.store.begin_tx().await?;
        for payload in payloads {
            transaction.publish_tx("events", payload).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn read(&self, after: i64, limit: i64) -> Result<(usize, i64)> {
        let events = self.stream.read_since(after, limit).await?;
        Ok((events.len(), events.last().map_or(after, |event| event.offset)))
    }

    async fn notify(&self, channel: String) -> Result<()> {
        Ok(self.store.notify(&channel, Value::Null).await?)
    }

    async fn listen(&self, channel: String) -> Result<Wakes> {
        Ok(Wakes(self.store.listen(&channel).await?))
    }
}

struct Wakes(Box<dyn WakeReceiver>);

impl Listener for Wakes {
    async fn wake(&mut self) -> Result<()> {
        self.0.recv().await.context("the watcher died")?;
        Ok(())
    }
}

fn main() -> Result<()> {
    harness::run::<Alkstore>()
}
