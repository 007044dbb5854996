//! A store in memory with a clock that stands, and a worker on it.

use std::{future::Future, time::Duration};

use esker_coord::{
    CancellationToken, Clock, Job, JobError, JobState, Queue, QueueOptions, Result, Store, WorkOptions,
    WorkReport,
};
use esker_coord_memory::{MemoryEngine, Options};
use tokio::task::{JoinHandle, yield_now};

use crate::scripted::{Script, Scripted};

/// The time at which tests begin.
pub(crate) const START: i64 = 1000;

/// One store, and what drives it.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) script: Script,
    engine: MemoryEngine,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Clock::manual(START);
        let engine = MemoryEngine::open(Options { clock: clock.clone() });
        let script = Script::default();
        Self {
            store: on(&engine, &script),
            clock,
            script,
            engine,
        }
    }

    /// The same store as another process has it, with a script of its own.
    pub(crate) fn another(&self) -> (Store, Script) {
        let script = Script::default();
        (on(&self.engine, &script), script)
    }

    pub(crate) fn queue(&self) -> Queue {
        self.queue_with(QueueOptions::default())
    }

    pub(crate) fn queue_with(&self, options: QueueOptions) -> Queue {
        self.store.queue("q", options).unwrap()
    }
}

fn on(engine: &MemoryEngine, script: &Script) -> Store {
    Store::new(Scripted {
        engine: engine.open_again(),
        script: script.clone(),
    })
}

/// Options under which claims are renewed often, so that no test waits for long.
pub(crate) fn quick() -> WorkOptions {
    WorkOptions {
        worker: "w".into(),
        heartbeats: 30_000,
        ..WorkOptions::default()
    }
}

/// A worker that runs until it is told to stop.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    work: JoinHandle<Result<WorkReport>>,
}

impl Running {
    pub(crate) fn start(
        queue: &Queue,
        options: WorkOptions,
        handler: impl AsyncFn(&Job) -> Result<(), JobError> + Send + Sync + 'static,
    ) -> Self {
        let stop = CancellationToken::new();
        let (queue, stopped) = (queue.clone(), stop.clone());
        Self {
            stop,
            work: tokio::task::spawn_local(async move { queue.work(options, handler, stopped).await }),
        }
    }

    pub(crate) async fn end(self) -> Result<WorkReport> {
        self.work.await.unwrap()
    }

    pub(crate) async fn stop(self) -> WorkReport {
        self.stop.cancel();
        self.end().await.unwrap()
    }
}

/// Runs a test on one thread: what is ready runs in order.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let bounded = async {
        // Not a measure: a test that hangs says so.
        tokio::time::timeout(Duration::from_secs(20), test)
            .await
            .expect("the test hangs");
    };
    tokio::task::LocalSet::new().block_on(&runtime, bounded);
}

/// Lets everything run that can.
pub(crate) async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Waits until the job is as wanted, and gives it; `None` is a job that is gone.
pub(crate) async fn job_when(queue: &Queue, id: i64, wanted: impl Fn(Option<&Job>) -> bool) -> Option<Job> {
    loop {
        let job = queue.get_job(id).await.unwrap();
        if wanted(job.as_ref()) {
            return job;
        }
        yield_now().await;
    }
}

/// Waits until the job is in this state, and gives it.
pub(crate) async fn job_in(queue: &Queue, id: i64, state: JobState) -> Job {
    let job = job_when(queue, id, |job| job.is_some_and(|job| job.state == state)).await;
    job.expect("a job in a state is there")
}

/// Waits until the job is done.
pub(crate) async fn job_gone(queue: &Queue, id: i64) {
    job_when(queue, id, |job| job.is_none()).await;
}
