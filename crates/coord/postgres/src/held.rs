//! A transaction on a connection of the pool: begun, used, committed in one trip with its last statement.

use deadpool_postgres::Object;
use futures_util::future::join;
use tokio::time::timeout_at;
use tokio_postgres::{Client, Row};

use crate::{
    Error,
    database::{Database, Parameter},
    error::Running,
};

/// An open transaction. Dropping it rolls back, and then gives the connection back to the pool.
pub(crate) struct Held {
    database: Database,
    /// `None` once the connection was given up.
    connection: Option<Object>,
}

/// What fails in a transaction in which something failed before. Postgres answers the COMMIT of such a transaction as
/// if all were well, and rolls it back.
const IS_SOUND: &str = "SELECT 1";

impl Held {
    /// Begins; `how` follows BEGIN.
    pub(crate) async fn begin(database: &Database, how: &str) -> Result<Self, Error> {
        let deadline = database.deadline();
        let connection = database.connection().await?;
        let mut held = Self {
            database: database.clone(),
            connection: Some(connection),
        };
        let sql = format!("BEGIN {how}");
        let begun = timeout_at(deadline, held.client()?.batch_execute(&sql)).await;
        match begun {
            Ok(Ok(())) => Ok(held),
            Ok(Err(error)) => Err(Error::of(error, Running::Undecided)),
            Err(_) => Err(held.give_up()),
        }
    }

    /// The connection that the transaction is on; a connection that was lost took the transaction with it.
    pub(crate) fn client(&self) -> Result<&Client, Error> {
        let connection = self.connection.as_deref().filter(|wrapper| !wrapper.is_closed());
        connection.map(|wrapper| &**wrapper).ok_or(Error::Ended)
    }

    /// Runs a statement in the transaction.
    pub(crate) async fn query(
        &mut self,
        template: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let deadline = self.database.deadline();
        match self
            .database
            .query(self.client()?, template, parameters, deadline)
            .await
        {
            Some(answer) => answer.map_err(|error| {
                let error = Error::of(error, Running::Undecided);
                // The transaction is gone with its connection, whether or not the driver knows yet.
                if error.is_lost_connection() {
                    self.connection.take().map(Object::take);
                }
                error
            }),
            None => Err(self.give_up()),
        }
    }

    /// Commits.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.commit_with(IS_SOUND, &[]).await.map(drop)
    }

    /// Runs a last statement and commits, in one trip: what the statement locks is locked no longer than that takes.
    pub(crate) async fn commit_with(
        mut self,
        template: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let deadline = self.database.deadline();
        let both = {
            let client = self.client()?;
            let last = self.database.query(client, template, parameters, deadline);
            let commit = timeout_at(deadline, client.batch_execute("COMMIT"));
            join(last, commit).await
        };
        let rows = match both {
            (None, _) | (_, Err(_)) => return Err(self.lose()),
            // The commit that follows a failed statement rolls back; what the connection took with it may be committed.
            (Some(Err(error)), _) | (Some(Ok(_)), Ok(Err(error))) => {
                return Err(Error::of(error, Running::Commit));
            }
            (Some(Ok(rows)), Ok(Ok(()))) => rows,
        };
        // Back to the pool, with nothing to roll back.
        drop(self.connection.take());
        Ok(rows)
    }

    /// Out of time before the commit was sent.
    fn give_up(&mut self) -> Error {
        match self.connection.take() {
            Some(connection) => self.database.give_up(connection, Running::Undecided),
            None => Error::Ended,
        }
    }

    /// Out of time after the commit was sent.
    fn lose(&mut self) -> Error {
        match self.connection.take() {
            Some(connection) => self.database.give_up(connection, Running::Commit),
            None => Error::Ended,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.database.roll_back(connection);
        }
    }
}
