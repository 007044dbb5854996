//! `esker bench ingest`: publish a corpus over several connections, each with so many events under way.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::BufRead as _,
    io::BufReader,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use esker_nostr::Event;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    Source, Target,
    client::{self, Reply, Socket},
    corpus,
    measure::{self, Latencies},
    relay::Relay,
};
use crate::{
    commands::Context,
    exit::Exit,
    lines, progress,
    store::{self, Missing},
    table,
};

/// Arguments of `bench ingest`.
#[derive(Debug, clap::Args)]
pub(super) struct IngestArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    source: Source,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: usize,
    /// Events of one connection that wait for their OK
    #[arg(long, value_name = "N", default_value_t = 100)]
    window: usize,
    /// Insert into a store in this process, without sockets and signature checks
    #[arg(long, conflicts_with = "url")]
    direct: bool,
}

/// What one connection, or all of them, saw.
#[derive(Default)]
struct Tally {
    accepted: u64,
    refused: BTreeMap<String, u64>,
    latencies: Latencies,
}

/// Lines of the corpus, handed to whichever connection is free.
type Lines = Arc<tokio::sync::Mutex<mpsc::Receiver<Vec<Bytes>>>>;

/// Runs the command.
pub(super) async fn run(context: &Context, args: IngestArgs) -> anyhow::Result<Exit> {
    ensure!(
        args.connections > 0 && args.window > 0,
        "at least one connection and a window of one are needed"
    );
    let (corpus, _folder) = corpus::provide(context, &args.source)?;
    let alone = verification_alone(&corpus)?;
    let (lines, bar) = read(&corpus, context.json)?;

    let (mut tally, time, cpu, resident) = if args.direct {
        let began = Instant::now();
        let tally = direct(context, &args, lines).await?;
        (tally, began.elapsed(), None, None)
    } else {
        let relay = Relay::start(context, &args.target, &[], None).await?;
        let before = relay.usage();
        let began = Instant::now();
        let tally = over_sockets(&relay.url, &args, lines).await?;
        let time = began.elapsed();
        let after = relay.usage();
        relay.stop().await?;
        (
            tally,
            time,
            before
                .zip(after)
                .map(|(before, after)| after.cpu_us - before.cpu_us),
            after,
        )
    };
    bar.finish_and_clear();

    let refused: u64 = tally.refused.values().sum();
    let answered = tally.accepted + refused;
    let figures = json!({
        "bench": "ingest",
        "url": args.target.url,
        "direct": args.direct,
        "connections": args.connections,
        "window": args.window,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "seconds": measure::round(time.as_secs_f64()),
        "ok_per_second": measure::rate(answered, time),
        "verification_alone_per_second": alone,
        "latency_ms": {
            "p50": tally.latencies.percentile(50.0),
            "p99": tally.latencies.percentile(99.0),
            "max": tally.latencies.percentile(100.0),
        },
        "relay_cpu_us_per_event": cpu.map(|cpu| measure::per(cpu, answered)),
        "relay_memory": resident,
    });
    let mut rows = table::new(["", "figure"]);
    rows.add_row(["accepted".to_owned(), table::number(tally.accepted)]);
    for (reason, count) in &tally.refused {
        rows.add_row([format!("refused, {reason}"), table::number(*count)]);
    }
    rows.add_row(["seconds", &figures["seconds"].to_string()]);
    rows.add_row(["OK/s", &figures["ok_per_second"].to_string()]);
    rows.add_row([
        "verification alone, events/s",
        &figures["verification_alone_per_second"].to_string(),
    ]);
    for name in ["p50", "p99", "max"] {
        rows.add_row([
            format!("latency {name}, ms"),
            figures["latency_ms"][name].to_string(),
        ]);
    }
    if let Some(resident) = resident {
        rows.add_row([
            "relay CPU per event, us",
            &figures["relay_cpu_us_per_event"].to_string(),
        ]);
        rows.add_row(["relay resident".to_owned(), table::bytes(resident.resident)]);
        rows.add_row(["relay anonymous".to_owned(), table::bytes(resident.anonymous)]);
    }
    measure::report(context, args.target.out.as_deref(), &figures, &rows)?;
    Ok(Exit::Done)
}

