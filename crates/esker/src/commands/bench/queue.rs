//! `esker bench queue`: enqueue, claim and acknowledge, and what a claim costs while many other jobs are there.

use std::time::{Duration, Instant};

use anyhow::ensure;
use esker_coord::{EnqueueOptions, Queue, QueueOptions};

use super::{
    coord::{self, Effort, Figures, Measured, Work},
    measure::Latencies,
};
use crate::{commands::Context, exit::Exit, table};

/// Arguments of `bench queue`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A rate of claims is of jobs claimed and acknowledged. Claims among many jobs are of one job each, and timed alone: on a \
store that waits for the disk, a claim does so too; `--set sqlite.durability=normal` shows the rest.")]
pub(super) struct QueueArgs {
    #[command(flatten)]
    effort: Effort,
    /// Workers that claim at the same time
    #[arg(long, value_name = "N", default_value_t = 16)]
    workers: usize,
    /// Jobs that wait when rates of claims are measured
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    waiting: usize,
    /// Other jobs among which single claims are timed
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 1_000_000])]
    depths: Vec<usize>,
}

/// Jobs of one claim.
const CLAIMS: [i64; 4] = [1, 8, 32, 128];
/// Claims that are timed among other jobs, at most.
const TIMED: usize = 1_000;
/// How long a job is out of the way, in seconds.
const DAY: i64 = 86_400;

/// The others among which a claim looks for its job.
#[derive(Debug, Clone, Copy)]
enum Others {
    Ready,
    Delayed,
    InFlight,
    Dead,
}

/// Runs the command.
pub(super) async fn run(context: &Context, args: QueueArgs) -> anyhow::Result<Exit> {
    ensure!(args.workers > 0, "at least one worker is needed");
    let time = args.effort.time()?;
    let measured = Measured::open(context).await?;
    let mut figures = Figures::new(context, "jobs");
    enqueue(&measured, &args.effort, time, &mut figures).await?;

    for workers in [1, args.workers] {
        for n in CLAIMS {
            let name = format!("claim {n} and acknowledge, {}", count(workers, "worker"));
            figures.begin(&name);
            let queue = queue(&measured)?;
            fill(&queue, args.waiting, EnqueueOptions::default()).await?;
            figures.rate(&name, claim(&queue, workers, n, time).await?);
        }
    }

    let mut depths = args.depths;
    depths.sort_unstable();
    for others in [Others::Ready, Others::Delayed, Others::InFlight, Others::Dead] {
        let (queue, mut there) = (queue(&measured)?, 0);
        for &depth in &depths {
            let name = format!("claim 1 among {} {}", table::number(depth as u64), others.name());
            figures.begin(&name);
            others.add(&queue, depth.saturating_sub(there)).await?;
            there = depth;
            figures.latency(&name, time_claims(&queue, others, time).await?);
        }
    }
    figures.report(context, &args.effort, "queue", &measured)?;
    measured.store.close().await;
    Ok(Exit::Done)
}

async fn enqueue(
    measured: &Measured,
    effort: &Effort,
    time: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    for callers in [1, effort.callers] {
        let name = format!("enqueue, {}", count(callers, "caller"));
        figures.begin(&name);
        let queue = queue(measured)?;
        let work = coord::repeat(callers, time, move |caller| {
            let queue = queue.clone();
            async move {
                queue.enqueue(coord::payload(caller as u64)).await?;
                Ok(1)
            }
        });
        figures.rate(&name, work.await?);
    }
    let batch = effort.batch;
    let name = format!("enqueue {} at a time", table::number(batch as u64));
    figures.begin(&name);
    let queue = queue(measured)?;
    let work = coord::repeat(1, time, move |_| {
        let queue = queue.clone();
        async move {
            queue
                .enqueue_batch(jobs(batch, EnqueueOptions::default()))
                .await?;
            Ok(batch)
        }
    });
    figures.rate(&name, work.await?);
    Ok(())
}

