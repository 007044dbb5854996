//! `esker config`: the effective configuration, and where each value comes from.

use crate::{commands::Context, config, exit::Exit, output};

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  esker config                       what is in force, as TOML to use again
  esker config --json                the same for machines
  esker config --reference           every key, with its meaning, as Markdown
  ESKER_LISTEN=0.0.0.0:80 esker config --set relay.name=Home")]
pub(crate) struct ConfigArgs {
    /// Print what every key means instead
    #[arg(long)]
    reference: bool,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &ConfigArgs) -> anyhow::Result<Exit> {
    if args.reference {
        output::line(config::reference().trim_end())?;
    } else if context.json {
        output::line(format_args!("{:#}", context.config.to_json()))?;
    } else {
        output::line(context.config.to_toml().trim_end())?;
    }
    Ok(Exit::Done)
}
