//! The writer thread: group commits, held transactions in their turn, checkpoints between.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    Error, Transaction,
    database::Shared,
    error::panic_message,
    flusher::Flusher,
    held::{Begin, Command, Line},
    open::{LOCK_POLL, WriterConnection, was_replaced},
    queue::Popped,
    task::Task,
    transaction::{AfterCommit, Left, execute, roll_back},
    wal::Checkpoints,
};

/// What the writer is asked for.
pub(crate) enum Job {
    /// A closure, for the next group commit.
    Write(Box<dyn Task>),
    /// A transaction that takes the writer for its time.
    Begin(Begin),
}

/// How long the lock is left free after a commit while other processes write too: twice their pause between two tries,
/// so that each of them gets its turn.
const YIELD: Duration = LOCK_POLL.saturating_mul(2);

/// How long another process counts as writing after a commit of its own was seen. More than one turn, because on a
/// loaded machine it may miss one.
const CONTENDED: Duration = Duration::from_millis(100);

pub(crate) struct Writer {
    shared: Arc<Shared>,
    db: WriterConnection,
    readers: Vec<JoinHandle<()>>,
    /// Taken from the queue, in order.
    pending: VecDeque<Job>,
    checkpoints: Checkpoints,
    /// Makes commits durable; there is none where a commit counts as done without.
    flusher: Option<Flusher>,
    /// SQLite's counter of the commits of others.
    data_version: i64,
    /// Until when other processes count as writing.
    contended_until: Option<Instant>,
    /// Until when the lock is left to them.
    yields_until: Option<Instant>,
    /// Whether the last write found the disk full, so that a log line tells of each change and not of each write.
    full: bool,
    /// Changed rows when the disk was found full: only what changes rows shows that writing works again.
    changes_when_full: u64,
    /// Tells that the writer has ended, by being dropped.
    _ended: watch::Sender<()>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        db: WriterConnection,
        readers: Vec<JoinHandle<()>>,
        flusher: Option<Flusher>,
        ended: watch::Sender<()>,
    ) -> Self {
        let checkpoints = Checkpoints::new(&shared.options);
        Self {
            shared,
            db,
            readers,
            pending: VecDeque::new(),
            checkpoints,
            flusher,
            data_version: 0,
            contended_until: None,
            yields_until: None,
            full: false,
            changes_when_full: 0,
            _ended: ended,
        }
    }

    /// Serves until the queue is closed and empty, then ends the readers and empties the log.
    pub(crate) fn run(mut self) {
        let _guard = CloseOnPanic(self.shared.clone());
        while let Some(job) = self.next_job() {
            match job {
                Job::Write(task) => self.group(task),
                Job::Begin(begin) => self.hold(begin),
            }
            self.checkpoints
                .run(&self.db.conn, &self.db.patience, &self.shared.counters);
        }
        self.flusher = None;
        for reader in self.readers.drain(..) {
            drop(reader.join());
        }
        self.shared.watch.join();
        if !was_replaced(&self.db.conn) {
            Checkpoints::finish(&self.db.conn, &self.db.patience, &self.shared.counters);
        }
    }

    fn next_job(&mut self) -> Option<Job> {
        self.pending.pop_front().or_else(|| {
            let job = self.shared.writes.pop()?;
            self.take_waiting(self.shared.options.max_batch - 1);
            Some(job)
        })
    }

    fn take_waiting(&mut self, most: usize) {
        self.shared.writes.take_waiting(&mut self.pending, most);
    }

    /// The next closure, unless something else comes before it.
    fn next_task(&mut self) -> Option<Box<dyn Task>> {
        match self.pending.pop_front()? {
            Job::Write(task) => Some(task),
            begin @ Job::Begin(_) => {
                self.pending.push_front(begin);
                None
            }
        }
    }

    /// Runs `first` and the closures that wait behind it in one transaction, and answers them after its commit.
    fn group(&mut self, first: Box<dyn Task>) {
        let most = self.shared.options.max_batch;
        let mut done: Vec<Box<dyn Task>> = Vec::with_capacity(self.pending.len() + 1);
        let mut left = Left::default();
        let mut next = Some(first);
        let result = self.begin().and_then(|()| {
            while let Some(mut task) = next.take() {
                let lost = self.step(&mut *task, &mut left);
                done.push(task);
                lost?;
                // Whoever came meanwhile rides along.
                if self.pending.is_empty() {
                    self.take_waiting(most.saturating_sub(done.len()));
                }
                if self.pending.is_empty() && done.len() < most {
                    self.wait_for_company();
                }
                if done.len() < most {
                    next = self.next_task();
                }
            }
            self.commit(&left)
        });
        match result {
            Ok(()) => {
                self.note_room(done.iter().any(|task| task.met_full_disk()));
                self.tell(left);
                self.settle(move |settled| {
                    for mut task in done {
                        if let Err(error) = &settled {
                            task.fail(error);
                        }
                        answer(task);
                    }
                });
            }
            Err(error) => {
                // Where no transaction could be begun, all who waited for it have waited long enough.
                if let Some(first) = next {
                    done.push(first);
                    while done.len() < most
                        && let Some(task) = self.next_task()
                    {
                        done.push(task);
                    }
                }
                for task in &mut done {
                    task.fail(&error);
                }
                if done.iter().any(|task| task.met_full_disk()) || error.is_full() {
                    self.note_room(true);
                }
                for task in done {
                    answer(task);
                }
            }
        }
    }

    /// Does what was left for after the commit; wakes first, so that nothing delays them.
    fn tell(&self, left: Left) {
        left.wakes.tell(&self.shared.hub);
        run_after_commit(left.after);
    }

    /// Calls `settled` once what was committed is as durable as asked for.
    fn settle(&self, settled: impl FnOnce(Result<(), Error>) + Send + 'static) {
        match &self.flusher {
            Some(flusher) => flusher.settle(settled),
            None => settled(Ok(())),
        }
    }

    /// While the disk is busy with earlier commits, waits for one more job to share this one: committing now would
    /// gain nothing but a longer queue at the disk.
    fn wait_for_company(&mut self) {
        if let Some(flusher) = &self.flusher
            && let Some(job) = self.shared.writes.pop_while(|| flusher.is_busy())
        {
            self.pending.push_back(job);
        }
    }

    /// Runs one closure in its savepoint. An error means that SQLite gave up the whole transaction.
    fn step(&self, task: &mut dyn Task, left: &mut Left) -> Result<(), Error> {
        let counters = &self.shared.counters;
        counters.closures.add();
        if !task.run(&mut Transaction::new(&self.db.conn, left)) {
            counters.undone.add();
        }
        if self.db.conn.is_autocommit() {
            counters.rollbacks.add();
            return Err(Error::RolledBack);
        }
        Ok(())
    }

    /// Begins a transaction with the write lock.
    fn begin(&mut self) -> Result<(), Error> {
        if let Some(until) = self.yields_until.take() {
            sleep(until.saturating_duration_since(Instant::now()));
        }
        self.check_file()?;
        self.flusher.as_ref().map_or(Ok(()), Flusher::check)?;
        let conn = &self.db.conn;
        roll_back(conn);
        execute(conn, "BEGIN IMMEDIATE")?;
        let seen = conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut version| version.query_row([], |row| row.get(0)));
        match seen {
            Ok(version) => {
                if version != self.data_version && self.data_version != 0 {
                    self.contended_until = Some(Instant::now() + CONTENDED);
                }
                self.data_version = version;
                Ok(())
            }
            Err(error) => {
                roll_back(conn);
                Err(error.into())
            }
        }
    }

    /// Commits; after a failure nothing of the transaction is left, and the next can begin.
    fn commit(&mut self, left: &Left) -> Result<(), Error> {
        let conn = &self.db.conn;
        let committed = self.check_file().and_then(|()| {
            left.wakes.write(conn, self.shared.origin)?;
            self.db.may_commit.store(true, Relaxed);
            let committed = execute(conn, "COMMIT").map_err(Error::of_commit);
            self.db.may_commit.store(false, Relaxed);
            committed
        });
        if committed.is_ok() {
            self.shared.counters.commits.add();
        } else {
            self.shared.counters.rollbacks.add();
            roll_back(conn);
        }
        if let Some(until) = self.contended_until {
            let now = Instant::now();
            self.contended_until = Some(until).filter(|until| *until > now);
            self.yields_until = Some(now + YIELD);
        }
        committed
    }

    /// Refuses to go on once the path leads to another file (CX-09).
    fn check_file(&self) -> Result<(), Error> {
        if self.shared.replaced.load(Relaxed) || was_replaced(&self.db.conn) {
            return Err(self.shared.note_replaced());
        }
        Ok(())
    }

    /// Logs the change when the disk becomes full, and when a commit shows that there is room again.
    fn note_room(&mut self, full: bool) {
        let changes = self.db.conn.total_changes();
        if full {
            if !self.full {
                tracing::warn!(path = %self.shared.path.display(), "the disk or the database file is full; writes fail until there is room");
            }
            self.full = true;
            self.changes_when_full = changes;
        } else if self.full && changes != self.changes_when_full {
            self.full = false;
            tracing::info!(path = %self.shared.path.display(), "there is room again; writing works");
        }
    }

    /// Serves one held transaction, from its begin to its end. Every other write waits.
    fn hold(&mut self, begin: Begin) {
        let Begin { line, caller } = begin;
        if caller.is_closed() {
            return;
        }
        // From here on, closing the database ends this transaction too.
        if !self.shared.hold(&line) {
            drop(caller.send(Err(Error::Closed)));
            return;
        }
        match self.begin() {
            Ok(()) => {
                drop(caller.send(Ok(())));
                let reason = self.serve_held(&line);
                line.end(reason);
            }
            Err(error) => drop(caller.send(Err(error))),
        }
        self.shared.release();
    }

    /// Gives why the transaction ended.
    fn serve_held(&mut self, line: &Line) -> Error {
        let idle = self.shared.options.idle_transaction;
        let mut left = Left::default();
        let reason = loop {
            match line.commands.pop_within(idle) {
                Popped::Item(Command::Run(mut task)) => {
                    let step = self.step(&mut *task, &mut left);
                    if let Err(error) = &step {
                        task.fail(error);
                    }
                    if task.met_full_disk() {
                        self.note_room(true);
                    }
                    answer(task);
                    if let Err(error) = step {
                        return error;
                    }
                }
                Popped::Item(Command::Commit(caller)) => {
                    let committed = self.commit(&left);
                    match &committed {
                        Ok(()) => self.note_room(false),
                        Err(error) if error.is_full() => self.note_room(true),
                        Err(_) => {}
                    }
                    match committed {
                        Ok(()) => {
                            self.tell(left);
                            self.settle(move |settled| drop(caller.send(settled)));
                        }
                        failed => drop(caller.send(failed)),
                    }
                    return Error::Closed;
                }
                Popped::TimedOut => break Error::IdleTransaction(idle),
                Popped::Closed => break Error::Closed,
            }
        };
        self.shared.counters.rollbacks.add();
        roll_back(&self.db.conn);
        reason
    }
}

/// Runs what the closures left for after the commit, in order.
fn run_after_commit(after: Vec<AfterCommit>) {
    for work in after {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            tracing::error!(panic = panic_message(&*panic), "work after a commit panicked");
        }
    }
}

/// Answers a caller. What is dropped when the caller is gone is the caller's own, and may panic.
fn answer(task: Box<dyn Task>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.answer())) {
        tracing::error!(
            panic = panic_message(&*panic),
            "dropping an unwanted answer panicked"
        );
    }
}

/// Should the writer itself panic, then callers get [`Error::Lost`] or [`Error::Closed`] rather than no answer.
struct CloseOnPanic(Arc<Shared>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        self.0.close();
        while self.0.writes.pop().is_some() {}
    }
}
