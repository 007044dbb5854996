//! A transaction that its caller holds across awaits (CT-01 to CT-05).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::{
    Database, Error, Transaction,
    queue::Queue,
    task::{Task, task},
    writer::Job,
};

/// A transaction that takes the writer for its time: every other writer of the file waits for its end, so hold it
/// shortly. Made by [`Database::begin`].
///
/// Dropping it rolls back (CT-03). So does closing the database, and doing nothing for
/// [`Options::idle_transaction`](crate::Options::idle_transaction) (CT-05): its next call then says so.
pub struct HeldTransaction {
    /// Keeps the database open.
    pub(crate) database: Database,
    line: Arc<Line>,
}

/// The way from a held transaction to the writer.
pub(crate) struct Line {
    /// One call at a time.
    pub(crate) commands: Queue<Command>,
    ended: Mutex<Option<Error>>,
}

pub(crate) enum Command {
    Run(Box<dyn Task>),
    Commit(oneshot::Sender<Result<(), Error>>),
}

/// The wish for a held transaction, in the writer's queue.
pub(crate) struct Begin {
    pub(crate) line: Arc<Line>,
    pub(crate) caller: oneshot::Sender<Result<(), Error>>,
}

impl Line {
    /// Ends the transaction's calls, those that wait included: each gives `reason`.
    pub(crate) fn end(&self, reason: Error) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.commands.close();
        while self.commands.pop().is_some() {}
    }

    fn reason(&self) -> Error {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .unwrap_or(Error::Closed)
    }
}

impl HeldTransaction {
    pub(crate) async fn begin(database: &Database) -> Result<Self, Error> {
        let line = Arc::new(Line {
            commands: Queue::new(1),
            ended: Mutex::new(None),
        });
        // Made now, so that a future dropped from here on lets the writer go.
        let held = Self {
            database: database.clone(),
            line: line.clone(),
        };
        let (caller, begun) = oneshot::channel();
        database.submit(Job::Begin(Begin { line, caller })).await?;
        begun.await.unwrap_or(Err(Error::Lost))?;
        Ok(held)
    }

    /// Runs `work` on the writer thread, in a savepoint of this transaction: its error, or its panic
    /// ([`Error::Panicked`]), undoes what it did and nothing else, and the transaction goes on.
    ///
    /// Dropping the future does not undo the work (CX-10).
    pub async fn run<T, E, F>(&mut self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.database.check_process()?;
        let (task, answer) = task(work);
        if self.line.commands.push(Command::Run(task)).await.is_err() {
            return Err(self.line.reason().into());
        }
        answer.await.unwrap_or_else(|_| Err(self.line.reason().into()))
    }

    /// Commits. When this returns `Ok`, everything is durable and what was left for after the commit has run.
    pub async fn commit(self) -> Result<(), Error> {
        self.database.check_process()?;
        let (caller, committed) = oneshot::channel();
        if self.line.commands.push(Command::Commit(caller)).await.is_err() {
            return Err(self.line.reason());
        }
        committed.await.unwrap_or_else(|_| Err(self.line.reason()))
    }
}

impl Drop for HeldTransaction {
    fn drop(&mut self) {
        // After a commit this changes nothing; else the writer finds the line closed, and rolls back.
        self.line.commands.close();
    }
}
