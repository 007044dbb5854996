//! `esker bench fanout`: many subscriptions to one author each, and events that concern one of them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use esker_nostr::{EventFields as _, Keys};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    Target,
    client::{self, Reply, Socket},
    measure::{self, Latencies},
    random::Random,
    relay::Relay,
};
use crate::{commands::Context, exit::Exit, progress, table};

/// Arguments of `bench fanout`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Besides the time from publishing to the subscriber, it tells what a connection and a subscription cost the relay in \
memory, where the relay is this program.")]
pub(super) struct FanoutArgs {
    #[command(flatten)]
    target: Target,
    /// Subscriptions, one author each
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    subscriptions: usize,
    /// Connections that hold them
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
    /// Events that are published, one after the other
    #[arg(long, value_name = "N", default_value_t = 500)]
    messages: usize,
}

/// A connection saw this event at this time.
type Delivery = (u64, Instant);

/// So long a relay may take for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the command.
pub(super) async fn run(context: &Context, args: FanoutArgs) -> anyhow::Result<Exit> {
    ensure!(
        args.connections > 0 && args.subscriptions > 0,
        "at least one connection and subscription are needed"
    );
    let each = args.subscriptions.div_ceil(args.connections);
    let settings = [
        format!("limits.subscriptions={}", each.max(300)),
        format!("limits.subscription_bytes={}", (each * 4096).max(4 << 20)),
        format!("limits.connections={}", args.connections.max(20_000) + 10),
        format!("limits.connections_per_ip={}", args.connections.max(20_000) + 10),
    ];
    let relay = Relay::start(context, &args.target, &settings, None).await?;
    let at_start = relay.usage();
    let bar = progress::count(Some(args.subscriptions as u64), context.json);
    bar.set_message("subscribing");
    let mut sockets = Vec::new();
    for _ in 0..args.connections {
        sockets.push(Socket::connect(&relay.url).await?);
    }
    let connected = relay.usage();
    let authors: Vec<Keys> = (0..args.subscriptions as u64)
        .map(|seed| Keys::from_seed(AUTHORS + seed))
        .collect();
    for (socket, authors) in sockets.iter_mut().zip(authors.chunks(each)) {
        for (number, author) in authors.iter().enumerate() {
            let request = format!(
                "[\"REQ\",\"s{number}\",{{\"authors\":[\"{}\"],\"kinds\":[1],\"limit\":0}}]",
                author.public()
            );
            socket.queue(&[request.as_bytes()]);
        }
        socket.flush().await?;
        for _ in authors {
            eose(socket).await?;
            bar.inc(1);
        }
    }
    let subscribed = relay.usage();
    bar.finish_and_clear();

    let (deliveries, delivered) = mpsc::channel(1024);
    let mut listeners = JoinSet::new();
    for socket in sockets {
        listeners.spawn(listen(socket, deliveries.clone()));
    }
    let mut latencies = publish(&relay.url, &authors, args.messages, delivered).await?;
    listeners.abort_all();
    relay.stop().await?;

    let memory = |from: Option<super::relay::Usage>, to: Option<super::relay::Usage>, count: usize| {
        let (from, to) = from.zip(to)?;
        Some(measure::per(
            to.resident.saturating_sub(from.resident),
            count as u64,
        ))
    };
    let figures = json!({
        "bench": "fanout",
        "url": args.target.url,
        "subscriptions": args.subscriptions,
        "connections": args.connections,
        "messages": args.messages,
        "p50_ms": latencies.percentile(50.0),
        "p99_ms": latencies.percentile(99.0),
        "bytes_per_connection": memory(at_start, connected, args.connections),
        "bytes_per_subscription": memory(connected, subscribed, args.subscriptions),
    });
    let mut rows = table::new(["", "figure"]);
    rows.add_row([
        "subscriptions".to_owned(),
        table::number(args.subscriptions as u64),
    ]);
    for (name, figure) in [
        ("p50, ms", "p50_ms"),
        ("p99, ms", "p99_ms"),
        ("bytes per connection", "bytes_per_connection"),
        ("bytes per subscription", "bytes_per_subscription"),
    ] {
        if !figures[figure].is_null() {
            rows.add_row([name.to_owned(), figures[figure].to_string()]);
        }
    }
    measure::report(context, args.target.out.as_deref(), &figures, &rows)?;
    Ok(Exit::Done)
}

/// Publishes events one after the other, each by a random author, and takes the time to its subscriber.
async fn publish(
    url: &str,
    authors: &[Keys],
    messages: usize,
    mut delivered: mpsc::Receiver<Delivery>,
) -> anyhow::Result<Latencies> {
    let mut publisher = Socket::connect(url).await?;
    let mut latencies = Latencies::default();
    let mut random = Random::at(2, 2);
    let now = now();
    for message in 0..messages {
        let author = &authors[random.below(authors.len())];
        let event = author.sign::<&str>(1, now, &[], &format!("message {message}"));
        let key = client::key(event.id().to_string().as_bytes());
        let began = Instant::now();
        publisher.send(&[b"[\"EVENT\",", event.json(), b"]"]).await?;
        loop {
            let (seen, at) = tokio::time::timeout(PATIENCE, delivered.recv())
                .await
                .context("an event did not reach its subscriber")?
                .context("a subscriber was disconnected")?;
            if Some(seen) == key {
                latencies.push(at - began);
                break;
            }
        }
        // The OK too, so that the next event finds the relay at rest.
        while !matches!(Reply::of(publisher.next().await?), Reply::Ok { .. }) {}
    }
    Ok(latencies)
}

/// Keys of this measurement begin here, so that they are not those of a corpus.
const AUTHORS: u64 = 1 << 60;

/// Waits for one EOSE.
pub(super) async fn eose(socket: &mut Socket) -> anyhow::Result<()> {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next())
            .await
            .context("an EOSE is missing")??;
        match Reply::of(message) {
            Reply::Eose => return Ok(()),
            Reply::Other if !message.starts_with(b"[\"AUTH\"") => {
                anyhow::bail!(
                    "the relay answers a REQ with {}",
                    String::from_utf8_lossy(message)
                );
            }
            _ => {}
        }
    }
}

/// Tells of each event that a connection gets, until the measurement ends.
pub(super) async fn listen(mut socket: Socket, deliveries: mpsc::Sender<Delivery>) -> anyhow::Result<()> {
    loop {
        let message = socket.next().await?;
        let at = Instant::now();
        if Reply::of(message) == Reply::Event
            && let Some(key) = client::event_key(message)
            && deliveries.send((key, at)).await.is_err()
        {
            return Ok(());
        }
    }
}

/// Now, in unix seconds.
pub(super) fn now() -> i64 {
    esker_events_api::Clock::system().now()
}
