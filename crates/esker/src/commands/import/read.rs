//! Reading the input on a thread of its own: lines into blocks, blocks to the checking threads.

use std::{
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use tokio::sync::{mpsc, oneshot};

use super::check::{self, Block, Checked, Checkers, LINE_BYTES};
use crate::lines::{self, Line};

/// What the reading thread hands over, in the order of the input.
pub(super) enum Item {
    /// A block that is being checked.
    Block(oneshot::Receiver<Checked>),
    /// The input could not be read further.
    Failed(anyhow::Error),
}

/// The reading thread.
pub(super) struct Reading(Arc<AtomicBool>);

impl Reading {
    /// Ends it at its next block; one that waits for a pipe ends with the process.
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A block is full at so many lines or bytes.
const BLOCK_LINES: usize = 500;
const BLOCK_BYTES: usize = 1 << 19;
const READ_BUFFER: usize = 1 << 18;

/// Starts reading the files, one after the other.
pub(super) fn start(
    files: Vec<PathBuf>,
    checkers: Checkers,
    bar: ProgressBar,
) -> io::Result<(mpsc::Receiver<Item>, Reading)> {
    let (sender, receiver) = mpsc::channel(2 * check::threads());
    let stopped = Arc::new(AtomicBool::new(false));
    let reading = Reading(Arc::clone(&stopped));
    thread::Builder::new().name("read".into()).spawn(move || {
        let reader = Reader {
            checkers,
            items: sender,
            stopped,
            bar,
        };
        for file in files {
            match reader.read(&file) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // The receiver is gone when the import was stopped.
                    let _ = reader.items.blocking_send(Item::Failed(error));
                    break;
                }
            }
        }
    })?;
    Ok((receiver, reading))
}

struct Reader {
    checkers: Checkers,
    items: mpsc::Sender<Item>,
    stopped: Arc<AtomicBool>,
    bar: ProgressBar,
}

impl Reader {
    /// Reads one file; whether to go on with the next.
    fn read(&self, file: &Path) -> anyhow::Result<bool> {
        let source: Arc<str> = if lines::is_pipe(file) {
            "-".into()
        } else {
            file.to_string_lossy().into()
        };
        let input = lines::open(file, |raw| self.bar.wrap_read(raw))
            .with_context(|| format!("cannot read {source}"))?;
        let mut input = BufReader::with_capacity(READ_BUFFER, input);
        let empty = || Block {
            source: Arc::clone(&source),
            text: Vec::new(),
            lines: Vec::new(),
        };
        let mut block = empty();
        let mut number = 0;
        loop {
            let start = block.text.len();
            let line = lines::read_line(&mut input, LINE_BYTES, &mut block.text);
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    block.text.truncate(start);
                    self.hand_over(block);
                    return Err(error).with_context(|| format!("cannot read {source} after line {number}"));
                }
            };
            number += 1;
            match line {
                Line::End => return Ok(self.hand_over(block)),
                Line::TooLong => block.lines.push((number, None)),
                Line::Whole if block.text[start..].trim_ascii().is_empty() => block.text.truncate(start),
                Line::Whole => block.lines.push((number, Some(block.text.len()))),
            }
            // What a slow pipe gave does not wait for more.
            let full = block.lines.len() >= BLOCK_LINES || block.text.len() >= BLOCK_BYTES;
            if (full || input.buffer().is_empty())
                && (self.stopped.load(Ordering::Relaxed)
                    || !self.hand_over(std::mem::replace(&mut block, empty())))
            {
                return Ok(false);
            }
        }
    }

    /// Sends a block to be checked and to be waited for; whether anybody still wants it.
    fn hand_over(&self, block: Block) -> bool {
        if block.lines.is_empty() {
            return true;
        }
        let (answer, checked) = oneshot::channel();
        self.checkers.send((block, answer)).is_ok() && self.items.blocking_send(Item::Block(checked)).is_ok()
    }
}
