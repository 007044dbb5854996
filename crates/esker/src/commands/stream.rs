//! `esker stream`: events in and out, and how far consumers have come.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use esker_coord::{NewEvent, Store, Stream, StreamEvent, inspection::StreamInspection};
use serde_json::json;

use crate::{
    absent::{self, Absent},
    commands::Context,
    coordination::{self, outlast},
    exit::Exit,
    output::{self, printable},
    payloads::{self, Payloads},
    store::Missing,
    table,
};

/// Arguments of `stream`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Events are printed one a line: offset, time, key and payload with tabs between, or JSON with --json.

Examples:
  esker stream list
  esker stream publish orders '{\"item\":\"tea\"}' --key customer-7
  esker stream read orders --after 1000 --limit 10
  esker stream tail orders --consumer billing   from what it has saved, and
                                                saves nothing
  esker stream trim orders 5000                 deletes up to offset 5000")]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the streams
    List,
    /// Append events, and print their offsets
    Publish(Publish),
    /// Print events
    Read(Read),
    /// Print events as they come, until Ctrl-C
    Tail(Tail),
    /// Delete the oldest events
    Trim(Trim),
    /// List the consumers of a stream, with what they have saved
    Offsets(Name),
}

#[derive(Debug, clap::Args)]
struct Name {
    /// The stream
    stream: String,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "esker stream publish [OPTIONS] <STREAM> <PAYLOAD|--lines>")]
