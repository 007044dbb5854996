//! `esker export`: the store, or a part of it, as JSON lines, in constant memory and without a long read.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use esker_events_api::{PageLimits, Query};
use serde_json::json;

use crate::{
    commands::Context,
    exit::Exit,
    filters,
    lines::{self, Output},
    progress, store, table,
};

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The lines are the events' canonical JSON, newest first. Ctrl-C ends the file at a whole line. With --json a \
report goes to standard error.

Examples:
  esker export                      everything, to standard output
  esker export backup.jsonl.zst     compressed by extension: .gz or .zst
  esker export --filter '{\"kinds\":[0,3]}' people.jsonl
  esker export | esker import --store sqlite:copy.db -")]
pub(crate) struct Export {
    /// Where to; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Only what this filter matches; may be repeated
    #[arg(long, value_name = "JSON")]
    filter: Vec<String>,
}

/// What one page may cost: large enough for speed, short enough that checkpoints go on.
pub(crate) const PAGE: PageLimits = PageLimits {
    events: 2_000,
    bytes: 4 << 20,
    time: Duration::from_millis(100),
};

/// Runs the command.
pub(crate) async fn run(context: Context, args: Export) -> anyhow::Result<Exit> {
    let filters = if args.filter.is_empty() {
        filters::parse(&["{}"])?
    } else {
        filters::parse(&args.filter)?
    };
    let store = store::open(&context.config, store::Missing::Refuse, None)?;
    let total = if args.filter.is_empty() {
        Some(store.stats().await?.events)
    } else {
        None
    };
    // On a terminal the lines themselves are the progress.
    let silent = context.json || (lines::is_pipe(&args.file) && io::IsTerminal::is_terminal(&io::stdout()));
    let bar = progress::count(total, silent);

    let query = Query::new(filters).with_limits(PAGE);
    let written = write(&context, store.as_ref(), query, &args.file, |count| {
        bar.set_position(count);
    })
    .await;
    bar.finish_and_clear();
    let Written { events, exit } = written?;
    store.close().await;
    if context.json {
        eprintln!(
            "{}",
            json!({ "exported": events, "interrupted": exit == Exit::Interrupted })
        );
    } else if !lines::is_pipe(&args.file) {
        eprintln!(
            "exported {} events to {}",
            table::number(events),
            args.file.display()
        );
    }
    Ok(exit)
}

/// What [`write()`] did.
pub(crate) struct Written {
    /// Lines.
    pub(crate) events: u64,
    /// Whether it came to the end.
    pub(crate) exit: Exit,
}

/// Writes the result of a query as lines, page by page, until its end, an interruption, or a reader that left.
pub(crate) async fn write(
    context: &Context,
    store: &dyn esker_events_api::EventStore,
    query: Query,
    file: &Path,
    progress: impl Fn(u64),
) -> anyhow::Result<Written> {
    let failed = || format!("cannot write {}", file.display());
    let mut output = Output::create(file).with_context(failed)?;
    let mut events = 0;
    let mut next = Some(query);
    while let Some(query) = next.take() {
        if context.interrupt.is_set() {
            output.finish().with_context(failed)?;
            return Ok(Written {
                events,
                exit: Exit::Interrupted,
            });
        }
        let page = store.page(query).await?;
        for event in &page.events {
            if let Err(error) = output.line(event) {
                return reader_left(error, events).with_context(failed);
            }
            events += 1;
        }
        progress(events);
        next = page.next;
    }
    match output.finish() {
        Ok(()) => Ok(Written {
            events,
            exit: Exit::Done,
        }),
        Err(error) => reader_left(error, events).with_context(failed),
    }
}

/// A reader of the pipe that has enough, such as `head`, is no failure.
fn reader_left(error: io::Error, events: u64) -> io::Result<Written> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(Written {
            events,
            exit: Exit::Done,
        })
    } else {
        Err(error)
    }
}