/// How many events all cores check in a second when they do nothing else: parsing, id, signature.
fn verification_alone(corpus: &Path) -> anyhow::Result<f64> {
    let sample: Vec<Vec<u8>> = BufReader::new(lines::open(corpus, |raw| raw)?)
        .split(b'\n')
        .take(2_000)
        .collect::<Result<_, _>>()?;
    let began = Instant::now();
    for line in &sample {
        let _ = Event::parse(line).map(|event| event.verify());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Ok(measure::rate(sample.len() as u64 * cores, began.elapsed()))
}

/// Reads the corpus on a thread of its own, a block of lines at a time.
fn read(corpus: &Path, json: bool) -> anyhow::Result<(Lines, indicatif::ProgressBar)> {
    let bar = progress::bytes(
        File::open(corpus)
            .and_then(|file| file.metadata())
            .map(|data| data.len())
            .ok(),
        json,
    );
    let counted = bar.clone();
    let input = lines::open(corpus, move |raw| counted.wrap_read(raw))
        .with_context(|| format!("cannot read {}", corpus.display()))?;
    let (sender, receiver) = mpsc::channel(16);
    std::thread::Builder::new().name("read".into()).spawn(move || {
        let mut lines = BufReader::with_capacity(1 << 20, input)
            .split(b'\n')
            .map_while(Result::ok)
            .map(Bytes::from);
        loop {
            let block: Vec<Bytes> = lines.by_ref().take(64).collect();
            if block.is_empty() || sender.blocking_send(block).is_err() {
                break;
            }
        }
    })?;
    Ok((Arc::new(tokio::sync::Mutex::new(receiver)), bar))
}

async fn over_sockets(url: &str, args: &IngestArgs, lines: Lines) -> anyhow::Result<Tally> {
    let mut tasks = JoinSet::new();
    for _ in 0..args.connections {
        let socket = Socket::connect(url).await?;
        tasks.spawn(publish(socket, Arc::clone(&lines), args.window));
    }
    let mut all = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        let tally = tally??;
        all.accepted += tally.accepted;
        all.latencies.extend(tally.latencies);
        for (reason, count) in tally.refused {
            *all.refused.entry(reason).or_default() += count;
        }
    }
    Ok(all)
}

/// Publishes lines on one connection until there are none, with at most `window` under way.
async fn publish(mut socket: Socket, lines: Lines, window: usize) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut under_way: HashMap<u64, Instant> = HashMap::with_capacity(window);
    let mut waiting = Vec::new();
    let mut ended = false;
    loop {
        while under_way.len() < window && !ended {
            if let Some(line) = waiting.pop() {
                let line: Bytes = line;
                let Some(key) = client::event_key(&line) else {
                    continue;
                };
                // The same event twice under way would have one answer in this count.
                if under_way.insert(key, Instant::now()).is_none() {
                    socket.queue(&[b"[\"EVENT\",", &line, b"]"]);
                }
            } else if let Some(mut block) = lines.lock().await.recv().await {
                block.reverse();
                waiting = block;
            } else {
                ended = true;
            }
        }
        if under_way.is_empty() {
            return Ok(tally);
        }
        socket.flush().await?;
        let message = tokio::time::timeout(PATIENCE, socket.next())
            .await
            .context("an OK is missing")??;
        tally.take(message, &mut under_way);
        while let Some(message) = socket.ready()? {
            tally.take(message, &mut under_way);
        }
    }
}

/// So long a relay may take for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

impl Tally {
    fn take(&mut self, message: &[u8], under_way: &mut HashMap<u64, Instant>) {
        let Reply::Ok { id, accepted } = Reply::of(message) else {
            return;
        };
        let Some(began) = client::key(id).and_then(|key| under_way.remove(&key)) else {
            return;
        };
        self.latencies.push(began.elapsed());
        if accepted {
            self.accepted += 1;
        } else {
            // `["OK",<id>,false,"prefix: text"]`
            let text = client::after(message, b"false")
                .and_then(|rest| client::after(rest, b"\""))
                .unwrap_or_default();
            let prefix = text
                .split(|byte| matches!(byte, b':' | b'"'))
                .next()
                .unwrap_or_default();
            *self
                .refused
                .entry(String::from_utf8_lossy(prefix).into_owned())
                .or_default() += 1;
        }
    }
}

/// Inserts into a store of this process, each task one event at a time: `connections` times `window` callers.
async fn direct(context: &Context, args: &IngestArgs, lines: Lines) -> anyhow::Result<Tally> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let store = store::open_at(
        &context.config,
        &store::file(folder.path().join("bench.db")),
        Missing::Create,
        None,
    )?;
    let all = Arc::new(Mutex::new(Tally::default()));
    let mut tasks = JoinSet::new();
    for _ in 0..args.connections * args.window {
        let (store, lines, all) = (Arc::clone(&store), Arc::clone(&lines), Arc::clone(&all));
        tasks.spawn(async move {
            loop {
                let block = lines.lock().await.recv().await;
                let Some(block) = block else { return anyhow::Ok(()) };
                for line in block {
                    let Ok(event) = Event::parse(&line) else { continue };
                    let began = Instant::now();
                    let (accepted, text) = store.insert(Arc::new(event)).await.reply();
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.latencies.push(began.elapsed());
                    if accepted {
                        all.accepted += 1;
                    } else {
                        let prefix = text.split(':').next().unwrap_or_default().to_owned();
                        *all.refused.entry(prefix).or_default() += 1;
                    }
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    store.close().await;
    let tally = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(tally)
}
