//! `esker bench wake`: how soon another process is woken, and what waiting for nothing costs.

use std::{io::Write as _, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use esker_coord::{Payload, Store, postgres, sqlite};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::ChildStdout,
};

use super::{
    coord::{self, Measured},
    measure::{self, Latencies},
    relay,
};
use crate::{commands::Context, exit::Exit, progress, table};

/// Arguments of `bench wake`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The time is from the call of notify to the wake in another process, one notification after the other with pauses between \
them. The idle process is one that has the listeners and nothing to do.")]
pub(super) struct WakeArgs {
    /// Notifications
    #[arg(long, value_name = "N", default_value_t = 500)]
    messages: usize,
    /// Listeners of the process that idles
    #[arg(long, value_name = "N", default_value_t = 100)]
    listeners: usize,
    /// How long it idles
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Listen to this channel, and tell when each wake comes: the other process
    #[arg(long, value_name = "CHANNEL", hide = true)]
    listen: Option<String>,
}

/// Pauses between notifications; neither is a multiple of the other, nor of a watcher's cadence.
const PAUSES: [Duration; 2] = [Duration::from_micros(5_300), Duration::from_micros(8_700)];
/// So long a wake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command.
pub(super) async fn run(context: &Context, args: WakeArgs) -> anyhow::Result<Exit> {
    let time = Duration::try_from_secs_f64(args.seconds).context("`--seconds` is out of range")?;
    let measured = Measured::open(context).await?;
    if let Some(channel) = args.listen {
        return listen(&measured.store, &channel).await;
    }
    ensure!(
        args.messages > 0 && args.listeners > 0 && args.seconds > 0.0,
        "at least one notification, one listener and some time are needed"
    );
    let bar = progress::count(None, context.json);
    bar.set_message("idling");
    let (idle, counted) = idle(&measured.store, args.listeners, time).await?;
    bar.set_message("waking");
    let mut latencies = wake(context, &measured, args.messages).await?;
    bar.finish_and_clear();

    let mut figures = json!({
        "bench": "wake",
        "engine": measured.store.kind(),
        "messages": args.messages,
        "p50_ms": latencies.percentile(50.0),
        "p90_ms": latencies.percentile(90.0),
        "p99_ms": latencies.percentile(99.0),
        "listeners": args.listeners,
        "idle_percent_of_a_core": idle,
    });
    let mut rows = table::new(["", "figure"]);
    for (name, figure) in [
        ("wake of another process, p50, ms", "p50_ms"),
        ("p90, ms", "p90_ms"),
        ("p99, ms", "p99_ms"),
        ("listeners of the idle process", "listeners"),
        ("its processor time, % of a core", "idle_percent_of_a_core"),
    ] {
        rows.add_row([name.to_owned(), figures[figure].to_string()]);
    }
    for (name, figure) in &counted {
        rows.add_row([
            format!("{} while idle, per second", name.replace('_', " ")),
            figure.to_string(),
        ]);
    }
    figures["idle_per_second"] = Value::Object(counted);
    measure::report(context, args.out.as_deref(), &figures, &rows)?;
    measured.store.close().await;
    Ok(Exit::Done)
}

/// The other process: tells when each wake came, until it is ended.
async fn listen(store: &Store, channel: &str) -> anyhow::Result<Exit> {
    let mut receiver = store.listen(channel).await?;
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    while receiver.recv().await.is_some() {
        writeln!(output, "{}", now().as_nanos())?;
        output.flush()?;
    }
    Ok(Exit::Done)
}

/// The time from each notification to its wake in another process.
async fn wake(context: &Context, measured: &Measured, messages: usize) -> anyhow::Result<Latencies> {
    let channel = coord::unique("wake");
    let mut command = relay::program(context)?;
    command.args(["bench", "wake", "--listen", &channel, "--store", &measured.place]);
    for setting in context.config.set_by_flags() {
        if !setting.starts_with("store=") {
            command.args(["--set", &setting]);
        }
    }
    let mut process = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process that listens")?;
    let output = process.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(output).lines();
    let ready = line(&mut lines).await?;
    ensure!(ready == "ready", "the process that listens says {ready}");
    let mut latencies = Latencies::default();
    for number in 0..messages {
        tokio::time::sleep(PAUSES[number % PAUSES.len()]).await;
        let called = now();
        measured.store.notify(&channel, Payload::default()).await?;
        // A wake may repeat: what came before the call is not its own.
        let woken = loop {
            let woken = Duration::from_nanos(line(&mut lines).await?.parse()?);
            if woken >= called {
                break woken;
            }
        };
        latencies.push(woken.saturating_sub(called));
    }
    process.kill().await?;
    Ok(latencies)
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    tokio::time::timeout(PATIENCE, lines.next_line())
        .await
        .context("a wake did not come")??
        .context("the process that listens has ended")
}

/// The share of a core, in percent, that this process uses while its listeners wait, and what its store does meanwhile.
async fn idle(store: &Store, listeners: usize, time: Duration) -> anyhow::Result<(f64, Map<String, Value>)> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..listeners {
        let mut receiver = store.listen(&coord::unique("idle")).await?;
        tasks.spawn(async move { while receiver.recv().await.is_some() {} });
    }
    // What opening left to do is not idling.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (began, used) = (now(), processor());
    let before = counters(store);
    tokio::time::sleep(time).await;
    let (idled, after) = (now().saturating_sub(began), counters(store));
    let share = processor().saturating_sub(used).as_secs_f64() / idled.as_secs_f64();
    let counted = before.iter().zip(after).map(|((name, before), (_, after))| {
        let rate = measure::rate(after - before, idled);
        ((*name).to_owned(), json!(rate))
    });
    Ok((measure::round(share * 100.0), counted.collect()))
}

/// What the engine counts of its work.
fn counters(store: &Store) -> Vec<(&'static str, u64)> {
    if let Some(engine) = store.engine::<sqlite::SqliteEngine>() {
        let stats = engine.database().stats();
        vec![
            ("commits", stats.commits),
            ("reads", stats.reads),
            ("looks_for_commits_elsewhere", stats.watcher_looks),
        ]
    } else if let Some(engine) = store.engine::<postgres::PostgresEngine>() {
        let stats = engine.stats();
        vec![("statements", stats.statements), ("polls", stats.polls)]
    } else {
        Vec::new()
    }
}

/// Now, on a clock that all processes share.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    now.try_into().expect("this clock is not negative")
}

/// The processor time that this process used so far.
fn processor() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.try_into().expect("this clock is not negative")
}
