//! Checking events on all cores: form, id, signature, and before the signature whether it is stored already.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use esker_events_api::EventStore;
use esker_nostr::{Event, EventFields as _};
use tokio::{runtime::Handle, sync::oneshot};

/// Lines of one source, in order; the thread that reads fills it, one that checks empties it.
pub(super) struct Block {
    /// The source's name.
    pub(super) source: Arc<str>,
    /// The lines, one after the other.
    pub(super) text: Vec<u8>,
    /// For each line its number and where it ends in `text`; none for one that was too long to keep.
    pub(super) lines: Vec<(u64, Option<usize>)>,
}

/// What became of a block: a verdict for each line.
pub(super) struct Checked {
    /// The source's name.
    pub(super) source: Arc<str>,
    /// Line numbers and verdicts, in order.
    pub(super) verdicts: Vec<(u64, Verdict)>,
}

/// What a line holds.
pub(super) enum Verdict {
    /// A valid event.
    Valid(Arc<Event>),
    /// An event that is stored already.
    Duplicate,
    /// No valid event; why.
    Invalid(String),
}

/// Where blocks to check are sent, with where the answer goes.
pub(super) type Checkers = mpsc::SyncSender<(Block, oneshot::Sender<Checked>)>;

/// The bound of a line: no event that a relay takes comes near.
pub(super) const LINE_BYTES: usize = 8 << 20;

/// How many threads check.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Starts a checking thread per core; they end when the sender is dropped.
pub(super) fn start(store: &Arc<dyn EventStore>, verify: bool) -> io::Result<Checkers> {
    let (sender, receiver) = mpsc::sync_channel::<(Block, oneshot::Sender<Checked>)>(threads());
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..threads() {
        let (receiver, store, runtime) = (Arc::clone(&receiver), Arc::clone(store), Handle::current());
        thread::Builder::new().name("check".into()).spawn(move || {
            loop {
                let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok((block, answer)) = next else { break };
                // Nobody waits for the answer any more when the import was stopped.
                let _ = answer.send(check(block, store.as_ref(), verify, &runtime));
            }
        })?;
    }
    Ok(sender)
}

fn check(block: Block, store: &dyn EventStore, verify: bool, runtime: &Handle) -> Checked {
    let mut start = 0;
    let mut verdicts: Vec<(u64, Verdict)> = Vec::with_capacity(block.lines.len());
    for (line, end) in block.lines {
        let Some(end) = end else {
            verdicts.push((
                line,
                Verdict::Invalid(format!(
                    "invalid: the line is longer than {} MiB",
                    LINE_BYTES >> 20
                )),
            ));
            continue;
        };
        verdicts.push((
            line,
            match Event::parse(&block.text[start..end]) {
                Ok(event) => Verdict::Valid(Arc::new(event)),
                Err(error) => Verdict::Invalid(error.to_string()),
            },
        ));
        start = end;
    }
    // A second import of the same lines costs no signature checks.
    let ids = verdicts.iter().filter_map(|(_, verdict)| match verdict {
        Verdict::Valid(event) => Some(event.id()),
        _ => None,
    });
    // If the store cannot answer, the insertion tells why.
    let stored = runtime
        .block_on(store.contains(ids.collect()))
        .unwrap_or_default();
    let mut stored = stored.into_iter();
    for (_, verdict) in &mut verdicts {
        let Verdict::Valid(event) = verdict else { continue };
        if stored.next().unwrap_or(false) {
            *verdict = Verdict::Duplicate;
        } else if verify && let Err(error) = event.verify() {
            *verdict = Verdict::Invalid(error.to_string());
        }
    }
    Checked {
        source: block.source,
        verdicts,
    }
}