struct Publish {
    /// The stream
    stream: String,
    #[command(flatten)]
    payloads: Payloads,
    /// A key that the events carry
    #[arg(long)]
    key: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Read {
    /// The stream
    stream: String,
    /// Events after this offset
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    after: i64,
    /// Events after what this consumer has saved
    #[arg(long, value_name = "NAME", conflicts_with = "after")]
    consumer: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: i64,
}

#[derive(Debug, clap::Args)]
struct Tail {
    /// The stream
    stream: String,
    /// Begin after this offset [default: with the next event]
    #[arg(long, value_name = "OFFSET")]
    after: Option<i64>,
    /// Begin after what this consumer has saved
    #[arg(long, value_name = "NAME", conflicts_with = "after")]
    consumer: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Trim {
    /// The stream
    stream: String,
    /// The last offset to delete
    horizon: i64,
}

/// Events that are read at once.
const PAGE: i64 = 256;

/// How long at most `tail` trusts a wake to come.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) async fn run(context: Context, args: StreamArgs) -> anyhow::Result<Exit> {
    let missing = match args.command {
        Command::Publish(_) => Missing::Create,
        _ => Missing::Refuse,
    };
    let store = coordination::open(&context.config, missing).await?;
    let exit = context
        .unless_interrupted(act(&store, args.command, context.json))
        .await;
    store.close().await;
    Ok(exit?.unwrap_or(Exit::Interrupted))
}

async fn act(store: &Store, command: Command, json: bool) -> anyhow::Result<Exit> {
    match command {
        Command::List => list(&store.inspect().await?.streams, json)?,
        Command::Publish(args) => publish(store, args).await?,
        Command::Read(args) => {
            let stream = store.stream(&args.stream)?;
            let mut after = match &args.consumer {
                Some(consumer) => saved(store, &stream, consumer).await?,
                None => args.after,
            };
            let mut left = args.limit;
            let mut found = false;
            while left > 0 {
                let events = stream.read_since(after, left.min(PAGE)).await?;
                let Some(last) = events.last() else { break };
                found = true;
                (after, left) = (last.offset, left - i64::try_from(events.len())?);
                if !print(&events, json)? {
                    break;
                }
            }
            if !found {
                find(store, &args.stream).await?;
            }
        }
        Command::Tail(args) => tokio::select! {
            ended = tail(store, args, json) => ended?,
            () = output::closed() => {}
        },
        Command::Trim(args) => {
            let deleted = store.stream(&args.stream)?.trim_to(args.horizon).await?;
            if deleted == 0 {
                find(store, &args.stream).await?;
            }
            if json {
                output::line(json!({ "deleted": deleted }))?;
            } else {
                output::line(format_args!("deleted {deleted}"))?;
            }
        }
        Command::Offsets(args) => {
            store.stream(&args.stream)?;
            offsets(&find(store, &args.stream).await?, json)?;
        }
    }
    Ok(Exit::Done)
}

async fn publish(store: &Store, args: Publish) -> anyhow::Result<()> {
    let stream = store.stream(&args.stream)?;
    let mut batches = args.payloads.read();
    while let Some(batch) = batches.recv().await {
        let events = batch?
            .into_iter()
            .map(|payload| NewEvent::new(args.key.as_deref(), payload));
        for offset in stream.publish_batch(events.collect::<Result<_, _>>()?).await? {
            output::line(offset)?;
        }
    }
    Ok(())
}

async fn tail(store: &Store, args: Tail, json: bool) -> anyhow::Result<()> {
    let stream = store.stream(&args.stream)?;
    // Before the first read, so that no event falls between them.
    let mut wakes = stream.listen().await?;
    let last = match find(store, &args.stream).await {
        Ok(found) => found.last,
        Err(absent) if absent.is::<Absent>() => {
            eprintln!("{absent}\nwaiting for its first event");
            0
        }
        Err(error) => return Err(error),
    };
    let mut after = match (args.after, &args.consumer) {
        (Some(offset), _) => offset,
        (None, Some(consumer)) => saved(store, &stream, consumer).await?,
        (None, None) => last,
    };
    loop {
        let events = match stream.read_since(after, PAGE).await {
            Ok(events) => events,
            Err(error) => {
                outlast(store, error).await?;
                continue;
            }
        };
        match events.last() {
            Some(last) => {
                after = last.offset;
                if !print(&events, json)? {
                    return Ok(());
                }
            }
            None => {
                wakes.recv_timeout(LOOK_AGAIN).await?;
            }
        }
    }
}

/// What the consumer has saved. One that has saved nothing begins at the start, and may be mistyped: that is worth a look
/// at the whole store.
async fn saved(store: &Store, stream: &Stream, consumer: &str) -> anyhow::Result<i64> {
    let offset = stream.get_offset(consumer).await?;
    if offset == 0
        && let Ok(found) = find(store, stream.name()).await
        && let Err(absent) = absent::find("offset of consumer", consumer, found.consumers, |one| &one.name)
    {
        eprintln!("{absent}\nbeginning at the start");
    }
    Ok(offset)
}

/// The stream as it is; the error is [`Absent`] when nothing was ever published to it.
async fn find(store: &Store, name: &str) -> anyhow::Result<StreamInspection> {
    let streams = store.inspect().await?.streams;
    Ok(absent::find("stream", name, streams, |stream| &stream.name)?)
}

/// Prints events, and tells whether somebody reads on.
fn print(events: &[StreamEvent], json: bool) -> io::Result<bool> {
    let mut text = String::new();
    for event in events {
        let line = if json {
            let fields = json!({
                "offset": event.offset,
                "created_at": event.created_at,
                "key": event.key,
                "payload": payloads::json(&event.payload),
            });
            fields.to_string()
        } else {
            format!(
                "{}\t{}\t{}\t{}",
                event.offset,
                table::time(event.created_at),
                printable(event.key.as_deref().unwrap_or("")),
                payloads::text(&event.payload),
            )
        };
        text.push_str(&line);
        text.push('\n');
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

fn list(streams: &[StreamInspection], json: bool) -> anyhow::Result<()> {
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(streams)?))?;
        return Ok(());
    }
    let mut rows = table::new(["stream", "first", "last", "consumers", "largest lag"]);
    for stream in streams {
        let lag = stream.consumers.iter().map(|consumer| consumer.lag).max();
        rows.add_row([
            printable(&stream.name),
            stream.first.map_or_else(String::new, |first| first.to_string()),
            stream.last.to_string(),
            stream.consumers.len().to_string(),
            lag.map_or_else(String::new, |lag| lag.to_string()),
        ]);
    }
    output::line(rows.trim_fmt())?;
    Ok(())
}

fn offsets(stream: &StreamInspection, json: bool) -> anyhow::Result<()> {
    let consumers = &stream.consumers;
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(consumers)?))?;
        return Ok(());
    }
    let mut rows = table::new(["consumer", "offset", "lag"]);
    for consumer in consumers {
        rows.add_row([
            printable(&consumer.name),
            consumer.offset.to_string(),
            consumer.lag.to_string(),
        ]);
    }
    output::line(rows.trim_fmt())?;
    Ok(())
}
