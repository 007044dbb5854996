//! A history on an engine and on memory at once: every answer of the one must be the other's.

use esker_coord_api::{Claim, Claimed, Cursor, Engine, Firing, LockAttempt, Name, Store};
use esker_coord_memory::{MemoryEngine, Options};

use super::{
    Open,
    same::{Ids, Verdict, answered, same},
    step::{End, History, NewEventStep, NewJobStep, QUEUES, Step, Wrong, new_schedule},
};
use crate::{
    World,
    world::{local, name},
};

/// A claim of a job, as each side knows it.
struct Held {
    queue: Name,
    engine: Claim,
    memory: Claim,
}

pub(crate) struct Run {
    /// `None` only while it is being reopened.
    world: Option<World>,
    pub(crate) handles: Vec<Store>,
    pub(crate) memory: MemoryEngine,
    two_handles: bool,
    pub(crate) ids: Ids,
    claims: Vec<Held>,
    /// Every acquisition: the lock's name and fence.
    locks: Vec<(Name, i64)>,
    last_token: i64,
}

/// The same call on both sides; both must answer.
macro_rules! both {
    ($run:expr, $handle:expr, |$side:ident| $call:expr) => {{
        let $side = $run.engine($handle);
        let engine = answered("the engine", $call.await)?;
        let $side: &dyn Engine = &$run.memory;
        let memory = answered("memory", $call.await)?;
        (engine, memory)
    }};
}

/// The same call on both sides, which must answer the same.
macro_rules! equal {
    ($what:expr, $run:expr, $handle:expr, |$side:ident| $call:expr) => {{
        let (engine, memory) = both!($run, $handle, |$side| $call);
        same($what, &engine, &memory)
    }};
}

pub(crate) use {both, equal};

/// Runs a history and tells the first difference.
pub(crate) async fn run(open: Open, history: &History) -> Verdict {
    let world = open().await;
    let mut run = Run {
        memory: MemoryEngine::open(Options { clock: world.clock() }),
        world: None,
        handles: Vec::new(),
        two_handles: history.two_handles,
        ids: Ids::default(),
        claims: Vec::new(),
        locks: Vec::new(),
        last_token: 0,
    };
    run.attach(world).await;
    for (number, step) in (1..).zip(&history.steps) {
        let at = |what| format!("at step {number}: {what}");
        run.step(step).await.map_err(at)?;
        if history.eager {
            run.read_back().await.map_err(at)?;
        }
    }
    run.end().await.map_err(|what| format!("at the end: {what}"))
}

impl Run {
    async fn attach(&mut self, world: World) {
        self.handles = vec![world.store().clone()];
        if self.two_handles {
            self.handles.push(world.second().await);
        }
        self.world = Some(world);
    }

    pub(crate) fn world(&self) -> &World {
        self.world.as_ref().expect("a world between steps")
    }

    pub(crate) fn engine(&self, handle: usize) -> &dyn Engine {
        let store = &self.handles[handle % self.handles.len()];
        self.world().inner_of(store)
    }

