//! `esker count`: how many events filters match.

use serde_json::json;

use crate::{commands::Context, exit::Exit, filters, output, store};

/// Arguments of `count`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  esker count                        everything
  esker count '{\"kinds\":[7]}'
  esker count --json '{\"#t\":[\"nostr\"]}' '{\"#t\":[\"bitcoin\"]}'")]
pub(crate) struct Count {
    /// Filters as a REQ has them; several are alternatives, each event counts once
    #[arg(value_name = "FILTER", default_value = "{}")]
    filters: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: Count) -> anyhow::Result<Exit> {
    let filters = filters::parse(&args.filters)?;
    let store = store::open(&context.config, store::Missing::Refuse, None)?;
    let count = context.unless_interrupted(store.count(filters.into())).await?;
    let Some(count) = count else {
        return Ok(Exit::Interrupted);
    };
    store.close().await;
    if context.json {
        output::line(json!({ "count": count }))?;
    } else {
        output::line(count)?;
    }
    Ok(Exit::Done)
}
