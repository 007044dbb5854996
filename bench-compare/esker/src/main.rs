//! Esker's coordination store; the URL picks the engine.

use anyhow::{Context as _, bail};
use esker_coord::{JobHandle, NewEvent, Payload, Queue, QueueOptions, Store, Stream, WakeReceiver};
use harness::{Callers, Contender, Listener, Result, Target, Value};

#[derive(Clone)]
struct Esker {
    store: Store,
    queue: Queue,
    stream: Stream,
}

impl Contender for Esker {
    const CALLERS: Callers = Callers::Tasks;
    type Job = JobHandle;
    type Listener = Wakes;

    async fn open(target: Target) -> Result<Self> {
        let url = match (target.is_postgres(), target.variant.as_str()) {
            (true, "default") => target.store,
            (false, "default") => format!("sqlite:{}", target.store),
            (false, "normal") => format!("sqlite:{}?synchronous=normal", target.store),
            (_, other) => bail!("Esker has no variant `{other}` here"),
        };
        let store = esker_coord::open(&url).await?;
        let queue = store.queue("jobs", QueueOptions::default())?;
        let stream = store.stream("events")?;
        Ok(Self { store, queue, stream })
    }

    async fn enqueue(&self, payload: Value) -> Result<()> {
        self.queue.enqueue(Payload::json(&payload)?).await?;
        Ok(())
    }

    async fn enqueue_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let jobs: Result<Vec<_>, _> = payloads
            .iter()
            .map(|payload| Ok::<_, esker_coord::Error>((Payload::json(payload)?, Default::default())))
            .collect();
        self.queue.enqueue_batch(jobs?).await?;
        Ok(())
    }

    async fn claim(&self, worker: String, n: i64) -> Result<Vec<JobHandle>> {
        Ok(self.queue.claim_batch(&worker, n).await?)
    }

    async fn ack(&self, _worker: String, jobs: Vec<JobHandle>) -> Result<usize> {
        match &jobs[..] {
            [job] => Ok(usize::from(job.ack().await?)),
            jobs => Ok(self.queue.ack_batch(jobs).await?),
        }
    }

    async fn publish(&self, payload: Value) -> Result<()> {
        self.stream.publish(Payload::json(&payload)?).await?;
        Ok(())
    }

    async fn publish_batch(&self, payloads: Vec<Value>) -> Result<()> {
        let events: Result<Vec<_>, _> = payloads
            .iter()
            .map(|payload| NewEvent::new(None, Payload::json(payload)?))
            .collect();
        self.stream.publish_batch(events?).await?;
        Ok(())
    }

    async fn read(&self, after: i64, limit: i64) -> Result<(usize, i64)> {
        let events = self.stream.read_since(after, limit).await?;
        Ok((events.len(), events.last().map_or(after, |event| event.offset)))
    }

    async fn notify(&self, channel: String) -> Result<()> {
        Ok(self.store.notify(&channel, Payload::default()).await?)
    }

    async fn listen(&self, channel: String) -> Result<Wakes> {
        Ok(Wakes(self.store.listen(&channel).await?))
    }
}

struct Wakes(WakeReceiver);

impl Listener for Wakes {
    async fn wake(&mut self) -> Result<()> {
        self.0.recv().await.context("the store is closed")?;
        Ok(())
    }
}

fn main() -> Result<()> {
    harness::run::<Esker>()
}
