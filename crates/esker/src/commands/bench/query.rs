//! `esker bench query`: REQ to EOSE for each shape of question, alone and by several connections at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    Source, Target,
    client::{Reply, Socket},
    corpus,
    measure::{self, Latencies},
    relay::Relay,
    shapes::{self, Shape},
};
use crate::{commands::Context, exit::Exit, progress, table};

/// Arguments of `bench query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The questions are made from the corpus. A relay of a --url must hold it already: `bench ingest` first. A --store \
that is named must hold it, too; else the corpus is loaded into a new one.")]
pub(super) struct QueryArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    source: Source,
    /// Connections that ask at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Seconds for each shape, alone and together
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    seconds: f64,
}

/// What one asker saw.
#[derive(Default)]
struct Tally {
    latencies: Latencies,
    queries: u64,
    events: u64,
    bytes: u64,
}

/// Runs the command.
pub(super) async fn run(context: &Context, args: QueryArgs) -> anyhow::Result<Exit> {
    ensure!(
        args.connections > 0 && args.seconds > 0.0,
        "at least one connection and some time are needed"
    );
    let (corpus, _folder) = corpus::provide(context, &args.source)?;
    let shapes = shapes::of(&corpus)?;
    let relay = Relay::start(context, &args.target, &[], Some(&corpus)).await?;
    let time = Duration::try_from_secs_f64(args.seconds).context("`--seconds` is too large")?;
    let bar = progress::count(Some(shapes.len() as u64), context.json);
    let mut figures = Vec::new();
    let mut rows = table::new([
        "",
        "events",
        "KiB",
        "p50 ms",
        "p99 ms",
        &format!("queries/s at {}", args.connections),
    ]);
    for shape in shapes {
        bar.set_message(shape.name);
        let name = shape.name;
        let shape = Arc::new(shape);
        // Once round, so that both measurements find the same caches.
        ask_all(&relay.url, &shape).await?;
        let mut alone = ask(&relay.url, &shape, 1, time).await?.0;
        let (together, took) = ask(&relay.url, &shape, args.connections, time).await?;
        let rate = measure::rate(together.queries, took);
        let (p50, p99) = (alone.latencies.percentile(50.0), alone.latencies.percentile(99.0));
        let events = measure::per(alone.events, alone.queries);
        let kib = measure::per(alone.bytes / 1024, alone.queries);
        rows.add_row([
            name.to_owned(),
            events.to_string(),
            kib.to_string(),
            p50.to_string(),
            p99.to_string(),
            rate.to_string(),
        ]);
        figures.push(json!({
            "shape": name, "events": events, "kib": kib, "p50_ms": p50, "p99_ms": p99, "queries_per_second": rate,
        }));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let usage = relay.usage();
    relay.stop().await?;
    let figures = json!({
        "bench": "query", "url": args.target.url, "connections": args.connections, "shapes": figures,
        "relay_memory": usage,
    });
    measure::report(context, args.target.out.as_deref(), &figures, &rows)?;
    Ok(Exit::Done)
}

/// Asks every filter of the shape once.
async fn ask_all(url: &str, shape: &Shape) -> anyhow::Result<()> {
    let mut socket = Socket::connect(url).await?;
    let mut tally = Tally::default();
    for filter in &shape.filters {
        tally.question(&mut socket, filter).await?;
    }
    Ok(())
}

/// Asks over so many connections for so long; all tallies in one, and the time it took.
async fn ask(
    url: &str,
    shape: &Arc<Shape>,
    connections: usize,
    time: Duration,
) -> anyhow::Result<(Tally, Duration)> {
    let mut sockets = Vec::new();
    for _ in 0..connections {
        sockets.push(Socket::connect(url).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for mut socket in sockets {
        let (shape, next) = (Arc::clone(shape), Arc::clone(&next));
        tasks.spawn(async move {
            let mut tally = Tally::default();
            while began.elapsed() < time {
                let filter = &shape.filters[next.fetch_add(1, Ordering::Relaxed) % shape.filters.len()];
                tally.question(&mut socket, filter).await?;
            }
            anyhow::Ok(tally)
        });
    }
    let mut all = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        let tally = tally??;
        all.latencies.extend(tally.latencies);
        all.queries += tally.queries;
        all.events += tally.events;
        all.bytes += tally.bytes;
    }
    Ok((all, began.elapsed()))
}

impl Tally {
    /// One REQ until its EOSE; the CLOSE goes with the next.
    async fn question(&mut self, socket: &mut Socket, filter: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        socket
            .send(&[b"[\"REQ\",\"q\",", filter.as_bytes(), b"]"])
            .await?;
        loop {
            let message = tokio::time::timeout(PATIENCE, socket.next())
                .await
                .context("an EOSE is missing")??;
            self.bytes += message.len() as u64;
            match Reply::of(message) {
                Reply::Event => self.events += 1,
                Reply::Eose => break,
                _ if message.starts_with(b"[\"AUTH\"") => {}
                _ => bail!(
                    "the relay answers {filter} with {}",
                    String::from_utf8_lossy(message)
                ),
            }
        }
        self.latencies.push(began.elapsed());
        self.queries += 1;
        socket.queue(&[b"[\"CLOSE\",\"q\"]"]);
        Ok(())
    }
}

/// So long a relay may take for an answer.
const PATIENCE: Duration = Duration::from_mins(1);
