//! `esker lock run`: a command that runs under a lock, and is stopped when the lock is lost.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    os::unix::process::ExitStatusExt as _,
    pin::pin,
    process::{self, ExitStatus},
    time::Duration,
};

use anyhow::Context as _;
use esker_coord::{Lock, Store};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal as Signals, SignalKind, signal},
    time::{Instant, sleep, timeout},
};

use crate::{
    commands::Context, config::FENCE, coordination::outlast, exit::Exit, interrupt::Interrupt,
    output::printable,
};

/// Arguments of `lock run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The command runs once the lock is had, with the lock's fence in the variable ESKER_FENCE: a number that only grows, by \
which what a late holder writes can be refused. The lock is renewed for as long as the command runs, and then given back.

If the lock is lost, the command is stopped: with SIGTERM, and with SIGKILL if that is not enough. If this program is \
itself halted or killed, the command can outlast the lock: the fence is what guards then.

SIGTERM, SIGINT and SIGHUP are passed on to the command. On a terminal, Ctrl-C is the command's alone to answer.

Exit codes:
  1      the lock was not had, or was lost
  126    the command could not be started (127: there is none of this name)
  128+n  the command was ended by signal n
  else   the command's own

Examples:
  esker lock run nightly-report -- ./report.sh       or not at all
  esker lock run deploy --wait=600 -- make deploy
  esker lock run s --wait -- sh -c 'echo fence $ESKER_FENCE'")]
pub(super) struct Run {
    /// The lock
    name: String,
    /// Wait until the lock is free, at most so many seconds if a number is given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = AN_AGE)]
    wait: Option<u32>,
    /// For how long, in seconds, a holder that died keeps the lock from others
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=86_400))]
    ttl: u32,
    /// Who holds it; the process's number is added [default: the host's name]
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Seconds that are waited where no number is given: all that the number can be.
const AN_AGE: &str = "4294967295";

/// How often it is tried to have a lock that another holds: nothing tells that one was given back.
const AGAIN: Duration = Duration::from_millis(500);

/// How long at most a command that has lost its lock has to end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the command.
pub(super) async fn run(context: &Context, store: &Store, args: Run) -> anyhow::Result<Exit> {
    let Some(lock) = take(context, store, &args).await? else {
        return Ok(Exit::Interrupted);
    };
    let on_terminal = io::stdin().is_terminal();
    if on_terminal {
        context.interrupt.leave_ctrl_c();
    }
    // It may have come while the lock was asked for.
    if context.interrupt.is_set() {
        give_back(&lock, args.ttl).await;
        return Ok(Exit::Interrupted);
    }
    let mut running = match Running::start(&args.command, lock.fence(), on_terminal, &context.interrupt) {
        Ok(running) => running,
        Err(error) => {
            give_back(&lock, args.ttl).await;
            eprintln!(
                "error: cannot run {}: {error}",
                printable(&args.command[0].to_string_lossy())
            );
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(Exit::Command(if missing { 127 } else { 126 }));
        }
    };
    let mut kept = pin!(lock.keep(args.ttl.into()));
    let mut interrupt = context.interrupt.clone();
    let mut interrupted = false;
    let ended = loop {
        tokio::select! {
            ended = running.child.wait() => break ended?,
            lost = &mut kept => {
                running.stop(Lock::margin(args.ttl.into()).min(GRACE)).await?;
                let told = format!("the lock `{}` was lost, and the command was stopped", printable(&args.name));
                return Err(match lost {
                    Ok(()) => anyhow::anyhow!("{told}: it lapsed, or was taken away"),
                    Err(error) => anyhow::Error::new(error).context(told),
                });
            }
            signal = interrupt.wait(), if !interrupted => {
                interrupted = true;
                running.target.send(signal);
            }
            Some(()) = running.hangups.recv() => running.target.send(Signal::HUP),
        }
    };
    // Its number may be another's from now on.
    context.interrupt.before_exit(|| {});
    anyhow::ensure!(
        give_back(&lock, args.ttl).await,
        "the lock `{}` was lost before the command ended",
        printable(&args.name)
    );
    Ok(Exit::Command(code(ended)))
}

