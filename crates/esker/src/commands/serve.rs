//! `esker serve`: the relay, until Ctrl-C or SIGTERM.

use std::{net::ToSocketAddrs as _, sync::Arc, time::Duration};

use anyhow::Context as _;
use esker_relay::Server;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    commands::Context,
    exit::Exit,
    open_files, output,
    store::{self, Missing},
};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Once it is ready it prints one line with its address; logs go to standard error. \
SIGTERM and Ctrl-C drain: no new connections, what was taken is answered, at most ten seconds; \
a second one ends it at once. SIGHUP reloads nothing. Several processes may listen on one address \
and share its connections; it warns when it is not the first.

Examples:
  esker serve                              ./esker.db, ws://127.0.0.1:7447
  esker serve --store /var/lib/esker/esker.db --listen 0.0.0.0:7447
  esker serve --name 'My relay' --url wss://relay.example.com
  esker serve --set limits.connections=50000 --set log.format=json")]
pub(crate) struct Serve {
    /// The address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// The relay's public URL, for vanish requests
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The relay's name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

impl Serve {
    /// The flags that are configuration: spelling, key, value.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (String, &'static str, String)> {
        [
            ("--listen", "listen", &self.listen),
            ("--url", "relay.url", &self.url),
            ("--name", "relay.name", &self.name),
        ]
        .into_iter()
        .filter_map(|(flag, key, value)| Some((flag.to_owned(), key, value.clone()?)))
    }
}

/// How long to look for another process on the same address.
const PROBE: Duration = Duration::from_millis(200);

/// Runs the command.
pub(crate) async fn run(context: Context) -> anyhow::Result<Exit> {
    let Context {
        config,
        json,
        mut interrupt,
    } = context;
    warn_of_hangups()?;
    open_files::raise();
    let listen = config
        .text("listen")
        .to_socket_addrs()?
        .next()
        .context("`listen` names no address")?;
    let budget = Duration::from_secs(config.integer("events.query_secs"));
    let store = store::open(&config, Missing::Create, Some(budget))?;
    let relay = esker_relay::Config {
        listen,
        limits: config.section("limits"),
        info: config.info(),
        ..esker_relay::Config::default()
    };
    if listen.port() != 0 && std::net::TcpStream::connect_timeout(&listen, PROBE).is_ok() {
        tracing::warn!(%listen, "another process listens there; the two share the connections that come");
    }
    let server = Server::bind(relay, Arc::clone(&store))?;
    tracing::info!(store = config.text("store"), listen = %server.local_addr(), "serving");
    let url = format!("ws://{}", server.local_addr());
    if json {
        output::line(json!({ "listening": url }))?;
    } else {
        output::line(format_args!("listening on {url}"))?;
    }
    server
        .run(async {
            interrupt.wait().await;
            tracing::info!("draining");
        })
        .await;
    store.close().await;
    tracing::info!("ended");
    Ok(Exit::Done)
}

/// Answers SIGHUP, from now on, with a line in the log: other servers reload their configuration at it, and left to
/// the system it would end the process.
fn warn_of_hangups() -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::warn!(
                "SIGHUP: nothing can be reloaded at run time; restart to change the configuration"
            );
        }
    });
    Ok(())
}