    async fn step(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Clock(by) => {
                let now = self.world().now().saturating_add(*by);
                self.world().set(now).await;
                Ok(())
            }
            Step::Reopen => {
                for other in self.handles.drain(..).skip(1) {
                    other.close().await;
                }
                let world = self.world.take().expect("a world between steps");
                self.attach(world.reopen().await).await;
                Ok(())
            }
            Step::Inspect { handle } => self.same_inspection(*handle).await,
            Step::Transaction {
                handle,
                parts,
                commit,
            } => self.transaction(*handle, parts, *commit).await,
            Step::Publish { .. }
            | Step::Read { .. }
            | Step::ReadSaved { .. }
            | Step::SaveOffset { .. }
            | Step::GetOffset { .. }
            | Step::Trim { .. } => self.of_a_stream(step).await,
            Step::TryLock { .. }
            | Step::Renew { .. }
            | Step::Release { .. }
            | Step::Schedule { .. }
            | Step::Unschedule { .. }
            | Step::Fire { .. } => self.of_locks_and_schedules(step).await,
            Step::Claim { .. } | Step::Ack { .. } | Step::EndClaim { .. } => self.of_claims(step).await,
            _ => self.of_a_queue(step).await,
        }
    }

    async fn of_a_stream(&self, step: &Step) -> Verdict {
        match step {
            Step::Publish {
                handle,
                stream,
                events,
            } => {
                let events: Vec<_> = events.iter().map(NewEventStep::new_event).collect();
                equal!("offsets", self, *handle, |side| side
                    .publish(name(stream), events.clone()))
            }
            Step::Read {
                handle,
                stream,
                after,
                limit,
            } => {
                let cursor = Cursor::After(*after);
                equal!("events", self, *handle, |side| side.read(
                    name(stream),
                    cursor.clone(),
                    *limit
                ))
            }
            Step::ReadSaved {
                handle,
                stream,
                consumer,
                limit,
            } => {
                let cursor = Cursor::Saved(local(consumer));
                equal!("events", self, *handle, |side| side.read(
                    name(stream),
                    cursor.clone(),
                    *limit
                ))
            }
            Step::SaveOffset {
                handle,
                stream,
                consumer,
                offset,
            } => equal!("saved", self, *handle, |side| side.save_offset(
                name(stream),
                local(consumer),
                *offset
            )),
            Step::GetOffset {
                handle,
                stream,
                consumer,
            } => equal!("offset", self, *handle, |side| side
                .get_offset(name(stream), local(consumer))),
            Step::Trim {
                handle,
                stream,
                horizon,
            } => equal!("trimmed", self, *handle, |side| side
                .trim_to(name(stream), *horizon)),
            _ => Ok(()),
        }
    }

    async fn of_a_queue(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Enqueue { handle, queue, jobs } => {
                let jobs: Vec<_> = jobs.iter().map(NewJobStep::new_job).collect();
                let (engine, memory) = both!(self, *handle, |side| side.enqueue(name(queue), jobs.clone()));
                self.ids.given(&engine, &memory)
            }
            Step::Cancel { handle, queue, job } => {
                let (engine, memory) = self.ids.back(*job);
                let engine = answered(
                    "the engine",
                    self.engine(*handle).cancel(name(queue), engine).await,
                )?;
                let memory = answered("memory", self.memory.cancel(name(queue), memory).await)?;
                same("cancelled", &engine, &memory)
            }
            Step::GetJob { handle, queue, job } => {
                let ids = self.ids.back(*job);
                self.same_job(*handle, queue, ids).await
            }
            Step::Sweep { handle, queue } => {
                equal!("swept", self, *handle, |side| side.sweep_expired(name(queue)))
            }
            Step::NextReady { handle, queue } => self.same_next(*handle, queue).await,
            Step::Dead {
                handle,
                queue,
                after,
                limit,
            } => {
                let after = after.map_or((i64::MIN, i64::MIN), |back| self.ids.back(back));
                self.same_dead(*handle, queue, after, *limit).await
            }
            Step::Redrive { handle, queue, job } => {
                let (engine, memory) = self.ids.back(*job);
                let engine = answered(
                    "the engine",
                    self.engine(*handle).redrive(name(queue), engine).await,
                )?;
                let memory = answered("memory", self.memory.redrive(name(queue), memory).await)?;
                same("redriven", &engine, &memory)
            }
            Step::RedriveAll { handle, queue } => {
                equal!("redriven", self, *handle, |side| side.redrive_all(name(queue)))
            }
            Step::Purge { handle, queue } => {
                equal!("purged", self, *handle, |side| side.purge_dead(name(queue)))
            }
            _ => Ok(()),
        }
    }

    async fn of_claims(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Claim {
                handle,
                queue,
                worker,
                n,
            } => self.claim(*handle, queue, worker, *n).await,
            Step::Ack {
                handle,
                queue,
                claims,
            } => {
                let of = claims.iter().filter_map(|back| self.held(*back));
                let (engine, memory) = of.map(|held| (held.engine.clone(), held.memory.clone())).unzip();
                let engine = answered("the engine", self.engine(*handle).ack(name(queue), engine).await)?;
                let memory = answered("memory", self.memory.ack(name(queue), memory).await)?;
                same("acked", &engine, &memory)
            }
            Step::EndClaim {
                handle,
                claim,
                wrong,
                end,
            } => {
                let Some(Held {
                    queue,
                    engine,
                    memory,
                }) = self.held(*claim)
                else {
                    return Ok(());
                };
                let (queue, engine) = spoiled(*wrong, queue, engine);
                let (_, memory) = spoiled(*wrong, &queue, memory);
                let engine = self::end(self.engine(*handle), &queue, engine, *end).await;
                let memory = self::end(&self.memory, &queue, memory, *end).await;
                same(
                    "held",
                    &answered("the engine", engine)?,
                    &answered("memory", memory)?,
                )
            }
            _ => Ok(()),
        }
    }

    async fn claim(&mut self, handle: usize, queue: &str, worker: &str, n: usize) -> Verdict {
        self.last_token += 1;
        let token = self.last_token;
        let (engine, memory) = both!(self, handle, |side| side.claim(
            name(queue),
            local(worker),
            token,
            n
        ));
        let jobs = |claimed: &[Claimed]| {
            claimed
                .iter()
                .map(|claimed| claimed.job.clone())
                .collect::<Vec<_>>()
        };
        self.ids.same_jobs("claimed", jobs(&engine), &jobs(&memory))?;
        let claim = |claimed: &Claimed| Claim {
            id: claimed.job.id,
            worker: local(worker),
            token: claimed.token,
        };
        for (engine, memory) in engine.iter().zip(&memory) {
            same("token", &engine.token, &memory.token)?;
            self.claims.push(Held {
                queue: name(queue),
                engine: claim(engine),
                memory: claim(memory),
            });
        }
        Ok(())
    }

    async fn of_locks_and_schedules(&mut self, step: &Step) -> Verdict {
        match step {
            Step::TryLock {
                handle,
                lock,
                owner,
                ttl,
            } => {
                let (engine, memory) = both!(self, *handle, |side| side.try_lock(
                    name(lock),
                    local(owner),
                    *ttl
                ));
                same("lock", &attempt(engine), &attempt(memory))?;
                if let LockAttempt::Held { fence, .. } = memory {
                    self.locks.push((name(lock), fence));
                }
                Ok(())
            }
            Step::Renew { handle, lock, ttl } => {
                let (lock, fence) = self.lock(*lock);
                equal!("renewed", self, *handle, |side| side.renew_lock(
                    lock.clone(),
                    fence,
                    *ttl
                ))
            }
            Step::Release { handle, lock } => {
                let (lock, fence) = self.lock(*lock);
                equal!("released", self, *handle, |side| side
                    .release_lock(lock.clone(), fence))
            }
            Step::Schedule {
                handle,
                schedule,
                every_s,
                job,
            } => {
                let schedule = new_schedule(schedule, *every_s, job);
                equal!("scheduled", self, *handle, |side| side.schedule(schedule.clone()))
            }
            Step::Unschedule { handle, schedule } => {
                equal!("unscheduled", self, *handle, |side| side
                    .unschedule(name(schedule)))
            }
            Step::Fire { handle, lock } => {
                let (lock, fence) = self.lock(*lock);
                let (engine, memory) = both!(self, *handle, |side| side.fire_schedules(lock.clone(), fence));
                same("fired", &firing(engine), &firing(memory))
            }
            _ => Ok(()),
        }
    }

    fn held(&self, back: usize) -> Option<&Held> {
        let last = self.claims.len().checked_sub(1)?;
        self.claims.get(last - back % self.claims.len())
    }

    fn lock(&self, back: usize) -> (Name, i64) {
        match self.locks.len().checked_sub(1) {
            Some(last) => self.locks[last - back % self.locks.len()].clone(),
            None => (name("l"), 1),
        }
    }

    /// Reads all back, then claims what is left, so that jobs that nobody has seen yet are compared too.
    async fn end(&mut self) -> Verdict {
        self.read_back().await?;
        let later = self.world().now() + 10_000;
        self.world().set(later).await;
        for queue in QUEUES {
            self.claim(0, queue, "last", 1_000_000).await?;
        }
        self.read_back().await
    }
}