/// Takes the lock; `None` when the user does not want to wait any more.
async fn take(context: &Context, store: &Store, args: &Run) -> anyhow::Result<Option<Lock>> {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let owner = args.owner.clone().unwrap_or_else(host);
    // Two that have one name would both have the lock.
    let owner = format!("{owner}:{}-{:08x}", process::id(), fastrand::u32(..));
    let mut interrupt = context.interrupt.clone();
    let name = printable(&args.name);
    let began = Instant::now();
    let is_over = |most: u32| began.elapsed() >= Duration::from_secs(most.into());
    let mut failed = false;
    let mut told = false;
    while !interrupt.is_set() {
        // Waited for also when the user stops it: dropped, the lock would be held by nobody.
        match attempt(store, args, &owner, failed).await {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Ok(None) => {
                let holder = holder(store, &args.name);
                match args.wait {
                    None => anyhow::bail!("`{name}` is held by {}", holder.await),
                    Some(most) if is_over(most) => {
                        anyhow::bail!("`{name}` is held by {}, still after {most} s", holder.await)
                    }
                    Some(_) if !told => {
                        eprintln!("waiting for `{name}`, which {} holds", holder.await);
                        told = true;
                    }
                    Some(_) => {}
                }
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    _ = interrupt.wait() => {}
                }
            }
            // It may have been had all the same: the next try finds it then.
            Err(error) => match args.wait {
                None => return Err(error.into()),
                Some(most) if is_over(most) => {
                    let told = format!("`{name}` was not had within {most} s");
                    return Err(anyhow::Error::new(error).context(told));
                }
                Some(_) => {
                    outlast(store, error).await?;
                    failed = true;
                }
            },
        }
    }
    Ok(None)
}

/// Tries once to have the lock. What an earlier try took, though it failed, has been running since then, and begins anew.
async fn attempt(store: &Store, args: &Run, owner: &str, failed: bool) -> esker_coord::Result<Option<Lock>> {
    let ttl = args.ttl.into();
    match store.try_lock(&args.name, owner, ttl).await? {
        Some(lock) if failed => Ok(lock.renew(ttl).await?.then_some(lock)),
        other => Ok(other),
    }
}

/// Who holds a lock that was not to be had.
async fn holder(store: &Store, name: &str) -> String {
    let locks = store.inspect().await.map(|found| found.locks).unwrap_or_default();
    let holder = locks.into_iter().find(|lock| lock.name == name);
    // It may have been given back since.
    holder.map_or_else(|| "another".to_owned(), |lock| printable(&lock.owner))
}

/// Gives the lock back, and tells whether it was held until now. That the store fails is told, and no more: the command
/// has ended, and the lock lapses.
async fn give_back(lock: &Lock, ttl: u32) -> bool {
    lock.release().await.unwrap_or_else(|error| {
        let error = error.report();
        tracing::warn!(error, "the lock was not given back; it lapses within {ttl} s");
        true
    })
}

/// The command, as it runs.
struct Running {
    child: Child,
    target: Target,
    hangups: Signals,
}

impl Running {
    fn start(command: &[OsString], fence: i64, on_terminal: bool, interrupt: &Interrupt) -> io::Result<Self> {
        let hangups = signal(SignalKind::hangup())?;
        // On a terminal it must be in the foreground to read, which is where this process's group is. Else it has a group
        // of its own, by which all that it starts can be stopped.
        let is_group = !on_terminal;
        let mut starting = Command::new(&command[0]);
        starting.args(&command[1..]).env(FENCE, fence.to_string());
        if is_group {
            starting.process_group(0);
        }
        let child = starting.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let target = Target {
            pid: pid.expect("a child that was not waited for has its number"),
            is_group,
        };
        interrupt.before_exit(move || target.send(Signal::KILL));
        Ok(Self {
            child,
            target,
            hangups,
        })
    }

    /// Has it end, by force if it does not do so in time.
    async fn stop(&mut self, grace: Duration) -> anyhow::Result<()> {
        self.target.send(Signal::TERM);
        let ended = timeout(grace, self.child.wait()).await;
        // What it started may still be there.
        if ended.is_err() || self.target.is_group {
            self.target.send(Signal::KILL);
        }
        self.child.wait().await.context("cannot wait for the command")?;
        Ok(())
    }
}

/// Where signals go.
#[derive(Clone, Copy)]
struct Target {
    pid: Pid,
    is_group: bool,
}

impl Target {
    /// Sends a signal; that nobody is there any more is no matter.
    fn send(self, signal: Signal) {
        let _ = if self.is_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }
}

/// The code of a command that has ended, as shells give it.
fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| Some(128 + ended.signal()?)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