async fn claim(queue: &Queue, workers: usize, n: i64, time: Duration) -> anyhow::Result<Work> {
    let queue = queue.clone();
    coord::repeat(workers, time, move |worker| {
        let queue = queue.clone();
        async move {
            let jobs = queue.claim_batch(&format!("worker-{worker}"), n).await?;
            let acknowledged = queue.ack_batch(&jobs).await?;
            ensure!(
                acknowledged == jobs.len(),
                "{acknowledged} of {} claims held",
                jobs.len()
            );
            Ok(acknowledged)
        }
    })
    .await
}

/// Claims single jobs, and takes the time of the claims alone.
async fn time_claims(queue: &Queue, others: Others, time: Duration) -> anyhow::Result<Latencies> {
    // Where the others are ready, they are what is claimed, but for these that make up for it.
    fill(queue, TIMED, EnqueueOptions::default()).await?;
    let (began, mut latencies) = (Instant::now(), Latencies::default());
    let mut claims = 0;
    while claims < TIMED && began.elapsed() < time {
        let called = Instant::now();
        let job = queue.claim_one("worker").await?;
        latencies.push(called.elapsed());
        ensure!(
            match job {
                Some(job) => job.ack().await?,
                None => false,
            },
            "a job that waits was not claimed"
        );
        claims += 1;
    }
    // What is left over is none of the others.
    if !matches!(others, Others::Ready) {
        while claims < TIMED {
            let jobs = queue.claim_batch("worker", 128).await?;
            ensure!(!jobs.is_empty(), "jobs that wait were not claimed");
            claims += queue.ack_batch(&jobs).await?;
        }
    }
    Ok(latencies)
}

impl Others {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed at a higher priority",
            Self::InFlight => "in flight",
            Self::Dead => "dead",
        }
    }

    /// Adds so many.
    async fn add(self, queue: &Queue, count: usize) -> anyhow::Result<()> {
        /// Jobs that one claim or one sweep moves.
        const MOVED: usize = 10_000;
        let options = match self {
            Self::Ready | Self::InFlight => EnqueueOptions::default(),
            Self::Delayed => EnqueueOptions {
                delay: Some(DAY),
                priority: 1,
                ..EnqueueOptions::default()
            },
            Self::Dead => EnqueueOptions {
                expires: Some(0),
                ..EnqueueOptions::default()
            },
        };
        let mut left = count;
        while left > 0 {
            let now = left.min(MOVED);
            fill(queue, now, options).await?;
            match self {
                Self::Ready | Self::Delayed => {}
                Self::InFlight => {
                    let mut claimed = 0;
                    while claimed < now {
                        let more = queue.claim_batch("elsewhere", 1_000).await?.len();
                        ensure!(more > 0, "jobs that wait were not claimed");
                        claimed += more;
                    }
                }
                Self::Dead => {
                    queue.sweep_expired().await?;
                }
            }
            left -= now;
        }
        Ok(())
    }
}

/// A queue of its own, whose claims hold until the measurement is over.
fn queue(measured: &Measured) -> anyhow::Result<Queue> {
    let options = QueueOptions {
        visibility_timeout_s: DAY,
        ..QueueOptions::default()
    };
    Ok(measured.store.queue(&coord::unique("queue"), options)?)
}

async fn fill(queue: &Queue, count: usize, options: EnqueueOptions) -> anyhow::Result<()> {
    const BATCH: usize = 1_000;
    let mut left = count;
    while left > 0 {
        let now = left.min(BATCH);
        queue.enqueue_batch(jobs(now, options)).await?;
        left -= now;
    }
    Ok(())
}

fn jobs(count: usize, options: EnqueueOptions) -> Vec<(esker_coord::Payload, EnqueueOptions)> {
    (0..count as u64)
        .map(|number| (coord::payload(number), options))
        .collect()
}

/// `1 worker`, `4 workers`.
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
