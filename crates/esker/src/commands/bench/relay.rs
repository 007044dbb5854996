//! The relay that is measured: any URL, or this program started on a new store; and what it costs the machine.

use std::{env, fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::Target;
use crate::{commands::Context, progress};

/// The relay under measurement.
pub(super) struct Relay {
    /// Where it listens.
    pub(super) url: String,
    started: Option<Started>,
}

struct Started {
    process: Child,
    // Removed when the measurement is over.
    _folder: Option<tempfile::TempDir>,
}

/// What the process of a relay that this program started used so far.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct Usage {
    /// Processor time, in microseconds.
    pub(super) cpu_us: u64,
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// Its part that is not a mapped file.
    pub(super) anonymous: u64,
}

impl Relay {
    /// The relay of the URL, or one of our own with these settings on top of the user's. `corpus` is loaded
    /// into its store before it starts; a store that the user names is taken as it is.
    pub(super) async fn start(
        context: &Context,
        target: &Target,
        settings: &[String],
        corpus: Option<&PathBuf>,
    ) -> anyhow::Result<Self> {
        if let Some(url) = &target.url {
            return Ok(Self {
                url: url.clone(),
                started: None,
            });
        }
        let (store, folder) = if context.config.is_chosen("store") {
            (context.config.text("store").to_owned(), None)
        } else {
            let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
            (folder.path().join("bench.db").display().to_string(), Some(folder))
        };
        if let (Some(corpus), Some(_)) = (corpus, &folder) {
            load(context, &store, corpus).await?;
        }
        let mut command = program(context)?;
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            &store,
            "--set",
            "log.level=warn",
        ]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        // The user's settings win over those of the measurement.
        for setting in context
            .config
            .set_by_flags()
            .filter(|setting| !setting.starts_with("store="))
        {
            command.args(["--set", &setting]);
        }
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the relay")?;
        let output = process.stdout.take().expect("it is piped");
        let line = BufReader::new(output).lines().next_line().await?;
        let Some(url) = line
            .as_deref()
            .and_then(|line| line.strip_prefix("listening on "))
        else {
            bail!("the relay did not start: {}", process.wait().await?);
        };
        Ok(Self {
            url: url.to_owned(),
            started: Some(Started {
                process,
                _folder: folder,
            }),
        })
    }

    /// What its process used so far, where it is ours and the system tells.
    pub(super) fn usage(&self) -> Option<Usage> {
        let id = self.started.as_ref()?.process.id()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        // Fields 14 and 15, counted from the name in parentheses; in hundredths of a second on Linux.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let kib = |name: &str| -> Option<u64> {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        };
        Some(Usage {
            cpu_us: ticks * 10_000,
            resident: kib("VmRSS:")? << 10,
            anonymous: kib("RssAnon:")? << 10,
        })
    }

    /// Ends a relay of our own: cleanly first.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Some(mut started) = self.started else {
            return Ok(());
        };
        if let Some(id) = started
            .process
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
        {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        }
        if tokio::time::timeout(Duration::from_secs(15), started.process.wait())
            .await
            .is_err()
        {
            started.process.kill().await?;
        }
        Ok(())
    }
}

/// This program, with what the measurement was told about the configuration.
pub(super) fn program(context: &Context) -> anyhow::Result<Command> {
    let mut command = Command::new(env::current_exe().context("this program has no path")?);
    command.kill_on_drop(true).stdin(Stdio::null());
    if let Some(file) = context.config.file() {
        command.arg("--config").arg(file);
    }
    Ok(command)
}

/// Loads a corpus into a new store. Its signatures are our own or were measured before.
async fn load(context: &Context, store: &str, corpus: &PathBuf) -> anyhow::Result<()> {
    let bar = progress::count(None, context.json);
    bar.set_message("loading the corpus");
    let mut command = program(context)?;
    command
        .args(["import", "--no-verify", "--json", "--store", store])
        .arg(corpus)
        .stdout(Stdio::null());
    let status = command.status().await.context("cannot start the import")?;
    bar.finish_and_clear();
    anyhow::ensure!(status.success(), "the corpus could not be loaded: {status}");
    Ok(())
}
