//! `esker delete`: the operator removes events; nothing is blocked by it.

use esker_events_api::{EventStore, Filters, Query};
use esker_nostr::Filter;
use serde_json::json;

use crate::{
    commands::Context,
    exit::{Exit, Usage},
    filters, output, store,
};

/// Arguments of `delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is deleted may be published again: nothing is blocked. A filter without any condition deletes nothing and \
is refused. A limit keeps to the newest.

Examples:
  esker delete --dry-run '{\"kinds\":[4]}'            how many it would delete
  esker delete '{\"kinds\":[4]}'
  esker delete --id <64 hex digits> --id <64 hex digits>
  esker delete '{\"authors\":[\"<64 hex digits>\"],\"until\":1700000000}'")]
pub(crate) struct Delete {
    /// Filters as a REQ has them; several are alternatives
    #[arg(value_name = "FILTER", required_unless_present = "id")]
    filters: Vec<String>,
    /// An event's id; may be repeated
    #[arg(long, value_name = "HEX")]
    id: Vec<String>,
    /// Only say how many events it would delete
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: Delete) -> anyhow::Result<Exit> {
    let filters = chosen(&args)?;
    let store = store::open(&context.config, store::Missing::Refuse, None)?;
    let outcome = context
        .unless_interrupted(act(store.as_ref(), filters, args.dry_run))
        .await?;
    let Some(count) = outcome else {
        return Ok(Exit::Interrupted);
    };
    store.close().await;
    let verb = if args.dry_run { "would delete" } else { "deleted" };
    if context.json {
        output::line(json!({ verb.replace(' ', "_"): count }))?;
    } else {
        output::line(format_args!("{verb} {count}"))?;
    }
    Ok(Exit::Done)
}

/// The filters of the arguments, ids included; one that would delete nothing is a mistake worth telling.
fn chosen(args: &Delete) -> Result<Filters, Usage> {
    let mut filters = filters::parse(&args.filters)?;
    for (filter, text) in filters.iter().zip(&args.filters) {
        if !Query::may_delete(filter) {
            return Err(Usage(format!(
                "the filter {text} has no condition: it deletes nothing"
            )));
        }
    }
    if !args.id.is_empty() {
        let quoted: Vec<String> = args.id.iter().map(|id| format!("\"{id}\"")).collect();
        if let Some(wrong) = args.id.iter().find(|id| {
            id.len() != 64
                || !id
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
        }) {
            return Err(Usage(format!(
                "`{wrong}` is no event id: 64 lowercase hexadecimal digits are needed"
            )));
        }
        let ids = Filter::parse(format!("{{\"ids\":[{}]}}", quoted.join(",")).as_bytes());
        filters.push(ids.map_err(|error| Usage(error.to_string()))?);
    }
    Ok(filters.into())
}

async fn act(store: &dyn EventStore, filters: Filters, dry_run: bool) -> anyhow::Result<u64> {
    Ok(if dry_run {
        store.count(filters).await?
    } else {
        store.delete(filters).await?
    })
}
