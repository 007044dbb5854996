//! `esker queue`: jobs in, counts of them by state, a look at one, and what can be done with dead ones.

use esker_coord::{
    DeadPage, EnqueueOptions, Job, JobState, Outbox, Queue, QueueOptions, Store, inspection::QueueInspection,
};
use serde_json::{Value, json};

use crate::{
    absent,
    commands::Context,
    coordination,
    exit::Exit,
    output::{self, printable},
    payloads::{self, Payloads},
    store::Missing,
    table,
};

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Queues are in the store that --store names, a SQLite file or a PostgreSQL database. An outbox is the queue whose \
name `queue list` shows.

Examples:
  esker queue list
  esker queue enqueue mails '{\"to\":\"ada@example.com\"}' --delay 60
  jq -c '.[]' jobs.json | esker queue enqueue mails --lines
  esker queue dead mails
  esker queue dead __alkstore_outbox:hooks           an outbox's
  esker queue show mails 42
  esker queue redrive mails 42                       or --all
  esker queue list --store postgres://app@db/app --json | jq '.[].dead'")]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the queues with their jobs by state
    List,
    /// Store jobs, and print their ids
    Enqueue(Enqueue),
    /// Show a job, live or dead
    Show(One),
    /// List the dead jobs
    Dead(Dead),
    /// Make dead jobs ready again, with all their attempts
    Redrive(Redrive),
    /// Delete all dead jobs
    Purge(Name),
    /// Delete live jobs, whoever works on them
    Cancel(Some),
    /// Move expired jobs to the dead ones, and delete dead ones past their retention
    Sweep(Name),
}

#[derive(Debug, clap::Args)]
struct Name {
    /// The queue
    queue: String,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The queue
    queue: String,
    /// The job's id
    id: i64,
}

#[derive(Debug, clap::Args)]
struct Some {
    /// The queue
    queue: String,
    /// The jobs' ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<i64>,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "esker queue enqueue [OPTIONS] <QUEUE> <PAYLOAD|--lines>")]
struct Enqueue {
    /// The queue
    queue: String,
    #[command(flatten)]
    payloads: Payloads,
    /// Seconds until the job is ready
    #[arg(long, value_name = "SECONDS")]
    delay: Option<i64>,
    /// When the job is ready, in unix seconds
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    run_at: Option<i64>,
    #[command(flatten)]
    options: JobOptions,
}

/// What is said about a job, whoever enqueues it.
#[derive(Debug, clap::Args)]
pub(crate) struct JobOptions {
    /// Jobs of a higher one are claimed first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// Claims that the job may take [default: 3; what a program of yours says of the queue is not known here]
    #[arg(long, value_name = "N")]
    attempts: Option<i64>,
    /// Seconds from when the job is ready, after which it is no longer claimed
    #[arg(long, value_name = "SECONDS")]
    expires: Option<i64>,
}

#[derive(Debug, clap::Args)]
struct Dead {
    /// The queue
    queue: String,
    /// Only jobs with greater ids
    #[arg(long, value_name = "ID", default_value_t = 0)]
    after: i64,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: i64,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "esker queue redrive [OPTIONS] <QUEUE> <ID...|--all>")]
struct Redrive {
    /// The queue
    queue: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The jobs' ids
    #[arg(value_name = "ID")]
    ids: Vec<i64>,
    /// All dead jobs of the queue
    #[arg(long)]
    all: bool,
}

impl From<JobOptions> for EnqueueOptions {
    fn from(options: JobOptions) -> Self {
        Self {
            priority: options.priority,
            max_attempts: options.attempts,
            expires: options.expires,
            ..Self::default()
        }
    }
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: QueueArgs) -> anyhow::Result<Exit> {
    let missing = match args.command {
        Command::Enqueue(_) => Missing::Create,
        _ => Missing::Refuse,
    };
    let store = coordination::open(&context.config, missing).await?;
    let exit = context
        .unless_interrupted(act(&store, args.command, context.json))
        .await;
    store.close().await;
    Ok(exit?.unwrap_or(Exit::Interrupted))
}

