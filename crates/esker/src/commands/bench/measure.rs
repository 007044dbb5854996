//! Latencies, rates, and the report of a measurement.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use comfy_table::Table;

use crate::{commands::Context, output};

/// Latencies of one kind of operation.
#[derive(Debug, Default, Clone)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(super) fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The latency that this share of operations, in percent, stays within; in milliseconds.
    pub(super) fn percentile(&mut self, percent: f64) -> f64 {
        self.0.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let index = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0
            .get(index.min(self.0.len().saturating_sub(1)))
            .map_or(0.0, |latency| round(latency.as_secs_f64() * 1e3))
    }
}

/// Three decimals, so that JSON is readable.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// How many a second.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(super) fn rate(count: u64, time: Duration) -> f64 {
    round(count as f64 / time.as_secs_f64().max(1e-9))
}

/// The share of a whole, for figures.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(super) fn per(total: u64, count: u64) -> f64 {
    round(total as f64 / count.max(1) as f64)
}

/// Prints the table, or the figures as JSON, and writes them to a file where that is asked for.
pub(super) fn report(
    context: &Context,
    out: Option<&Path>,
    figures: &serde_json::Value,
    table: &Table,
) -> anyhow::Result<()> {
    if let Some(path) = out {
        fs::write(path, format!("{figures:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if context.json {
        output::line(format_args!("{figures:#}"))?;
    } else {
        output::line(table.trim_fmt())?;
    }
    Ok(())
}
