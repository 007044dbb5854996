//! The reader threads: each read in one read transaction, under its time budget.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{
    Error, Snapshot,
    database::Shared,
    error::panic_message,
    open::was_replaced,
    snapshot::Alarm,
    transaction::{execute, roll_back},
};

/// Virtual machine steps between two looks at the clock: some tens of microseconds.
const STEPS: i32 = 1000;

/// How often a reader looks whether the file was replaced. The writer looks before each commit.
const FILE_CHECK: Duration = Duration::from_millis(100);

/// A caller's closure on its way to a reader.
pub(crate) trait ReadTask: Send {
    fn run(self: Box<Self>, reader: &mut Reader);
}

struct Closure<T, E, F> {
    budget: Duration,
    work: F,
    caller: oneshot::Sender<Result<T, E>>,
}

/// A task of `work`, and where its result will arrive.
pub(crate) fn read_task<T, E, F>(
    budget: Duration,
    work: F,
) -> (Box<dyn ReadTask>, oneshot::Receiver<Result<T, E>>)
where
    F: FnOnce(&mut Snapshot<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let (caller, answer) = oneshot::channel();
    (Box::new(Closure { budget, work, caller }), answer)
}

impl<T, E, F> ReadTask for Closure<T, E, F>
where
    F: FnOnce(&mut Snapshot<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(self: Box<Self>, reader: &mut Reader) {
        let Self { budget, work, caller } = *self;
        if caller.is_closed() {
            reader.shared.counters.reads_skipped.add();
            return;
        }
        let result = reader.read(budget, work);
        drop(caller.send(result));
    }
}

/// One reader thread's connection.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    conn: Connection,
    alarm: Arc<Alarm>,
    file_checked: Option<Instant>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, mut conn: Connection) -> Result<Self, Error> {
        let alarm = Arc::new(Alarm::new());
        let clock = alarm.clone();
        conn.progress_handler(STEPS, Some(move || clock.is_due()))?;
        Ok(Self {
            shared,
            conn,
            alarm,
            file_checked: None,
        })
    }

    /// Serves until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        while let Some(task) = shared.reads.pop() {
            // The closure's own panic is caught closer; this is for what its caller no longer wants.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.run(&mut self))) {
                tracing::error!(
                    panic = panic_message(&*panic),
                    "dropping an unwanted answer panicked"
                );
            }
        }
    }

    fn read<T, E: From<Error>>(
        &mut self,
        budget: Duration,
        work: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        self.check_file(started)?;
        execute(&self.conn, "BEGIN").map_err(Error::from)?;
        let counters = &self.shared.counters;
        counters.reads.add();
        self.alarm.set(started, budget);
        let mut snapshot = Snapshot::new(&self.conn, &self.alarm, budget);
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut snapshot)));
        let over_budget = self.alarm.stop();
        roll_back(&self.conn);
        match result {
            // Whatever the closure made of the interruption: this is why.
            Ok(Err(_)) if over_budget => {
                counters.reads_over_budget.add();
                Err(Error::OverBudget(budget).into())
            }
            Ok(result) => result,
            Err(panic) => Err(Error::Panicked(panic_message(&*panic)).into()),
        }
    }

    fn check_file(&mut self, now: Instant) -> Result<(), Error> {
        let due = self
            .file_checked
            .is_none_or(|checked| now.duration_since(checked) >= FILE_CHECK);
        if due {
            self.file_checked = Some(now);
        }
        if self.shared.replaced.load(Relaxed) || (due && was_replaced(&self.conn)) {
            return Err(self.shared.note_replaced());
        }
        Ok(())
    }
}