async fn act(store: &Store, command: Command, json: bool) -> anyhow::Result<Exit> {
    let queue = |name: &str| queue(store, name);
    match command {
        Command::List => list(&store.inspect().await?.queues, json)?,
        Command::Enqueue(args) => {
            let options = EnqueueOptions {
                delay: args.delay,
                run_at: args.run_at,
                ..args.options.into()
            };
            enqueue(&queue(&args.queue)?, args.payloads, options).await?;
        }
        Command::Show(args) => match queue(&args.queue)?.get_job(args.id).await? {
            Some(job) => show(&job, json)?,
            None => {
                there_is(store, &args.queue).await?;
                anyhow::bail!("no job {} in `{}`", args.id, printable(&args.queue));
            }
        },
        Command::Dead(args) => {
            let page = DeadPage {
                after: args.after,
                limit: args.limit,
            };
            let jobs = queue(&args.queue)?.dead_jobs(page).await?;
            if jobs.is_empty() {
                there_is(store, &args.queue).await?;
            }
            dead(&jobs, json)?;
        }
        Command::Redrive(args) if args.which.all => {
            let redriven = queue(&args.queue)?.redrive_all().await?;
            whole(store, &args.queue, "redriven", redriven, json).await?;
        }
        Command::Redrive(args) => {
            let of = queue(&args.queue)?;
            let redriven = absent(&args.which.ids, async |id| of.redrive(id).await).await?;
            each(
                store,
                &args.queue,
                ("redriven", "dead"),
                &args.which.ids,
                redriven,
                json,
            )
            .await?;
        }
        Command::Purge(args) => {
            let deleted = queue(&args.queue)?.purge_dead().await?;
            whole(store, &args.queue, "deleted", deleted, json).await?;
        }
        Command::Cancel(args) => {
            let of = queue(&args.queue)?;
            let cancelled = absent(&args.ids, async |id| of.cancel(id).await).await?;
            each(
                store,
                &args.queue,
                ("cancelled", "live"),
                &args.ids,
                cancelled,
                json,
            )
            .await?;
        }
        Command::Sweep(args) => {
            let moved = queue(&args.queue)?.sweep_expired().await?;
            whole(store, &args.queue, "moved", moved, json).await?;
        }
    }
    Ok(Exit::Done)
}

/// A queue by the name that `queue list` shows, which may be an outbox's.
fn queue(store: &Store, name: &str) -> esker_coord::Result<Queue> {
    match Outbox::of_queue_name(name) {
        Some(outbox) => Ok(store.outbox(outbox)?.queue().clone()),
        None => store.queue(name, QueueOptions::default()),
    }
}

async fn enqueue(queue: &Queue, payloads: Payloads, options: EnqueueOptions) -> anyhow::Result<()> {
    let mut batches = payloads.read();
    while let Some(batch) = batches.recv().await {
        let jobs = batch?.into_iter().map(|payload| (payload, options)).collect();
        for id in queue.enqueue_batch(jobs).await? {
            output::line(id)?;
        }
    }
    Ok(())
}

/// Fails if there is no such queue. It is asked where nothing was found, so that a mistyped name does not pass for a queue
/// in which there is nothing.
async fn there_is(store: &Store, queue: &str) -> anyhow::Result<()> {
    let queues = store.inspect().await?.queues;
    absent::find("queue", queue, queues, |queue| &queue.name)?;
    Ok(())
}

/// Tells to how many jobs of a queue something was done.
async fn whole(store: &Store, queue: &str, done: &str, count: u64, json: bool) -> anyhow::Result<()> {
    if count == 0 {
        there_is(store, queue).await?;
    }
    report(done, count, json)
}

/// Does something to each job, and gives those that are not there.
async fn absent(
    ids: &[i64],
    act: impl AsyncFn(i64) -> esker_coord::Result<bool>,
) -> esker_coord::Result<Vec<String>> {
    let mut absent = Vec::new();
    for &id in ids {
        if !act(id).await? {
            absent.push(id.to_string());
        }
    }
    Ok(absent)
}

