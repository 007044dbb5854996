//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{commands, exit};

/// A Nostr relay on one SQLite file, and the tools around it.
///
/// `esker serve` with no configuration is a working relay: its store is ./esker.db, its port 7447 on loopback.
#[derive(Debug, Parser)]
#[command(version, after_help = exit::HELP, after_long_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Configuration file [default: ./esker.toml if there is one]
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where everything is kept: sqlite:PATH or a path; for queues, streams, locks and schedules also postgres://…
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Set any configuration key, as `esker config` lists them; may be repeated
    #[arg(
        short = 's',
        long = "set",
        global = true,
        help_heading = "Everywhere",
        value_name = "KEY=VALUE"
    )]
    pub(crate) set: Vec<String>,
    /// Write machine-readable JSON instead of text
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the relay
    Serve(commands::serve::Serve),
    /// Read JSON lines of events into the store
    Import(commands::import::Import),
    /// Write the store, or a part of it, as JSON lines
    Export(commands::export::Export),
    /// Print the events that filters match, newest first
    Query(commands::query::QueryArgs),
    /// Count the events that filters match
    Count(commands::count::Count),
    /// Delete events by filter or id
    Delete(commands::delete::Delete),
    /// Show what the store holds
    #[command(after_help = "Examples:\n  esker stats\n  esker stats --json | jq '.kinds[0]'")]
    Stats,
    /// Store jobs, count them by state, and look after the dead ones
    Queue(commands::queue::QueueArgs),
    /// Publish and follow events of streams
    Stream(commands::stream::StreamArgs),
    /// Run a command under a lock, show who holds which, and release one
    Lock(commands::lock::LockArgs),
    /// Enqueue jobs every so often
    Schedule(commands::schedule::ScheduleArgs),
    /// Show the effective configuration and where each value comes from
    Config(commands::config::ConfigArgs),
    /// Measure this relay or another
    Bench(commands::bench::Bench),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    const WIDTH: usize = 80;

    fn check(command: &clap::Command) {
        let name = command.get_name();
        let help = command.clone().term_width(WIDTH).render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
        let usage = command.clone().render_usage().to_string();
        if let Some(all) = command
            .get_arguments()
            .find(|arg| ["all", "lines"].contains(&arg.get_id().as_str()))
        {
            assert!(usage.contains(&format!("|{all}>")), "{usage}");
        }
        let epilogue = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let is_prose = |line: &&str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        let mut lines = epilogue.lines().peekable();
        while let Some(line) = lines.next() {
            // What is laid out must not be wrapped; what is wrapped must not have been.
            assert!(is_prose(&line) || line.chars().count() <= WIDTH, "{name}: {line}");
            assert!(
                !(is_prose(&line) && lines.peek().is_some_and(is_prose)),
                "{name}: {line}"
            );
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn help_reads_well_on_a_narrow_terminal() {
        let mut command = Cli::command();
        command.build();
        check(&command);
    }
}
