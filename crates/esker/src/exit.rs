//! How the program ends: one exit code per meaning.

use std::process::ExitCode;

/// The meaning of an exit code; `esker --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed: the disk, the network, the store.
    Failed = 1,
    /// The command line or the configuration is wrong; nothing was done.
    Usage = 2,
    /// Done, but some of the input was not valid and was left out.
    Partly = 3,
    /// Stopped by Ctrl-C or SIGTERM; what was done until then stands.
    Interrupted = 130,
}

/// The codes as `--help` shows them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed: the disk, the network, the store
  2    the command line or the configuration is wrong; nothing was done
  3    done, but some of the input was not valid and was left out
  130  stopped by Ctrl-C or SIGTERM; what was done until then stands (`serve` drains and ends with 0)";

/// A mistake on the command line or in the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

impl Exit {
    /// The code of an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() || error.downcast_ref().is_some_and(is_refusal) {
            Self::Usage
        } else {
            Self::Failed
        }
    }
}

/// Whether the coordination store refused what it was given, before it did anything.
fn is_refusal(error: &esker_coord::Error) -> bool {
    use esker_coord::Error::{InvalidName, InvalidOption, InvalidSpec, ReservedName};
    matches!(
        error,
        InvalidName { .. } | ReservedName { .. } | InvalidSpec { .. } | InvalidOption { .. }
    )
}

/// What went wrong and why, each cause once: many an error's text holds that of its cause.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            // `Error code 14: unable to open` after `unable to open` adds the code alone.
            let new = match cause.split_once(": ") {
                Some((new, told)) if text.contains(told) => new,
                _ => &cause,
            };
            text = format!("{text}: {new}");
        }
    }
    text
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
