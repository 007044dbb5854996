//! `esker bench broadcast`: everybody subscribes to the same, and each event goes to all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use esker_nostr::Keys;
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Target,
    client::{Reply, Socket},
    fanout, measure,
    relay::Relay,
};
use crate::{commands::Context, exit::Exit, progress, table};

/// Arguments of `bench broadcast`.
#[derive(Debug, clap::Args)]
pub(super) struct BroadcastArgs {
    #[command(flatten)]
    target: Target,
    /// Connections, one subscription each
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    connections: usize,
    /// Events that are published, as fast as they are taken
    #[arg(long, value_name = "N", default_value_t = 100)]
    messages: usize,
}

/// How many events reached their subscribers, and who waits for the last.
struct Deliveries {
    count: AtomicU64,
    expected: u64,
    complete: Notify,
}

/// So long the whole measurement may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// Runs the command.
pub(super) async fn run(context: &Context, args: BroadcastArgs) -> anyhow::Result<Exit> {
    ensure!(
        args.connections > 0 && args.messages > 0,
        "at least one connection and message are needed"
    );
    let settings = [
        format!("limits.connections={}", args.connections.max(20_000) + 10),
        format!("limits.connections_per_ip={}", args.connections.max(20_000) + 10),
    ];
    let relay = Relay::start(context, &args.target, &settings, None).await?;
    let author = Keys::from_seed(u64::MAX);
    let bar = progress::count(Some(args.connections as u64), context.json);
    bar.set_message("subscribing");
    let deliveries = Arc::new(Deliveries {
        count: AtomicU64::new(0),
        expected: args.connections as u64 * args.messages as u64,
        complete: Notify::new(),
    });
    let request = format!(
        "[\"REQ\",\"s\",{{\"authors\":[\"{}\"],\"kinds\":[1],\"limit\":0}}]",
        author.public()
    );
    let mut listeners = JoinSet::new();
    for _ in 0..args.connections {
        let mut socket = Socket::connect(&relay.url).await?;
        socket.send(&[request.as_bytes()]).await?;
        fanout::eose(&mut socket).await?;
        listeners.spawn(count(socket, Arc::clone(&deliveries)));
        bar.inc(1);
    }
    bar.finish_and_clear();

    let now = fanout::now();
    let events: Vec<_> = (0..args.messages)
        .map(|message| author.sign::<&str>(1, now, &[], &format!("message {message}")))
        .collect();
    let mut publisher = Socket::connect(&relay.url).await?;
    let before = relay.usage();
    let began = Instant::now();
    for event in &events {
        publisher.queue(&[b"[\"EVENT\",", event.json(), b"]"]);
    }
    publisher.flush().await?;
    tokio::time::timeout(PATIENCE, deliveries.complete.notified())
        .await
        .context("events did not reach everybody")?;
    let time = began.elapsed();
    let cpu = before
        .zip(relay.usage())
        .map(|(before, after)| after.cpu_us - before.cpu_us);
    listeners.abort_all();
    relay.stop().await?;

    let figures = json!({
        "bench": "broadcast",
        "url": args.target.url,
        "connections": args.connections,
        "messages": args.messages,
        "seconds": measure::round(time.as_secs_f64()),
        "deliveries_per_second": measure::rate(deliveries.expected, time),
        "relay_cpu_us_per_delivery": cpu.map(|cpu| measure::per(cpu, deliveries.expected)),
    });
    let mut rows = table::new(["", "figure"]);
    rows.add_row(["deliveries".to_owned(), table::number(deliveries.expected)]);
    rows.add_row(["seconds", &figures["seconds"].to_string()]);
    rows.add_row(["deliveries/s", &figures["deliveries_per_second"].to_string()]);
    if cpu.is_some() {
        rows.add_row([
            "relay CPU per delivery, us",
            &figures["relay_cpu_us_per_delivery"].to_string(),
        ]);
    }
    measure::report(context, args.target.out.as_deref(), &figures, &rows)?;
    Ok(Exit::Done)
}

/// Counts what a connection gets until the measurement ends.
async fn count(mut socket: Socket, deliveries: Arc<Deliveries>) -> anyhow::Result<()> {
    loop {
        let mut events = u64::from(Reply::of(socket.next().await?) == Reply::Event);
        while let Some(message) = socket.ready()? {
            events += u64::from(Reply::of(message) == Reply::Event);
        }
        if deliveries.count.fetch_add(events, Ordering::Relaxed) + events == deliveries.expected {
            deliveries.complete.notify_one();
        }
    }
}
