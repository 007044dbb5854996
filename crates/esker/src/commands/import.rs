//! `esker import`: JSON lines of events into the store, checked, in batches and constant memory.

mod check;
mod read;
mod report;

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use esker_events_api::{EventStore, Outcome};
use esker_nostr::Event;
use tokio::sync::mpsc::{self, error::TryRecvError};

use crate::{commands::Context, exit::Exit, lines, progress, store};
use check::Verdict;
use read::{Item, Reading};
use report::Report;

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads what strfry, nostr-rs-relay and `esker export` write: one event a line. A line that is no valid event is \
reported and left out; the others go on. Nothing is kept that the rules refuse: a replaced version, a deleted or \
expired event. Ctrl-C stops after what was read so far is committed. Exit code 3: some lines were not valid.

Examples:
  esker import backup.jsonl.zst
  strfry export | esker import -
  esker import --rejects rejects.jsonl a.jsonl b.jsonl.gz
  esker import --no-verify trusted.jsonl      twice as fast, for lines that a
                                              relay has checked before")]
pub(crate) struct Import {
    /// Files of JSON lines, .gz and .zst too; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Trust the signatures; ids are checked all the same
    #[arg(long)]
    no_verify: bool,
    /// Write every refused line to this file, as JSON lines: source, line, reason
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
}

/// At most so many events are committed together.
const BATCH: usize = 2_000;

/// Runs the command.
pub(crate) async fn run(mut context: Context, args: Import) -> anyhow::Result<Exit> {
    let total = size(&args.files)?;
    let store = store::open(&context.config, store::Missing::Create, None)?;
    let bar = progress::bytes(total, context.json);
    let mut report = Report::new(args.rejects.as_deref(), bar.clone())?;

    let checkers = check::start(&store, !args.no_verify)?;
    let (items, reading) = read::start(args.files, checkers, bar.clone())?;
    let failure = commit(&mut context, store.as_ref(), items, &reading, &mut report)
        .await
        .err();
    reading.stop();
    store.close().await;
    bar.finish_and_clear();

    let interrupted = context.interrupt.is_set();
    report.finish(context.json, interrupted)?;
    match failure {
        Some(failure) => Err(failure),
        None if interrupted => Ok(Exit::Interrupted),
        None if report.has_invalid() => Ok(Exit::Partly),
        None => Ok(Exit::Done),
    }
}

/// Bytes of all files together; none where a pipe is among them. A file that is missing is told before any work.
fn size(files: &[PathBuf]) -> anyhow::Result<Option<u64>> {
    let mut total = Some(0);
    for file in files {
        if lines::is_pipe(file) {
            total = None;
        } else {
            let data = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
            total = total.map(|total| total + data.len());
        }
    }
    Ok(total)
}

/// Commits what is read and checked, in the order of the input, until its end. After an interruption what was
/// handed over already is committed still.
async fn commit(
    context: &mut Context,
    store: &dyn EventStore,
    mut items: mpsc::Receiver<Item>,
    reading: &Reading,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut batch = Batch::default();
    loop {
        let interrupted = context.interrupt.is_set();
        if interrupted {
            reading.stop();
        }
        let item = match items.try_recv() {
            Ok(item) => Some(item),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) if interrupted => None,
            Err(TryRecvError::Empty) => {
                // Nothing is ready: what has gathered need not wait for more.
                batch.commit(store, report).await?;
                tokio::select! {
                    item = items.recv() => item,
                    _ = context.interrupt.wait() => continue,
                }
            }
        };
        match item {
            None => return batch.commit(store, report).await,
            Some(Item::Failed(failure)) => {
                batch.commit(store, report).await?;
                return Err(failure);
            }
            Some(Item::Block(block)) => {
                let checked = block.await.context("a checking thread ended early")?;
                for (line, verdict) in checked.verdicts {
                    report.read += 1;
                    match verdict {
                        Verdict::Valid(event) => {
                            batch.events.push(event);
                            batch.places.push((Arc::clone(&checked.source), line));
                        }
                        Verdict::Duplicate => report.duplicates += 1,
                        Verdict::Invalid(reason) => report.invalid(&checked.source, line, &reason)?,
                    }
                }
                if batch.events.len() >= BATCH {
                    batch.commit(store, report).await?;
                }
            }
        }
    }
}

/// Events that are committed together, and where each was read.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<Event>>,
    places: Vec<(Arc<str>, u64)>,
}

impl Batch {
    async fn commit(&mut self, store: &dyn EventStore, report: &mut Report) -> anyhow::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let outcomes = store.insert_batch(std::mem::take(&mut self.events)).await;
        let mut failure = None;
        for ((source, line), outcome) in self.places.drain(..).zip(outcomes) {
            match outcome {
                Outcome::Stored => report.stored += 1,
                Outcome::Ephemeral => report.ephemeral += 1,
                Outcome::Duplicate => report.duplicates += 1,
                Outcome::Replaced => report.replaced += 1,
                Outcome::Rejected(_) => report.rejected(&source, line, &outcome.reply().1)?,
                Outcome::Failed(why) => {
                    report.failed += 1;
                    failure.get_or_insert_with(|| format!("{source}:{line}: the store failed: {why}"));
                }
            }
        }
        report.show_progress();
        match failure {
            Some(failure) => bail!(failure),
            None => Ok(()),
        }
    }
}
