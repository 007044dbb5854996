//! The writer's view inside one closure: a savepoint in the shared transaction.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rusqlite::Connection;

use crate::Error;

/// Work left for right after the commit.
pub(crate) type AfterCommit = Box<dyn FnOnce() + Send>;

/// The writer's view inside one closure: its own savepoint in the shared transaction.
///
/// The transaction is begun, committed and rolled back by the writer alone. A closure that does so itself, through
/// [`sql`](Self::sql), undoes the work of everybody in the transaction, and all are told so.
pub struct Transaction<'c> {
    conn: &'c Connection,
    after: &'c mut Vec<AfterCommit>,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(conn: &'c Connection, after: &'c mut Vec<AfterCommit>) -> Self {
        Self { conn, after }
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
        let kept = self.after.len();
        let mut nested = Transaction {
            conn: self.conn,
            after: &mut *self.after,
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
        self.after.push(Box::new(work));
    }

    /// Undoes the innermost savepoint; where that fails, the whole transaction, so that nothing half done stays.
    fn undo(&mut self, kept: usize) {
        self.after.truncate(kept);
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
