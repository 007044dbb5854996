//! Builds every contender, runs them in turns, and prints medians and ratios.

mod plan;
mod run;
mod table;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use serde_json::json;

use plan::{MEASURES, TABLES};

/// Measures Esker's coordination store beside honker, alkstore and plain statements, in one run.
#[derive(Debug, clap::Parser)]
struct Args {
    /// Postgres too: the URL of a server on which databases may be made and dropped
    #[arg(long, value_name = "postgres://…")]
    postgres: Option<String>,
    /// Postgres only
    #[arg(long, requires = "postgres")]
    no_sqlite: bool,
    /// Rounds; in each, every contender is measured once in everything
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long a rate is measured
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only measures whose name begins so; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Where SQLite files go, on the disk that is to be measured [default: the temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Write each single figure to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Each single value of a figure: by table, figure and column.
type Values = BTreeMap<(usize, String, usize), Vec<f64>>;

fn main() -> Result<()> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in the workspace");
    build(root)?;
    let mut out = args.out.as_ref().map(File::create).transpose()?;
    let (mut values, mut units) = (Values::new(), BTreeMap::new());
    for round in 0..args.rounds {
        for measure in MEASURES.iter().filter(|measure| args.wants(measure)) {
            for (table, plan) in TABLES.iter().enumerate() {
                if plan.postgres && args.postgres.is_none() || !plan.postgres && args.no_sqlite {
                    continue;
                }
                for turn in 0..plan.columns.len() {
                    // Nobody is always the first.
                    let number = (turn + round) % plan.columns.len();
                    let column = &plan.columns[number];
                    if !column.measures(measure) {
                        continue;
                    }
                    eprintln!(
                        "round {} of {}: {measure}, {}",
                        round + 1,
                        args.rounds,
                        column.title
                    );
                    let server = args.postgres.as_deref().filter(|_| plan.postgres);
                    let figures = match run::once(root, column, measure, &args, server) {
                        Ok(figures) => figures,
                        Err(error) => {
                            eprintln!("  left out: {error:#}");
                            continue;
                        }
                    };
                    for figure in figures {
                        if let Some(out) = &mut out {
                            let line = json!({
                                "round": round + 1, "table": plan.title, "contender": column.title,
                                "figure": figure.name, "unit": figure.unit, "value": figure.value, "load": load(),
                            });
                            writeln!(out, "{line}")?;
                        }
                        units.insert(figure.name.clone(), figure.unit);
                        values
                            .entry((table, figure.name, number))
                            .or_default()
                            .push(figure.value);
                    }
                }
            }
        }
    }
    if let Some(server) = &args.postgres {
        run::drop_database(server)?;
    }
    println!("{} rounds; load average at the end {}", args.rounds, load());
    table::print(&values, &units);
    Ok(())
}

impl Args {
    fn wants(&self, measure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| measure.starts_with(name.as_str()))
    }
}

/// Builds both workspaces, each into a folder of its own.
fn build(root: &Path) -> Result<()> {
    for (manifest, target) in [("Cargo.toml", "target"), ("peers/Cargo.toml", "target/peers")] {
        // In the workspace, so that SQLite is compiled for all as it is for Esker: see `.cargo/config.toml`.
        let status = Command::new("cargo")
            .current_dir(root)
            .args([
                "build",
                "--workspace",
                "--release",
                "--locked",
                "--quiet",
                "--manifest-path",
            ])
            .arg(root.join(manifest))
            .arg("--target-dir")
            .arg(root.join(target))
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "{manifest} does not build");
    }
    Ok(())
}

/// The load averages of the machine, where it tells.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
