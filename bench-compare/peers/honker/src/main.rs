//! honker: one connection behind a mutex, so its callers are threads.

use anyhow::{bail, ensure};
use harness::{Callers, Contender, Listener, Result, Target, Value};
use honker::{Database, EnqueueOpts, Job, OpenOptions, Queue, QueueOpts, Stream, Subscription};

#[derive(Clone)]
struct Honker {
    database: Database,
    queue: Queue,
}

impl Honker {
    fn stream(&self) -> Stream {
        self.database.stream("events")
    }
}

impl Contender for Honker {
    const CALLERS: Callers = Callers::Threads;
    type Job = Job;
    type Listener = Wakes;

    async fn open(target: Target) -> Result<Self> {
        ensure!(!target.is_postgres(), "honker is on SQLite only");
        let options = OpenOptions::default();
        let database = match target.variant.as_str() {
            "default" | "full" => Database::open(&target.store)?,
            "kernel" => Database::open_with_options(&target.store, options.watcher_backend("kernel")?)?,
            other => bail!("honker has no variant `{other}`"),
        };
        if target.variant == "full" {
            database.with_conn(|connection| connection.execute_batch("PRAGMA synchronous = FULL"))?;
        }
        let queue = database.queue("jobs", QueueOpts::default());
        Ok(Self { database, queue })
    }

    async fn enqueue(&self, payload: Value) -> Result<()> {
        self.queue.enqueue(&payload, EnqueueOpts::default())?;
        Ok(())
    }

    async fn enqueue_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let transaction = self.database.transaction()?;
        for payload in &payloads {
            self.queue
                .enqueue_tx(&transaction, payload, EnqueueOpts::default())?;
        }
        Ok(transaction.commit()?)
    }

    async fn claim(&self, worker: String, n: i64) -> Result<Vec<Job>> {
        Ok(self.queue.claim_batch(&worker, n)?)
    }

    async fn ack(&self, worker: String, jobs: Vec<Job>) -> Result<usize> {
        if let [job] = &jobs[..] {
            return Ok(usize::from(job.ack()?));
        }
        let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
        Ok(usize::try_from(self.queue.ack_batch(&ids, &worker)?)?)
    }

    async fn publish(&self, payload: Value) -> Result<()> {
        self.stream().publish(&payload)?;
        Ok(())
    }

    async fn publish_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let (stream, transaction) = (self.stream(), self.database.transaction()?);
        for payload in &payloads {
            stream.publish_tx(&transaction, payload)?;
        }
        Ok(transaction.commit()?)
    }

    async fn read(&self, after: i64, limit: i64) -> Result<(usize, i64)> {
        let events = self.stream().read_since(after, limit)?;
        Ok((events.len(), events.last().map_or(after, |event| event.offset)))
    }

    async fn notify(&self, channel: String) -> Result<()> {
        self.database.notify(&channel, &())?;
        Ok(())
    }

    async fn listen(&self, channel: String) -> Result<Wakes> {
        Ok(Wakes(self.database.listen(&channel)?))
    }
}

struct Wakes(Subscription);

impl Listener for Wakes {
    async fn wake(&mut self) -> Result<()> {
        match self.0.recv() {
            Some(notification) => notification.map(drop).map_err(Into::into),
            None => bail!("the watcher died"),
        }
    }
}

fn main() -> Result<()> {
    harness::run::<Honker>()
}
