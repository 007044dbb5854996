//! `esker stats`: what the store holds.

use std::fmt::Write as _;

use esker_events_api::Stats;
use serde_json::json;

use crate::{commands::Context, exit::Exit, output, store, table};

/// Runs the command.
pub(crate) async fn run(context: Context) -> anyhow::Result<Exit> {
    let store = store::open(&context.config, store::Missing::Refuse, None)?;
    let stats = store.stats().await?;
    store.close().await;
    if context.json {
        output::line(format_args!("{:#}", to_json(&stats)))?;
    } else {
        output::line(to_text(&stats))?;
    }
    Ok(Exit::Done)
}

fn to_json(stats: &Stats) -> serde_json::Value {
    let kinds: Vec<_> = stats
        .kinds
        .iter()
        .map(|kind| json!({ "kind": kind.kind, "events": kind.events, "json_bytes": kind.json_bytes }))
        .collect();
    json!({
        "events": stats.events,
        "json_bytes": stats.json_bytes,
        "disk_bytes": stats.disk_bytes,
        "oldest": stats.oldest,
        "newest": stats.newest,
        "kinds": kinds,
    })
}

fn to_text(stats: &Stats) -> String {
    let mut text = format!(
        "events    {}\nas JSON   {}\non disk   {}",
        table::number(stats.events),
        table::bytes(stats.json_bytes),
        table::bytes(stats.disk_bytes)
    );
    if let (Some(oldest), Some(newest)) = (stats.oldest, stats.newest) {
        let _ = write!(
            text,
            "\noldest    {}\nnewest    {}",
            table::time(oldest),
            table::time(newest)
        );
    }
    if !stats.kinds.is_empty() {
        let mut kinds = stats.kinds.clone();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.events));
        let mut rows = table::new(["kind", "events", "JSON"]);
        for kind in kinds {
            rows.add_row([
                kind.kind.to_string(),
                table::number(kind.events),
                table::bytes(kind.json_bytes),
            ]);
        }
        let _ = write!(text, "\n\n{}", rows.trim_fmt());
    }
    text
}
