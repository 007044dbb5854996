//! The writer's view inside one closure: a savepoint in the shared transaction.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use esker_coord_api::Channel;
use rusqlite::Connection;

use crate::{Error, wakes::Wakes};

/// Work left for right after the commit.
pub(crate) type AfterCommit = Box<dyn FnOnce() + Send>;

/// What the closures of one transaction leave for its commit.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) after: Vec<AfterCommit>,
    pub(crate) wakes: Wakes,
}

impl Left {
    fn mark(&self) -> (usize, usize) {
        (self.after.len(), self.wakes.len())
    }

    /// Forgets what was left since the mark.
    fn undo(&mut self, (after, wakes): (usize, usize)) {
        self.after.truncate(after);
        self.wakes.truncate(wakes);
    }
}

/// The writer's view inside one closure: its own savepoint in the shared transaction.
///
/// The transaction is begun, committed and rolled back by the writer alone. A closure that does so itself, through
/// [`sql`](Self::sql), undoes the work of everybody in the transaction, and all are told so.
pub struct Transaction<'c> {
    conn: &'c Connection,
    left: &'c mut Left,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(conn: &'c Connection, left: &'c mut Left) -> Self {
        Self { conn, left }
    }

    /// The connection, for the caller's own statements. Prepare them with `prepare_cached`; step them to their end.
    pub fn sql(&self) -> &Connection {
        self.conn
    }

    /// Runs `work` in a nested savepoint: an error undoes what it did and nothing else. So does a panic, which
    /// then goes on.
    ///
    /// Gives [`Error::RolledBack`] when SQLite gave up the whole transaction meanwhile; the closure may go on, but
    /// nothing that it writes is kept.
    pub fn savepoint<T, E: From<Error>>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.conn.is_autocommit() {
            return Err(Error::RolledBack.into());
        }
        execute(self.conn, "SAVEPOINT esker").map_err(Error::from)?;
        let kept = self.left.mark();
        let mut nested = Transaction {
            conn: self.conn,
            left: &mut *self.left,
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut nested))) {
            Ok(Ok(_)) if self.conn.is_autocommit() => {
                self.undo(kept);
                Err(Error::RolledBack.into())
            }
            Ok(Ok(value)) => match execute(self.conn, "RELEASE esker") {
                Ok(()) => Ok(value),
                Err(error) => {
                    self.undo(kept);
                    Err(Error::from(error).into())
                }
            },
            Ok(Err(error)) => {
                self.undo(kept);
                Err(error)
            }
            Err(panic) => {
                self.undo(kept);
                resume_unwind(panic)
            }
        }
    }

    /// Leaves work for right after the commit, on the writer thread, in commit order and before the caller is
    /// answered. A rolled back savepoint takes its own with it.
    ///
    /// It delays every other write: send, wake or count, and return. A panic in it is logged and harms nothing else.
    pub fn after_commit(&mut self, work: impl FnOnce() + Send + 'static) {
        self.left.after.push(Box::new(work));
    }

    /// Wakes who listens to the channel, in every process, after the commit (CW-01, CW-05): in this one at once, before
    /// the commit is flushed. Wakes of one commit are merged. A rolled back savepoint takes its own with it.
    ///
    /// The file must have the tables of [`SCHEMA`](crate::SCHEMA), or the commit fails.
    pub fn wake(&mut self, channel: &Channel) {
        self.left.wakes.push(channel);
    }

    /// Undoes the innermost savepoint; where that fails, the whole transaction, so that nothing half done stays.
    fn undo(&mut self, kept: (usize, usize)) {
        self.left.undo(kept);
        if self.conn.is_autocommit() {
            return;
        }
        let undone =
            execute(self.conn, "ROLLBACK TO esker").and_then(|()| execute(self.conn, "RELEASE esker"));
        if let Err(error) = undone {
            tracing::error!(%error, "a savepoint could not be rolled back; the whole transaction is");
            roll_back(self.conn);
        }
    }
}

/// Runs one statement that has neither parameters nor rows.
pub(crate) fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// Ends the transaction, if one is open. SQLite ends it even where this reports an error.
pub(crate) fn roll_back(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = execute(conn, "ROLLBACK")
    {
        tracing::error!(%error, "rollback");
    }
}
