//! How the program ends: one exit code per meaning.

use std::process::ExitCode;

/// The meaning of an exit code; `esker --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed: the disk, the network, the store, or what was named is not there.
    Failed,
    /// The command line or the configuration is wrong; nothing was done.
    Usage,
    /// Done, but some of the input was not valid and was left out.
    Partly,
    /// Stopped by Ctrl-C or SIGTERM; what was done until then stands.
    Interrupted,
    /// As the command ended that was run.
    Command(u8),
}

/// The codes as `--help` shows them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed: the disk, the network, the store, or what was named is not there
  2    the command line or the configuration is wrong; nothing was done
  3    done, but some of the input was not valid and was left out
  130  stopped by Ctrl-C or SIGTERM; what was done until then stands
       (`serve` drains, `schedule run` gives its lead back: both end with 0)
`lock run` ends with the code of its command.";

/// A mistake on the command line or in the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

impl Exit {
    /// The number that the process ends with.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Partly => 3,
            Self::Interrupted => 130,
            Self::Command(code) => code,
        }
    }

    /// The meaning of an error.
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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
