//! What an import did: figures, and every line that was refused.

use std::{collections::BTreeMap, io, path::Path, time::Instant};

use anyhow::Context as _;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;

use crate::{lines::Output, output, table};

/// The figures; lines that were refused are told as they come.
#[derive(Serialize)]
pub(super) struct Report {
    /// Lines read, blank ones not counted.
    pub(super) read: u64,
    /// Events that are in the store now and were not before.
    pub(super) stored: u64,
    /// Events that lost against a stored version.
    pub(super) replaced: u64,
    /// Events that were stored already.
    pub(super) duplicates: u64,
    /// Events of kinds that are not kept.
    pub(super) ephemeral: u64,
    /// Events that the store's rules refuse, by reason.
    rejected: BTreeMap<String, u64>,
    /// Lines that are no valid event.
    invalid: u64,
    /// Events that the store failed to take.
    pub(super) failed: u64,
    #[serde(skip)]
    rejects: Option<Output>,
    #[serde(skip)]
    shown: u64,
    #[serde(skip)]
    bar: ProgressBar,
    #[serde(skip)]
    started: Instant,
}

/// So many refused lines are shown; `--rejects` has them all.
const SHOWN: u64 = 10;

impl Report {
    /// A report that begins; refused lines go to `rejects` too.
    pub(super) fn new(rejects: Option<&Path>, bar: ProgressBar) -> anyhow::Result<Self> {
        let rejects = rejects
            .map(|path| Output::create(path).with_context(|| format!("cannot write {}", path.display())))
            .transpose()?;
        Ok(Self {
            read: 0,
            stored: 0,
            replaced: 0,
            duplicates: 0,
            ephemeral: 0,
            rejected: BTreeMap::new(),
            invalid: 0,
            failed: 0,
            rejects,
            shown: 0,
            bar,
            started: Instant::now(),
        })
    }

    /// A line that is no valid event.
    pub(super) fn invalid(&mut self, source: &str, line: u64, reason: &str) -> io::Result<()> {
        self.invalid += 1;
        self.refused(source, line, reason)
    }

    /// An event that the store's rules refuse.
    pub(super) fn rejected(&mut self, source: &str, line: u64, reason: &str) -> io::Result<()> {
        *self.rejected.entry(reason.to_owned()).or_default() += 1;
        self.refused(source, line, reason)
    }

    fn refused(&mut self, source: &str, line: u64, reason: &str) -> io::Result<()> {
        self.shown += 1;
        if self.shown <= SHOWN {
            self.bar.suspend(|| eprintln!("{source}:{line}: {reason}"));
        } else if self.shown == SHOWN + 1 {
            self.bar.suspend(|| {
                eprintln!("more refused lines are counted, not shown; `--rejects FILE` keeps them all");
            });
        }
        match &mut self.rejects {
            Some(file) => file.line(
                json!({ "source": source, "line": line, "reason": reason })
                    .to_string()
                    .as_bytes(),
            ),
            None => Ok(()),
        }
    }

    /// Whether a line was no valid event.
    pub(super) fn has_invalid(&self) -> bool {
        self.invalid > 0
    }

    /// Shows how far it is on the bar.
    pub(super) fn show_progress(&self) {
        self.bar
            .set_message(format!("{} stored", table::number(self.stored)));
    }

    /// Ends the file of refused lines and prints the figures.
    pub(super) fn finish(&mut self, json: bool, interrupted: bool) -> anyhow::Result<()> {
        if let Some(rejects) = self.rejects.take() {
            rejects.finish().context("cannot write the refused lines")?;
        }
        if json {
            let mut figures = serde_json::to_value(&*self)?;
            figures["interrupted"] = interrupted.into();
            figures["seconds"] = self.started.elapsed().as_secs_f64().into();
            output::line(format_args!("{figures:#}"))?;
            return Ok(());
        }
        let mut rows = vec![("read", self.read), ("stored", self.stored)];
        rows.extend(
            [
                ("replaced", self.replaced),
                ("duplicates", self.duplicates),
                ("ephemeral", self.ephemeral),
            ]
            .into_iter()
            .filter(|(_, count)| *count > 0),
        );
        rows.extend(
            self.rejected
                .iter()
                .map(|(reason, count)| (reason.as_str(), *count)),
        );
        rows.extend(
            [("invalid", self.invalid), ("failed", self.failed)]
                .into_iter()
                .filter(|(_, count)| *count > 0),
        );
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, count) in rows {
            output::line(format_args!("{name:width$}  {:>11}", table::number(count)))?;
        }
        if interrupted {
            output::line("stopped early; what is stored stays")?;
        }
        Ok(())
    }
}
