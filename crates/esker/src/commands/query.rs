//! `esker query`: a REQ against the store.

use std::path::Path;

use esker_events_api::Query;

use crate::{
    commands::{Context, export},
    exit::Exit,
    filters, store,
};

/// Arguments of `query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints canonical JSON, one event a line, newest first; several filters are alternatives.

Examples:
  esker query '{\"kinds\":[1],\"limit\":10}'
  esker query '{\"authors\":[\"<64 hex digits>\"],\"since\":1700000000}'
  esker query '{\"kinds\":[1]}' '{\"#t\":[\"nostr\"]}'    either of the two
  esker query '{\"kinds\":[0]}' | jq -r .content")]
pub(crate) struct QueryArgs {
    /// Filters as a REQ has them
    #[arg(value_name = "FILTER", required = true)]
    filters: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: QueryArgs) -> anyhow::Result<Exit> {
    let filters = filters::parse(&args.filters)?;
    let store = store::open(&context.config, store::Missing::Refuse, None)?;
    let query = Query::new(filters).with_limits(export::PAGE);
    let written = export::write(&context, store.as_ref(), query, Path::new("-"), |_| ()).await?;
    store.close().await;
    Ok(written.exit)
}
