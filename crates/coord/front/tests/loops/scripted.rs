//! An engine that does what another does, but fails or halts where a test says so, and counts what it is asked.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use esker_coord::{
    CancellationToken, DeadPage, Error, Inspection, Job, LocalName, Name, NewEvent, Outcome, Payload, Result,
    StreamEvent, WakeReceiver,
    engine::{
        BoxFuture, Channel, Claim, Claimed, Cursor, Engine, EngineTransaction, Firing, LockAttempt, NewJob,
        NewSchedule, NextTime,
    },
};
use tokio::sync::watch;

/// What happens to a call instead of its answer.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It is not done, and says so.
    Aborted,
    /// It is done, and its answer is lost.
    Unknown,
    /// It is done, and answered when the token is cancelled.
    Halted(CancellationToken),
}

/// What a test says, and sees. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Shared>);

#[derive(Default)]
struct Shared {
    faults: Mutex<BTreeMap<&'static str, VecDeque<Fault>>>,
    calls: watch::Sender<BTreeMap<&'static str, u64>>,
}

impl Script {
    /// Something happens to the next calls of this operation, one each.
    pub(crate) fn fail(&self, operation: &'static str, faults: impl IntoIterator<Item = Fault>) {
        let mut scripted = self.0.faults.lock().unwrap();
        scripted.entry(operation).or_default().extend(faults);
    }

    /// How often this operation was asked for.
    pub(crate) fn calls(&self, operation: &'static str) -> u64 {
        self.0.calls.borrow().get(operation).copied().unwrap_or(0)
    }

    /// Waits until this operation was asked for so often.
    pub(crate) async fn called(&self, operation: &'static str, times: u64) {
        let mut calls = self.0.calls.subscribe();
        calls
            .wait_for(|calls| calls.get(operation).is_some_and(|&called| called >= times))
            .await
            .unwrap();
    }

    fn next(&self, operation: &'static str) -> Option<Fault> {
        self.0
            .calls
            .send_modify(|calls| *calls.entry(operation).or_default() += 1);
        let mut faults = self.0.faults.lock().unwrap();
        faults.get_mut(operation).and_then(VecDeque::pop_front)
    }
}

/// See the module.
pub(crate) struct Scripted<E> {
    pub(crate) engine: E,
    pub(crate) script: Script,
}

impl<E: Engine> Scripted<E> {
    fn run<'e, T: Send + 'e>(
        &'e self,
        operation: &'static str,
        call: impl FnOnce(&'e E) -> BoxFuture<'e, Result<T>>,
    ) -> BoxFuture<'e, Result<T>> {
        let failed = |outcome| Err(Error::database("scripted", outcome));
        match self.script.next(operation) {
            None => call(&self.engine),
            Some(Fault::Aborted) => Box::pin(async move { failed(Outcome::Aborted) }),
            Some(Fault::Unknown) => {
                let call = call(&self.engine);
                Box::pin(async move {
                    call.await?;
                    failed(Outcome::Unknown)
                })
            }
            Some(Fault::Halted(until)) => {
                let call = call(&self.engine);
                Box::pin(async move {
                    let answer = call.await;
                    until.cancelled().await;
                    answer
                })
            }
        }
    }
}

macro_rules! delegate {
    ($(fn $operation:ident($($argument:ident: $type:ty),*) -> $value:ty;)*) => {$(
        fn $operation(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$value>> {
            self.run(stringify!($operation), move |engine| engine.$operation($($argument),*))
        }
    )*};
}

impl<E: Engine> Engine for Scripted<E> {
    fn kind(&self) -> &'static str {
        self.engine.kind()
    }

    delegate! {
        fn notify(channel: Name, payload: Payload) -> ();
        fn listen(channel: Channel) -> WakeReceiver;
        fn publish(stream: Name, events: Vec<NewEvent>) -> Vec<i64>;
        fn read(stream: Name, from: Cursor, limit: usize) -> Vec<StreamEvent>;
        fn save_offset(stream: Name, consumer: LocalName, offset: i64) -> ();
        fn get_offset(stream: Name, consumer: LocalName) -> i64;
        fn trim_to(stream: Name, horizon: i64) -> u64;
        fn enqueue(queue: Name, jobs: Vec<NewJob>) -> Vec<i64>;
        fn claim(queue: Name, worker: LocalName, token: i64, n: usize) -> Vec<Claimed>;
        fn ack(queue: Name, claims: Vec<Claim>) -> Vec<bool>;
        fn retry(queue: Name, claim: Claim, error: Option<String>, delay: i64) -> bool;
        fn fail(queue: Name, claim: Claim, error: Option<String>) -> bool;
        fn release(queue: Name, claim: Claim) -> bool;
        fn heartbeat(queue: Name, claim: Claim, extend: i64) -> bool;
        fn cancel(queue: Name, id: i64) -> bool;
        fn get_job(queue: Name, id: i64) -> Option<Job>;
        fn sweep_expired(queue: Name) -> u64;
        fn next_ready(queue: Name) -> Option<NextTime>;
        fn dead_jobs(queue: Name, page: DeadPage) -> Vec<Job>;
        fn redrive(queue: Name, id: i64) -> bool;
        fn redrive_all(queue: Name) -> u64;
        fn purge_dead(queue: Name) -> u64;
        fn try_lock(name: Name, owner: LocalName, ttl: i64) -> LockAttempt;
        fn renew_lock(name: Name, fence: i64, ttl: i64) -> bool;
        fn release_lock(name: Name, fence: i64) -> bool;
        fn schedule(schedule: NewSchedule) -> ();
        fn unschedule(name: Name) -> bool;
        fn fire_schedules(lock: Name, fence: i64) -> Firing;
        fn inspect() -> Inspection;
        fn begin() -> Box<dyn EngineTransaction>;
    }

    fn sleep_until(&self, time: NextTime) -> BoxFuture<'static, ()> {
        self.engine.sleep_until(time)
    }

    fn safety_interval(&self) -> Option<Duration> {
        self.engine.safety_interval()
    }

    fn note_lost_wake(&self) {
        self.engine.note_lost_wake();
    }

    fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.engine.close()
    }
}
