//! `esker lock`: who holds what, a command that runs under a lock, and a way to take it from a holder that is gone.

mod run;

use esker_coord::{Store, inspection::LockInspection};
use serde_json::json;

use crate::{
    commands::Context, coordination, exit::Exit, output, payloads::printable, store::Missing, table,
};

/// Arguments of `lock`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A released lock can be taken at once; its holder, should it still be there, learns it when it renews. What holders \
write under the lock's fence stays safe.

Examples:
  esker lock list
  esker lock run nightly-report -- ./report.sh       or not at all
  esker lock run deploy --wait=600 -- make deploy
  esker lock release nightly-report")]
pub(crate) struct LockArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the locks that are held
    List,
    /// Run a command while holding a lock
    Run(run::Run),
    /// Take a lock from its holder
    Release {
        /// The lock
        name: String,
    },
}

/// Runs the command.
pub(crate) async fn run(context: Context, args: LockArgs) -> anyhow::Result<Exit> {
    let missing = match args.command {
        Command::Run(_) => Missing::Create,
        _ => Missing::Refuse,
    };
    let store = coordination::open(&context.config, missing).await?;
    let exit = match args.command {
        Command::Run(args) => run::run(&context, &store, args).await.map(Some),
        command => {
            context
                .unless_interrupted(act(&store, command, context.json))
                .await
        }
    };
    store.close().await;
    Ok(exit?.unwrap_or(Exit::Interrupted))
}

async fn act(store: &Store, command: Command, json: bool) -> anyhow::Result<Exit> {
    let locks = store.inspect().await?.locks;
    match command {
        Command::Run(_) => unreachable!("it is run by `run::run`"),
        Command::List => list(&locks, json)?,
        Command::Release { name } => {
            let held = locks.into_iter().find(|lock| lock.name == name);
            let owner = held.map(|lock| lock.owner);
            // Under its owner's name a lock that is held is had again, fence and all.
            let lock = match &owner {
                Some(owner) => store.try_lock(&name, owner, 1).await?,
                None => None,
            };
            let released = match lock {
                Some(lock) => lock.release().await?,
                None => false,
            };
            anyhow::ensure!(released, "nobody holds `{name}`");
            if json {
                output::line(json!({ "released": name, "owner": owner }))?;
            } else {
                let owner = owner.as_deref().unwrap_or_default();
                output::line(format_args!(
                    "released {}, which {} held",
                    printable(&name),
                    printable(owner)
                ))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list(locks: &[LockInspection], json: bool) -> anyhow::Result<()> {
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(locks)?))?;
        return Ok(());
    }
    let mut rows = table::new(["lock", "owner", "fence", "lapses in"]);
    table::left(&mut rows, [1]);
    for lock in locks {
        rows.add_row([
            printable(&lock.name),
            printable(&lock.owner),
            lock.fence.to_string(),
            format!("{} s", lock.expires_in_s),
        ]);
    }
    output::line(rows.trim_fmt())?;
    Ok(())
}
