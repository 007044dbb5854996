//! The coordination store that is measured, callers that work on it at the same time, and the table of what they did.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use comfy_table::Table;
use esker_coord::{Payload, Store};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::measure::{self, Latencies};
use crate::{
    commands::Context,
    coordination,
    exit::Usage,
    progress,
    store::{self, Missing},
    table,
};

/// What every measurement of a store takes.
#[derive(Debug, clap::Args)]
pub(super) struct Effort {
    /// How long each rate is measured
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Callers that work at the same time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(super) callers: usize,
    /// Jobs or events in a batch, and in a page that is read
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) batch: usize,
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

impl Effort {
    /// How long each rate is measured; what makes no sense is refused.
    pub(super) fn time(&self) -> anyhow::Result<Duration> {
        ensure!(
            self.callers > 0 && self.batch > 0 && self.seconds > 0.0,
            "at least one caller, a batch of one and some time are needed"
        );
        Duration::try_from_secs_f64(self.seconds).context("`--seconds` is too large")
    }
}

/// The store under measurement.
pub(super) struct Measured {
    pub(super) store: Store,
    /// Where it is: another process can open it too.
    pub(super) place: String,
    // Removed when the measurement is over.
    _folder: Option<tempfile::TempDir>,
}

impl Measured {
    /// The store that the user names, or a new SQLite file in a temporary folder.
    pub(super) async fn open(context: &Context) -> anyhow::Result<Self> {
        let (place, folder) = if context.config.is_chosen("store") {
            (context.config.text("store").to_owned(), None)
        } else {
            let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
            (folder.path().join("bench.db").display().to_string(), Some(folder))
        };
        let location = store::location(&place).map_err(Usage)?;
        let store = coordination::open_at(&context.config, location, Missing::Create).await?;
        Ok(Self {
            store,
            place,
            _folder: folder,
        })
    }
}

/// A name that no other measurement has: what an earlier one left in the store is not found.
pub(super) fn unique(what: &str) -> String {
    let nanoseconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    format!("bench-{what}-{nanoseconds:x}")
}

/// Some 250 bytes of JSON.
pub(super) fn payload(number: u64) -> Payload {
    const TEXT: &str = "We have handed your order to the carrier today. It will be with you in two or three days, and you can \
                        follow its way with the number that is at the end of this message.";
    format!("{{\"id\":{number},\"to\":\"alice@example.com\",\"subject\":\"your order\",\"text\":\"{TEXT}\"}}")
        .into()
}

/// What callers did in some time.
pub(super) struct Work {
    done: u64,
    time: Duration,
    latencies: Latencies,
}

impl Work {
    /// So much in one go.
    pub(super) fn of(done: u64, time: Duration) -> Self {
        Self {
            done,
            time,
            latencies: Latencies::default(),
        }
    }
}

/// Lets so many callers repeat `work`, which tells how much it did, until the time is over or nothing is left to do.
pub(super) async fn repeat<W, F>(callers: usize, time: Duration, work: W) -> anyhow::Result<Work>
where
    W: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = anyhow::Result<usize>> + Send + 'static,
{
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let work = work.clone();
        tasks.spawn(async move {
            let (mut done, mut latencies) = (0, Latencies::default());
            while began.elapsed() < time {
                let called = Instant::now();
                match work(caller).await? {
                    0 => break,
                    more => done += more as u64,
                }
                latencies.push(called.elapsed());
            }
            anyhow::Ok((done, latencies))
        });
    }
    let (mut done, mut latencies) = (0, Latencies::default());
    while let Some(result) = tasks.join_next().await {
        let (more, others) = result??;
        done += more;
        latencies.extend(others);
    }
    Ok(Work {
        done,
        time: began.elapsed(),
        latencies,
    })
}

/// The figures of a measurement as they come in: a table for people, JSON for machines.
pub(super) struct Figures {
    rows: Table,
    values: Vec<Value>,
    bar: ProgressBar,
}

impl Figures {
    /// Figures of so much of something per second.
    pub(super) fn new(context: &Context, what: &str) -> Self {
        Self {
            rows: table::new(["", &format!("{what}/s"), "p50 ms", "p99 ms"]),
            values: Vec::new(),
            bar: progress::count(None, context.json),
        }
    }

    /// What is measured next.
    pub(super) fn begin(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// A rate, and how long one call took.
    pub(super) fn rate(&mut self, name: &str, mut work: Work) {
        let rate = measure::rate(work.done, work.time);
        self.add(name, Some(rate), &mut work.latencies);
    }

    /// How long one call took.
    pub(super) fn latency(&mut self, name: &str, mut latencies: Latencies) {
        self.add(name, None, &mut latencies);
    }

    fn add(&mut self, name: &str, rate: Option<f64>, latencies: &mut Latencies) {
        let (p50, p99) = (latencies.percentile(50.0), latencies.percentile(99.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive and far from the largest number"
        )]
        let shown = rate.map_or_else(String::new, |rate| table::number(rate.round() as u64));
        self.rows
            .add_row([name.to_owned(), shown, p50.to_string(), p99.to_string()]);
        self.values
            .push(json!({"name": name, "per_second": rate, "p50_ms": p50, "p99_ms": p99}));
        self.bar.inc(1);
    }

    /// Prints and writes what came in.
    pub(super) fn report(
        self,
        context: &Context,
        effort: &Effort,
        bench: &str,
        measured: &Measured,
    ) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let figures = json!({"bench": bench, "engine": measured.store.kind(), "figures": self.values});
        measure::report(context, effort.out.as_deref(), &figures, &self.rows)
    }
}
