//! One run of one contender: a new store, a process, its figures.

use std::{
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio_postgres::{Config, NoTls};

use crate::{Args, plan::Column};

/// What a contender says.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
}

/// So long a run may take; filling a store counts.
const PATIENCE: Duration = Duration::from_secs(180);
/// The database of a run.
const DATABASE: &str = "bench_compare";

/// Measures once: on the server when there is a URL, else in a file.
pub(crate) fn once(
    root: &Path,
    column: &Column,
    measure: &str,
    args: &Args,
    server: Option<&str>,
) -> Result<Vec<Figure>> {
    // A file on the disk that is measured, gone afterwards.
    let folder = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let store = match server {
        Some(server) => new_database(server)?,
        None => folder.path().join("store.db").display().to_string(),
    };
    let mut process = Command::new(root.join(column.folder).join(column.program))
        .args([
            "--measure",
            measure,
            "--variant",
            column.variant,
            "--store",
            &store,
        ])
        .args(["--seconds", &args.seconds.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", column.program))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            process.kill()?;
            break process.wait()?;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut output = String::new();
    process
        .stdout
        .take()
        .expect("it is piped")
        .read_to_string(&mut output)?;
    ensure!(status.success(), "it ended with {status}");
    output.lines().map(figure).collect()
}

fn figure(line: &str) -> Result<Figure> {
    let figure: Value = serde_json::from_str(line)?;
    let text = |key: &str| {
        figure[key]
            .as_str()
            .map(str::to_owned)
            .context("a text is missing")
    };
    Ok(Figure {
        name: text("figure")?,
        unit: text("unit")?,
        value: figure["value"].as_f64().context("a value is missing")?,
    })
}

/// Makes the database anew, and gives its URL.
fn new_database(server: &str) -> Result<String> {
    statements(
        server,
        &[
            &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"),
            &format!("CREATE DATABASE {DATABASE}"),
            // What earlier runs left to write is not for this one to wait for.
            "CHECKPOINT",
        ],
    )
    .context("cannot make a database")?;
    let (rest, parameters) = server.split_once('?').unwrap_or((server, ""));
    let authority = rest.find("://").map_or(0, |at| at + 3);
    let end = rest[authority..]
        .find('/')
        .map_or(rest.len(), |at| authority + at);
    let separator = if parameters.is_empty() { "" } else { "?" };
    Ok(format!("{}/{DATABASE}{separator}{parameters}", &rest[..end]))
}

/// Leaves nothing on the server.
pub(crate) fn drop_database(server: &str) -> Result<()> {
    statements(
        server,
        &[&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")],
    )
}

fn statements(server: &str, statements: &[&str]) -> Result<()> {
    let config: Config = server.parse().context("the URL of Postgres is wrong")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            for statement in statements {
                client.batch_execute(statement).await?;
            }
            Ok(())
        })
}
