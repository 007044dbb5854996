//! What every contender is measured with: the same workloads, the same clock, figures as JSON lines.
//!
//! A contender is a program of a few lines: it implements [`Contender`] and calls [`run`]. One process measures one
//! thing, on a store of its own.

mod callers;
mod clock;
mod queue;
mod stream;
mod wake;

use std::{future::Future, time::Duration};

pub use anyhow::Result;
use clap::Parser as _;
pub use serde_json::Value;
use serde_json::json;

/// How the callers of a contender run at the same time: as its users have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Tasks of one runtime.
    Tasks,
    /// A thread each; its calls block.
    Threads,
}

/// Where the store is, and in which way it is to be used.
#[derive(Debug, Clone, clap::Args)]
pub struct Target {
    /// A path for SQLite, a `postgres://` URL for Postgres; it is new and empty
    #[arg(long)]
    pub store: String,
    /// What the contender does differently from its defaults
    #[arg(long, default_value = "default")]
    pub variant: String,
}

impl Target {
    /// Whether the store is on Postgres.
    pub fn is_postgres(&self) -> bool {
        self.store.starts_with("postgres")
    }
}

/// A library under measurement. It has one queue, one stream, and channels. Clones share the store.
pub trait Contender: Clone + Send + Sync + 'static {
    /// How its callers run.
    const CALLERS: Callers;
    /// What a claim gives.
    type Job: Send;
    /// Who waits for wakes.
    type Listener: Listener + 'static;

    /// Opens the store, or makes it.
    fn open(target: Target) -> impl Future<Output = Result<Self>> + Send;

    /// Stores a job.
    fn enqueue(&self, payload: Value) -> impl Future<Output = Result<()>> + Send;

    /// Stores many jobs in one transaction.
    fn enqueue_batch(&self, payloads: Vec<Value>) -> impl Future<Output = Result<()>> + Send;

    /// Claims at most `n` jobs.
    fn claim(&self, worker: String, n: i64) -> impl Future<Output = Result<Vec<Self::Job>>> + Send;

    /// Acknowledges what one claim gave, and tells how many claims held.
    fn ack(&self, worker: String, jobs: Vec<Self::Job>) -> impl Future<Output = Result<usize>> + Send;

    /// Appends an event.
    fn publish(&self, payload: Value) -> impl Future<Output = Result<()>> + Send;

    /// Appends many events in one transaction.
    fn publish_batch(&self, payloads: Vec<Value>) -> impl Future<Output = Result<()>> + Send;

    /// Reads events after an offset: how many there are, and the last one's offset.
    fn read(&self, after: i64, limit: i64) -> impl Future<Output = Result<(usize, i64)>> + Send;

    /// Wakes who listens to the channel.
    fn notify(&self, channel: String) -> impl Future<Output = Result<()>> + Send;

    /// Listens to the channel.
    fn listen(&self, channel: String) -> impl Future<Output = Result<Self::Listener>> + Send;

    /// Puts many jobs into the queue before the clock runs: the quickest way that it has.
    fn fill_queue(&self, payloads: Vec<Value>) -> impl Future<Output = Result<()>> + Send {
        self.enqueue_batch(payloads)
    }

    /// Puts many events into the stream before the clock runs: the quickest way that it has.
    fn fill_stream(&self, payloads: Vec<Value>) -> impl Future<Output = Result<()>> + Send {
        self.publish_batch(payloads)
    }
}

/// Who waits for wakes.
pub trait Listener: Send {
    /// Resolves at the next wake.
    fn wake(&mut self) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Debug, clap::Parser)]
struct Args {
    #[command(flatten)]
    target: Target,
    /// What to measure
    #[arg(long)]
    measure: String,
    /// How long a rate is measured
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Listen, and tell when each wake came: the other process of a measurement
    #[arg(long)]
    listen: bool,
}

/// Measures what the command line says and prints figures.
pub fn run<C: Contender>() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let time = Duration::try_from_secs_f64(args.seconds)?;
        let contender = C::open(args.target.clone()).await?;
        if args.listen {
            return wake::tell(&contender).await;
        }
        let (family, rest) = args.measure.split_once('-').unwrap_or((&args.measure, ""));
        match family {
            "enqueue" => queue::enqueue(&contender, rest, time).await,
            "claim" => queue::claim(&contender, rest, time).await,
            "depth" => queue::depth(&contender, rest.parse()?, time).await,
            "publish" => stream::publish(&contender, rest, time).await,
            "read" => stream::read(&contender, time).await,
            "wake" => wake::across_processes(&contender, &args.target, time).await,
            "idle" => wake::idle(&contender, time).await,
            _ => anyhow::bail!("nothing is measured under the name `{}`", args.measure),
        }
    })?;
    // Threads that wait for a wake would wait for ever.
    std::process::exit(0);
}

/// Prints a figure.
fn figure(name: &str, unit: &str, value: f64) {
    println!("{}", json!({"figure": name, "unit": unit, "value": value}));
}

/// A payload of some 190 bytes of JSON.
fn payload(number: u64) -> Value {
    json!({
        "id": number,
        "to": "alice@example.com",
        "subject": "your order is on its way",
        "text": "We have handed it to the carrier today. It will be with you in two or three days, and you can follow it.",
    })
}

/// So many payloads.
fn payloads(count: usize) -> Vec<Value> {
    (0..count as u64).map(payload).collect()
}
