//! The pool: how a statement reaches the server and what comes back, within the operation's time.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use esker_coord_api::{Clock, Outcome};

use crate::{Error, Options, error::Running, stats::Counters, tls::Connector, url::Target};

/// A parameter and its type: statements are unnamed and typed, so that one round trip runs them and a transaction
/// pooler may hand each to another server connection (CW-08).
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The pooled connections of one store. Statements name the schema as `{schema}`.
#[derive(Clone)]
pub(crate) struct Database {
    pool: Pool,
    tls: Connector,
    timeout: Duration,
    schema: Arc<Schema>,
    clock: Option<Clock>,
    stats: Arc<Counters>,
    runtime: Handle,
}

struct Schema {
    name: String,
    quoted: String,
}

impl Database {
    /// A pool that connects when it is first asked.
    pub(crate) fn new(target: &Target, options: &Options, stats: Arc<Counters>) -> Self {
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(target.config.clone(), target.tls.maker(), recycling);
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            .build()
            .expect("a pool without timeouts of its own needs no runtime");
        // The options' check has seen to it that quotes are all that it needs.
        let quoted = format!("\"{}\"", options.schema);
        Self {
            pool,
            tls: target.tls.clone(),
            timeout: options.operation_timeout,
            schema: Arc::new(Schema {
                name: options.schema.clone(),
                quoted,
            }),
            clock: options.clock.clone(),
            stats,
            runtime: Handle::current(),
        }
    }

    /// The schema's name, unquoted.
    pub(crate) fn schema(&self) -> &str {
        &self.schema.name
    }

    /// The statement or script with the schema's name in it.
    pub(crate) fn sql(&self, template: &str) -> String {
        template.replace("{schema}", &self.schema.quoted)
    }

    /// The time of an operation, when a test gives it; else the statement reads the database's clock (CX-04).
    pub(crate) fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(Clock::now)
    }

    /// A connection of the pool.
    pub(crate) async fn connection(&self) -> Result<Object, Error> {
        self.connection_by(self.deadline()).await
    }

    /// A connection for what takes as long as it takes: the pool makes another in its place.
    pub(crate) async fn connection_apart(&self) -> Result<ClientWrapper, Error> {
        self.connection().await.map(Object::take)
    }

    /// Cancels what a connection is doing, and closes it.
    pub(crate) fn cancel(&self, client: ClientWrapper) {
        let (maker, bound) = (self.tls.maker(), self.timeout);
        self.runtime.spawn(async move {
            match timeout(bound, client.cancel_token().cancel_query(maker)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a statement could not be cancelled"),
                Err(_) => tracing::warn!("a statement could not be cancelled: the server does not answer"),
            }
        });
    }

    /// Runs work on a connection that is not of the pool: what does not answer in an operation's time keeps nobody longer.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout(self.timeout, work).await.unwrap_or(Err(Error::Timeout {
            after: self.timeout,
            outcome: Outcome::Aborted,
        }))
    }

    async fn connection_by(&self, deadline: Instant) -> Result<Object, Error> {
        match timeout_at(deadline, self.pool.get()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(PoolError::Backend(error))) => Err(Error::connect(error)),
            Ok(Err(PoolError::Closed)) => Err(Error::Closed),
            Ok(Err(_)) | Err(_) => Err(Error::Timeout {
                after: self.timeout,
                outcome: Outcome::Aborted,
            }),
        }
    }

    /// Runs a statement that only reads. A connection that turns out to be dead is replaced, once.
    pub(crate) async fn read(&self, template: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        match self.run(template, parameters, Running::Undecided).await {
            Err(error) if error.is_lost_connection() => {
                self.run(template, parameters, Running::Undecided).await
            }
            other => other,
        }
    }

    /// Runs a statement that commits by itself. Where others were in its way, as they are when the database's default
    /// isolation is higher than it need be, it is run again.
    pub(crate) async fn write(
        &self,
        template: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let deadline = self.deadline();
        loop {
            match self.run(template, parameters, Running::Commit).await {
                Err(error) if error.is_conflict() && Instant::now() < deadline => {}
                other => return other,
            }
        }
    }

    async fn run(
        &self,
        template: &str,
        parameters: &[Parameter<'_>],
        running: Running,
    ) -> Result<Vec<Row>, Error> {
        let deadline = self.deadline();
        let connection = self.connection_by(deadline).await?;
        match self.query(&connection, template, parameters, deadline).await {
            Some(answer) => answer.map_err(|error| Error::of(error, running)),
            None => Err(self.give_up(connection, running)),
        }
    }

    /// Runs a statement on this connection; `None` when it is out of time.
    pub(crate) async fn query(
        &self,
        client: &Client,
        template: &str,
        parameters: &[Parameter<'_>],
        deadline: Instant,
    ) -> Option<Result<Vec<Row>, tokio_postgres::Error>> {
        self.stats.statements.add();
        let sql = self.sql(template);
        timeout_at(deadline, client.query_typed(&sql, parameters))
            .await
            .ok()
    }

    /// When an operation that begins now is out of time.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Cancels what the connection is doing and closes it: what it would still answer is for nobody.
    pub(crate) fn give_up(&self, connection: Object, running: Running) -> Error {
        self.cancel(Object::take(connection));
        let outcome = match running {
            Running::Undecided => Outcome::Aborted,
            Running::Commit => Outcome::Unknown,
        };
        Error::Timeout {
            after: self.timeout,
            outcome,
        }
    }

    /// Rolls back what is open on the connection before the pool has it again, whoever let go of it.
    pub(crate) fn roll_back(&self, connection: Object) {
        let bound = self.timeout;
        self.runtime.spawn(async move {
            if !matches!(
                timeout(bound, connection.batch_execute("ROLLBACK")).await,
                Ok(Ok(()))
            ) {
                drop(Object::take(connection));
            }
        });
    }

    /// Closes every connection; those in use when they come back.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}
