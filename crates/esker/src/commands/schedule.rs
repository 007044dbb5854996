//! `esker schedule`: what is enqueued every so often, and a runner for it.

use esker_coord::{CancellationToken, Error, SchedulerOptions, Store};
use serde_json::json;

use crate::{
    absent,
    commands::{Context, queue::JobOptions},
    coordination::{self, outlast},
    exit::Exit,
    output::{self, printable},
    payloads,
    store::Missing,
    table,
};

/// Arguments of `schedule`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is enqueued without a runner: `esker schedule run`, or one in a program of yours. Any number may run, one \
leads. After downtime the newest 64 boundaries of each schedule are made up for.

Examples:
  esker schedule add nightly '@every 1d' reports '{\"kind\":\"daily\"}'
  esker schedule list
  esker schedule run                                 until Ctrl-C
  esker schedule remove nightly")]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the schedules
    List,
    /// Add a schedule, or change the one of this name
    Add(Add),
    /// Remove a schedule
    Remove {
        /// The schedule
        name: String,
    },
    /// Enqueue what is due, until Ctrl-C or SIGTERM
    Run {
        /// For how long, in seconds, a runner that died keeps others from leading
        #[arg(long, value_name = "SECONDS", default_value_t = SchedulerOptions::default().ttl_s)]
        ttl: i64,
    },
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The schedule
    name: String,
    /// When it fires: `@every <n><unit>`, unit s, m, h or d
    spec: String,
    /// Where its jobs go
    queue: String,
    /// The jobs' payload, as it is; `-` reads standard input to its end
    payload: String,
    #[command(flatten)]
    options: JobOptions,
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: ScheduleArgs) -> anyhow::Result<Exit> {
    let missing = match args.command {
        Command::Add(_) => Missing::Create,
        _ => Missing::Refuse,
    };
    let store = coordination::open(&context.config, missing).await?;
    let exit = match args.command {
        Command::Run { ttl } => lead(&context, &store, SchedulerOptions { ttl_s: ttl })
            .await
            .map(Some),
        Command::List => context.unless_interrupted(list(&store, context.json)).await,
        Command::Add(args) => context.unless_interrupted(add(&store, args, context.json)).await,
        Command::Remove { name } => {
            context
                .unless_interrupted(remove(&store, &name, context.json))
                .await
        }
    };
    store.close().await;
    Ok(exit?.unwrap_or(Exit::Interrupted))
}

async fn add(store: &Store, args: Add, json: bool) -> anyhow::Result<Exit> {
    let payload = payloads::argument(args.payload)?;
    store
        .schedule(&args.name, &args.spec, &args.queue, payload, args.options.into())
        .await?;
    tell("scheduled", &args.name, json)
}

async fn remove(store: &Store, name: &str, json: bool) -> anyhow::Result<Exit> {
    if !store.unschedule(name).await? {
        let schedules = store.inspect().await?.schedules;
        absent::find("schedule", name, schedules, |schedule| &schedule.name)?;
        anyhow::bail!("the schedule `{}` was added just now", printable(name));
    }
    tell("removed", name, json)
}

async fn lead(context: &Context, store: &Store, options: SchedulerOptions) -> anyhow::Result<Exit> {
    let stop = CancellationToken::new();
    let (stopping, mut interrupt) = (stop.clone(), context.interrupt.clone());
    tokio::spawn(async move {
        interrupt.wait().await;
        stopping.cancel();
    });
    if !context.json {
        eprintln!("running the schedules");
    }
    loop {
        match store.run_schedules_with(options, stop.clone()).await {
            Err(Error::LeadershipLost) => {
                tracing::warn!("another runner leads the schedules; waiting for the lead");
            }
            Err(error) => outlast(store, error).await?,
            Ok(()) => return Ok(Exit::Done),
        }
    }
}

fn tell(done: &str, name: &str, json: bool) -> anyhow::Result<Exit> {
    if json {
        output::line(json!({ done: name }))?;
    } else {
        output::line(format_args!("{done} {}", printable(name)))?;
    }
    Ok(Exit::Done)
}

async fn list(store: &Store, json: bool) -> anyhow::Result<Exit> {
    let found = store.inspect().await?;
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(found.schedules)?))?;
        return Ok(Exit::Done);
    }
    let mut rows = table::new(["schedule", "spec", "queue", "next (UTC)"]);
    table::left(&mut rows, [1, 2]);
    for schedule in &found.schedules {
        rows.add_row([
            printable(&schedule.name),
            schedule.spec.clone(),
            printable(&schedule.queue),
            table::time(schedule.next),
        ]);
    }
    output::line(rows.trim_fmt())?;
    if !found.schedules.is_empty() && found.scheduler().is_none() {
        eprintln!("nobody runs them: `esker schedule run`, or a runner in a program of yours");
    }
    Ok(Exit::Done)
}
