//! `esker bench`: how fast a relay is, this one or any other, on a corpus that is the same each time; and how fast a
//! coordination store is.

mod broadcast;
mod client;
mod coord;
mod corpus;
mod fanout;
mod ingest;
mod measure;
mod query;
mod queue;
mod random;
mod relay;
mod shapes;
mod stream;
mod wake;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{commands::Context, exit::Exit, open_files};

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --url the relay is this program: it is started on a new store in a temporary folder, with the keys that \
--set gives it. Client and relay share the machine. `queue`, `stream` and `wake` measure a coordination store: without \
--store a new SQLite file in a temporary folder, else that one, in which what they write stays: give them a store that \
holds nothing else. Quote medians of several runs.

Examples:
  esker bench corpus --events 100000 corpus.jsonl
  esker bench ingest --corpus corpus.jsonl
  esker bench query --corpus corpus.jsonl --out query.json
  esker bench fanout --subscriptions 50000
  esker bench broadcast --connections 10000
  esker bench ingest --corpus corpus.jsonl --url ws://127.0.0.1:7777
                                        another relay, the same client
  esker bench queue
  esker bench wake --store postgres://user@host/scratch")]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a corpus of signed events as JSON lines
    Corpus(corpus::CorpusArgs),
    /// Publish a corpus: OKs per second and latency
    Ingest(ingest::IngestArgs),
    /// Ask what clients ask, REQ to EOSE: latency alone and queries per second together
    Query(query::QueryArgs),
    /// Publish to one of many subscriptions: time to its subscriber
    Fanout(fanout::FanoutArgs),
    /// Publish to everybody: deliveries per second
    Broadcast(broadcast::BroadcastArgs),
    /// Enqueue, claim and acknowledge jobs, and claim while many wait
    Queue(queue::QueueArgs),
    /// Publish, read and follow events
    Stream(stream::StreamArgs),
    /// Wake another process, and wait for nothing
    Wake(wake::WakeArgs),
}

/// What every measurement takes.
#[derive(Debug, Args)]
struct Target {
    /// The relay to measure [default: this program, started for it]
    #[arg(long, value_name = "ws://…")]
    url: Option<String>,
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Where events come from.
#[derive(Debug, Args)]
struct Source {
    /// JSON lines of events [default: a generated corpus]
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Events of the generated corpus
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,
    /// Seed of the generated corpus
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: Bench) -> anyhow::Result<Exit> {
    open_files::raise();
    let mut interrupt = context.interrupt.clone();
    let work = async {
        match args.command {
            Command::Corpus(args) => corpus::run(&context, &args),
            Command::Ingest(args) => ingest::run(&context, args).await,
            Command::Query(args) => query::run(&context, args).await,
            Command::Fanout(args) => fanout::run(&context, args).await,
            Command::Broadcast(args) => broadcast::run(&context, args).await,
            Command::Queue(args) => queue::run(&context, args).await,
            Command::Stream(args) => stream::run(&context, args).await,
            Command::Wake(args) => wake::run(&context, args).await,
        }
    };
    tokio::select! {
        exit = work => exit,
        _ = interrupt.wait() => Ok(Exit::Interrupted),
    }
}
