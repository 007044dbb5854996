//! The commands, one module each, and what they share: the configuration, the runtime and Ctrl-C.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod lock;
pub(crate) mod query;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod stream;

use anyhow::Context as _;

use crate::{
    cli::{Cli, Command},
    config::Config,
    exit::Exit,
    interrupt::Interrupt,
    logging,
};

/// What a command works with.
pub(crate) struct Context {
    /// The effective configuration.
    pub(crate) config: Config,
    /// Whether the output is for machines.
    pub(crate) json: bool,
    /// Ctrl-C and SIGTERM.
    pub(crate) interrupt: Interrupt,
}

impl Context {
    /// What a future gives, or `None` if the user stops it first.
    pub(crate) async fn unless_interrupted<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            result = work => result.map(Some),
            _ = interrupt.wait() => Ok(None),
        }
    }
}

/// Runs the command to its end.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { global, command } = cli;
    let mut flags = Vec::new();
    flags.extend(global.store.map(|value| ("--store".to_owned(), "store", value)));
    if let Command::Serve(args) = &command {
        flags.extend(args.flags());
    }
    let config = Config::load(global.config.as_deref(), flags, &global.set)?;
    let serving = matches!(command, Command::Serve(_));
    logging::start(&config, serving)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let context = Context {
            config,
            json: global.json,
            interrupt: Interrupt::listen(serving)?,
        };
        match command {
            Command::Serve(_) => serve::run(context).await,
            Command::Import(args) => import::run(context, args).await,
            Command::Export(args) => export::run(context, args).await,
            Command::Query(args) => query::run(context, args).await,
            Command::Count(args) => count::run(context, args).await,
            Command::Delete(args) => delete::run(context, args).await,
            Command::Stats => stats::run(context).await,
            Command::Queue(args) => queue::run(context, args).await,
            Command::Stream(args) => stream::run(context, args).await,
            Command::Lock(args) => lock::run(context, args).await,
            Command::Schedule(args) => schedule::run(context, args).await,
            Command::Config(args) => config::run(&context, &args),
            Command::Bench(args) => bench::run(context, args).await,
        }
    })
}