/// The claim with something that is not its own.
fn spoiled(wrong: Option<Wrong>, queue: &Name, claim: &Claim) -> (Name, Claim) {
    let (mut queue, mut claim) = (queue.clone(), claim.clone());
    match wrong {
        None => {}
        Some(Wrong::Worker) => claim.worker = local("nobody"),
        Some(Wrong::Token) => claim.token = i64::MAX,
        Some(Wrong::Queue) => queue = name("elsewhere"),
    }
    (queue, claim)
}

async fn end(engine: &dyn Engine, queue: &Name, claim: Claim, end: End) -> esker_coord_api::Result<bool> {
    let queue = queue.clone();
    let text = |error: Option<&str>| error.map(str::to_owned);
    match end {
        End::Ack => Ok(engine.ack(queue, vec![claim]).await? == [true]),
        End::Retry { error, delay } => engine.retry(queue, claim, text(error), delay).await,
        End::Fail { error } => engine.fail(queue, claim, text(error)).await,
        End::Release => engine.release(queue, claim).await,
        End::Heartbeat(extend) => engine.heartbeat(queue, claim, extend).await,
    }
}

/// Without the time that is left, which passes.
fn attempt(attempt: LockAttempt) -> (Option<i64>, i64) {
    match attempt {
        LockAttempt::Held { fence, until } => (Some(fence), until.at),
        LockAttempt::Lost(until) => (None, until.at),
    }
}

fn firing(firing: Firing) -> Option<(u64, Option<i64>)> {
    match firing {
        Firing::Lost => None,
        Firing::Fired { jobs, next } => Some((jobs, next.map(|next| next.at))),
    }
}
