//! `esker lock`: who holds what, a command that runs under a lock, and a way to take it from a holder that is gone.

mod run;

use esker_coord::{Name, Store};
use serde_json::json;

use crate::{
    absent,
    commands::Context,
    coordination,
    exit::Exit,
    output::{self, printable},
    store::Missing,
    table,
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
        Command::List => context.unless_interrupted(list(&store, context.json)).await,
        Command::Release { name } => {
            context
                .unless_interrupted(release(&store, &name, context.json))
                .await
        }
    };
    store.close().await;
    Ok(exit?.unwrap_or(Exit::Interrupted))
}

async fn release(store: &Store, name: &str, json: bool) -> anyhow::Result<Exit> {
    let mut locks = store.inspect().await?.locks;
    // The store's own is nobody's to release.
    locks.retain(|lock| Name::new(&lock.name).is_ok());
    Name::new(name)?;
    let owner = absent::find("held lock", name, locks, |lock| &lock.name)?.owner;
    // Under its owner's name a lock that is held is had again, fence and all.
    let released = match store.try_lock(name, &owner, 1).await? {
        Some(lock) => lock.release().await?,
        None => false,
    };
    anyhow::ensure!(released, "the lock `{}` was lost just now", printable(name));
    if json {
        output::line(json!({ "released": name, "owner": owner }))?;
    } else {
        output::line(format_args!(
            "released {}, which {} held",
            printable(name),
            printable(&owner)
        ))?;
    }
    Ok(Exit::Done)
}

async fn list(store: &Store, json: bool) -> anyhow::Result<Exit> {
    let locks = store.inspect().await?.locks;
    if json {
        output::line(format_args!("{:#}", serde_json::to_value(locks)?))?;
        return Ok(Exit::Done);
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
    Ok(Exit::Done)
}