/// Tells to how many of the jobs something was done, and fails for those that are not there.
async fn each(
    store: &Store,
    queue: &str,
    (done, state): (&str, &str),
    ids: &[i64],
    absent: Vec<String>,
    json: bool,
) -> anyhow::Result<()> {
    whole(store, queue, done, (ids.len() - absent.len()) as u64, json).await?;
    anyhow::ensure!(
        absent.is_empty(),
        "no {state} job {} in `{}`",
        absent.join(", "),
        printable(queue)
    );
    Ok(())
}

fn report(done: &str, count: u64, json: bool) -> anyhow::Result<()> {
    if json {
        output::line(json!({ done: count }))?;
    } else {
        output::line(format_args!("{done} {count}"))?;
    }
    Ok(())
}

fn list(queues: &[QueueInspection], json: bool) -> anyhow::Result<()> {
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(queues)?))?;
        return Ok(());
    }
    let mut rows = table::new(["queue", "ready", "scheduled", "running", "dead", "oldest ready"]);
    for queue in queues {
        rows.add_row([
            printable(&queue.name),
            table::number(queue.ready),
            table::number(queue.scheduled),
            table::number(queue.running),
            table::number(queue.dead),
            queue
                .oldest_ready_s
                .map_or_else(String::new, |age| format!("{age} s")),
        ]);
    }
    output::line(rows.trim_fmt())?;
    Ok(())
}

fn dead(jobs: &[Job], json: bool) -> anyhow::Result<()> {
    if json {
        let jobs: Vec<Value> = jobs.iter().map(to_json).collect();
        output::line(format_args!("{:#}", Value::from(jobs)))?;
        return Ok(());
    }
    let mut rows = table::new(["id", "died", "attempts", "error"]);
    table::left(&mut rows, [3]);
    for job in jobs {
        rows.add_row([
            job.id.to_string(),
            job.died_at.map_or_else(String::new, table::time),
            format!("{}/{}", job.attempts, job.stamps.max_attempts),
            printable(job.last_error.as_deref().unwrap_or("")),
        ]);
    }
    output::line(rows.trim_fmt())?;
    Ok(())
}

fn show(job: &Job, json: bool) -> anyhow::Result<()> {
    if json {
        output::line(format_args!("{:#}", to_json(job)))?;
        return Ok(());
    }
    let time = |time: Option<i64>| time.map(table::time);
    let lines = [
        ("id", Some(job.id.to_string())),
        ("queue", Some(job.queue.to_string())),
        ("state", Some(state(job).to_owned())),
        ("priority", Some(job.priority.to_string())),
        (
            "attempts",
            Some(format!("{} of {}", job.attempts, job.stamps.max_attempts)),
        ),
        ("created", time(Some(job.created_at))),
        ("run at", time(Some(job.run_at))),
        ("boundary", time(job.boundary)),
        ("expires", time(job.expires_at)),
        ("worker", job.worker.as_ref().map(ToString::to_string)),
        ("claimed", time(job.claimed_at)),
        ("claimed until", time(job.claim_expires_at)),
        ("last error", job.last_error.clone()),
        ("died", time(job.died_at)),
        ("payload", Some(payloads::text(&job.payload))),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            output::line(format_args!("{name:<14}{}", printable(&value)))?;
        }
    }
    Ok(())
}

fn state(job: &Job) -> &'static str {
    match job.state {
        JobState::Pending => "pending",
        JobState::Processing => "processing",
        JobState::Dead => "dead",
    }
}

fn to_json(job: &Job) -> Value {
    json!({
        "id": job.id,
        "queue": job.queue.as_str(),
        "state": state(job),
        "payload": payloads::json(&job.payload),
        "priority": job.priority,
        "run_at": job.run_at,
        "attempts": job.attempts,
        "max_attempts": job.stamps.max_attempts,
        "visibility_timeout_s": job.stamps.visibility_timeout_s,
        "backoff_base_s": job.stamps.backoff_base_s,
        "dead_letter_retention_s": job.stamps.dead_letter_retention_s,
        "worker": job.worker.as_ref().map(ToString::to_string),
        "claimed_at": job.claimed_at,
        "claim_expires_at": job.claim_expires_at,
        "created_at": job.created_at,
        "expires_at": job.expires_at,
        "boundary": job.boundary,
        "last_error": job.last_error,
        "died_at": job.died_at,
    })
}
