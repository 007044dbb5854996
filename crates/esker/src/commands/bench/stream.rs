//! `esker bench stream`: publish, read from the first event to the last, and follow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use esker_coord::{NewEvent, Stream};
use tokio::sync::mpsc;

use super::{
    coord::{self, Effort, Figures, Measured},
    measure::Latencies,
};
use crate::{commands::Context, exit::Exit, table};

/// Arguments of `bench stream`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The time to a subscriber is from the call of publish to the event at a subscriber in the same process, one event after \
the other.")]
pub(super) struct StreamArgs {
    #[command(flatten)]
    effort: Effort,
    /// Events in the stream when reads are measured
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: usize,
    /// Events that a subscriber is timed with
    #[arg(long, value_name = "N", default_value_t = 500)]
    messages: usize,
}

/// So long an event may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the command.
pub(super) async fn run(context: &Context, args: StreamArgs) -> anyhow::Result<Exit> {
    let time = args.effort.time()?;
    ensure!(args.events > 0, "at least one event is needed");
    let measured = Measured::open(context).await?;
    let mut figures = Figures::new(context, "events");
    publish(&measured, &args.effort, time, &mut figures).await?;

    let stream = stream(&measured)?;
    figures.begin("filling the stream");
    let mut left = args.events;
    while left > 0 {
        let now = left.min(1_000);
        stream.publish_batch(events(now)?).await?;
        left -= now;
    }
    read(&stream, &args.effort, time, &mut figures).await?;
    follow(&stream, args.events, args.messages, &mut figures).await?;
    figures.report(context, &args.effort, "stream", &measured)?;
    measured.store.close().await;
    Ok(Exit::Done)
}

async fn publish(
    measured: &Measured,
    effort: &Effort,
    time: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    for callers in [1, effort.callers] {
        let plural = if callers == 1 { "" } else { "s" };
        let name = format!("publish, {callers} caller{plural}");
        figures.begin(&name);
        let stream = stream(measured)?;
        let work = coord::repeat(callers, time, move |caller| {
            let stream = stream.clone();
            async move {
                stream.publish(coord::payload(caller as u64)).await?;
                Ok(1)
            }
        });
        figures.rate(&name, work.await?);
    }
    let batch = effort.batch;
    let name = format!("publish {} at a time", table::number(batch as u64));
    figures.begin(&name);
    let stream = stream(measured)?;
    let work = coord::repeat(1, time, move |_| {
        let stream = stream.clone();
        async move {
            stream.publish_batch(events(batch)?).await?;
            Ok(batch)
        }
    });
    figures.rate(&name, work.await?);
    Ok(())
}

/// Reads all pages, over and over.
async fn read(stream: &Stream, effort: &Effort, time: Duration, figures: &mut Figures) -> anyhow::Result<()> {
    let name = format!("read {} at a time", table::number(effort.batch as u64));
    figures.begin(&name);
    let (stream, offset) = (stream.clone(), Arc::new(AtomicI64::new(0)));
    let limit = i64::try_from(effort.batch)?;
    let work = coord::repeat(1, time, move |_| {
        let (stream, offset) = (stream.clone(), Arc::clone(&offset));
        async move {
            let mut page = stream.read_since(offset.load(Ordering::Relaxed), limit).await?;
            if page.is_empty() {
                page = stream.read_since(0, limit).await?;
            }
            let last = page.last().context("the stream is empty")?;
            offset.store(last.offset, Ordering::Relaxed);
            Ok(page.len())
        }
    });
    figures.rate(&name, work.await?);
    Ok(())
}

/// Follows the stream from its first event, then event by event.
async fn follow(stream: &Stream, there: usize, messages: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let name = "subscribe, from the first event";
    figures.begin(name);
    let mut receiver = stream.subscribe("bench").await?;
    let began = Instant::now();
    for _ in 0..there {
        receiver.recv().await.context("the store is closed")??;
    }
    figures.rate(name, coord::Work::of(there as u64, began.elapsed()));

    let name = "publish to a subscriber";
    figures.begin(name);
    let (seen, mut arrivals) = mpsc::channel(1);
    let follower = tokio::spawn(async move {
        while let Some(event) = receiver.recv().await {
            let (event, at) = (event?, Instant::now());
            if seen.send((event.offset, at)).await.is_err() {
                break;
            }
        }
        anyhow::Ok(())
    });
    let mut latencies = Latencies::default();
    for number in 0..messages as u64 {
        let called = Instant::now();
        let offset = stream.publish(coord::payload(number)).await?;
        loop {
            let (arrived, at) = tokio::time::timeout(PATIENCE, arrivals.recv())
                .await
                .context("an event did not reach its subscriber")?
                .context("the subscriber ended")?;
            if arrived == offset {
                latencies.push(at.saturating_duration_since(called));
                break;
            }
        }
    }
    follower.abort();
    figures.latency(name, latencies);
    Ok(())
}

fn stream(measured: &Measured) -> anyhow::Result<Stream> {
    Ok(measured.store.stream(&coord::unique("stream"))?)
}

fn events(count: usize) -> anyhow::Result<Vec<NewEvent>> {
    (0..count as u64)
        .map(|number| Ok(NewEvent::new(None, coord::payload(number))?))
        .collect()
}
