//! What the schema holds and its version: migrations at open, and indexes that are built while the store works.

use std::time::Duration;

use tokio::time::{sleep, timeout_at};
use tokio_postgres::{Client, types::Type};

use crate::{Error, database::Database, error::Running};

/// Number n brings the schema from version n - 1 to n.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
];

/// The functions, made anew after the migrations that were missing. Whoever changes them adds a migration.
const FUNCTIONS: &str = include_str!("migrations/functions.sql");

/// Indexes that only maintenance and inspections need. They are built once the store is open, and keep nobody out.
const DEFERRED: [(&str, &str); 3] = [
    (
        "jobs_expiring",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_expiring ON {schema}.jobs (queue, expires_at) \
         WHERE expires_at IS NOT NULL",
    ),
    (
        "dead_retained",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS dead_retained ON {schema}.dead (queue, delete_at) \
         WHERE delete_at IS NOT NULL",
    ),
    // What counts jobs tells these from the pending ones.
    (
        "jobs_lapsed",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_lapsed ON {schema}.jobs (id, queue) \
         WHERE lane = 0 AND token IS NOT NULL",
    ),
];

/// How long those are given way to that a migration met.
const GIVE_WAY: Duration = Duration::from_millis(10);

/// The oldest server: 14, as `server_version_num` has it.
const OLDEST: i32 = 140_000;

const SERVER: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
const NAMESPACE: &str = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
/// Made by the first migration step itself, under the lock.
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS {schema}.version (version int NOT NULL)";
const HAS_VERSION: &str = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND c.relname = 'version'";
const VERSION: &str = "SELECT version FROM {schema}.version";
const RAISE: &str = "WITH gone AS (DELETE FROM {schema}.version) INSERT INTO {schema}.version VALUES ($1)";
/// Ends with the transaction: nothing hangs on a session (CW-08). The key is the schema's.
const LOCK: &str = "SELECT pg_advisory_xact_lock(x'45534b52'::int, hashtext($1))";

/// Refuses a server that is too old, and brings the schema to the version that this build knows; `create` says whether
/// one that is not there is made. Many processes may do so at once; a schema that is up to date is only read. Once it has a
/// connection it takes no longer than an operation may. Where others were in its way, as one that still builds an index is, it is tried again.
pub(crate) async fn migrate(database: &Database, create: bool) -> Result<(), Error> {
    let connection = database.connection().await?;
    let migrating = async {
        loop {
            match migrate_on(database, &connection, create).await {
                Err(error) if error.is_conflict() => sleep(GIVE_WAY).await,
                other => return other,
            }
        }
    };
    let migrated = timeout_at(database.deadline(), migrating).await;
    migrated.unwrap_or_else(|_| Err(database.give_up(connection, Running::Commit)))
}

async fn migrate_on(database: &Database, connection: &Client, create: bool) -> Result<(), Error> {
    let read = |error| Error::of(error, Running::Undecided);
    let server = connection.query_typed_one(SERVER, &[]).await.map_err(read)?;
    check_server(server.get(0), server.get(1))?;
    let known = i32::try_from(MIGRATIONS.len()).expect("there are few migrations");
    match version(database, connection).await? {
        Some(version) if version == known => return Ok(()),
        None if !create => return Err(Error::NoSchema(database.schema().to_owned())),
        _ => {}
    }
    // Whatever the database's default is: what others did while this waited for the lock must be seen.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
    connection.batch_execute(begin).await.map_err(read)?;
    let raised = raise(database, connection, known).await;
    let end = if raised.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.batch_execute(end).await;
    let from = raised?;
    ended.map_err(|error| Error::of(error, Running::Commit))?;
    tracing::info!(schema = database.schema(), from, to = known, "schema migrated");
    Ok(())
}

fn check_server(number: i32, version: &str) -> Result<(), Error> {
    if number < OLDEST {
        return Err(Error::ServerTooOld(version.to_owned()));
    }
    Ok(())
}

/// The schema's version; `None` where there is none yet.
async fn version(database: &Database, client: &Client) -> Result<Option<i32>, Error> {
    let read = |error| Error::of(error, Running::Undecided);
    let schema = database.schema();
    if client
        .query_typed_opt(HAS_VERSION, &[(&schema, Type::TEXT)])
        .await
        .map_err(read)?
        .is_none()
    {
        return Ok(None);
    }
    let row = client
        .query_typed_opt(&database.sql(VERSION), &[])
        .await
        .map_err(read)?;
    let Some(found) = row.map(|row| row.get(0)) else {
        return Ok(None);
    };
    let known = i32::try_from(MIGRATIONS.len()).expect("there are few migrations");
    if found > known {
        return Err(Error::NewerSchema {
            schema: schema.to_owned(),
            found,
            known,
        });
    }
    Ok(Some(found))
}

/// Runs what is missing, under the lock, and gives the version that was found.
async fn raise(database: &Database, client: &Client, known: i32) -> Result<i32, Error> {
    let read = |error| Error::of(error, Running::Undecided);
    let schema = database.schema();
    client
        .query_typed(LOCK, &[(&schema, Type::TEXT)])
        .await
        .map_err(read)?;
    // Another process may have been faster. Making a schema needs a right that using one does not.
    if client
        .query_typed_opt(NAMESPACE, &[(&schema, Type::TEXT)])
        .await
        .map_err(read)?
        .is_none()
    {
        client
            .batch_execute(&database.sql("CREATE SCHEMA {schema}"))
            .await
            .map_err(read)?;
    }
    let from = version(database, client).await?.unwrap_or(0);
    if from == known {
        return Ok(from);
    }
    if from == 0 {
        client
            .batch_execute(&database.sql(VERSIONS))
            .await
            .map_err(read)?;
    }
    let missing = MIGRATIONS
        .iter()
        .zip(1..)
        .skip(usize::try_from(from).unwrap_or(0));
    for (script, version) in missing.chain([(&FUNCTIONS, known)]) {
        client
            .batch_execute(&database.sql(script))
            .await
            .map_err(|error| Error::Migration {
                schema: schema.to_owned(),
                version,
                cause: error.into(),
            })?;
    }
    client
        .query_typed(&database.sql(RAISE), &[(&known, Type::INT4)])
        .await
        .map_err(read)?;
    Ok(from)
}

/// Whether the index is there: 1 valid, 0 not, and being built 2.
const INDEX: &str = "SELECT CASE WHEN i.indisvalid THEN 1 WHEN EXISTS \
    (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.index_relid = c.oid) THEN 2 ELSE 0 END \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indexrelid = c.oid \
    WHERE n.nspname = $1 AND c.relname = $2";

/// Builds the deferred indexes that are missing, and those that an interrupted build left unusable; tells whether all are
/// there then, and none is being built by somebody else.
pub(crate) async fn build_deferred(database: &Database) -> Result<bool, Error> {
    let schema = database.schema();
    let mut ready = true;
    for (index, build) in DEFERRED {
        let found = database
            .read(INDEX, &[(&schema, Type::TEXT), (&index, Type::TEXT)])
            .await?;
        match found.first().map(|row| row.get::<_, i32>(0)) {
            Some(1) => continue,
            Some(2) => {
                ready = false;
                continue;
            }
            Some(_) => {
                let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {{schema}}.{index}");
                database.write(&drop, &[]).await?;
            }
            None => {}
        }
        let connection = database.connection_apart().await?;
        let built = connection.batch_execute(&database.sql(build)).await;
        built.map_err(|error| Error::of(error, Running::Commit))?;
        tracing::debug!(schema, index, "index built");
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that change without a migration would be missing where the schema is there already.
    #[test]
    fn foundation_functions_change_with_a_migration_only() {
        // FNV-1a.
        let sum = FUNCTIONS.bytes().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(
            (MIGRATIONS.len(), sum),
            (3, 8_427_146_431_317_986_083),
            "functions.sql has changed: add a migration, if only to drop what changed its results"
        );
    }

    #[test]
    fn foundation_a_server_older_than_14_is_refused_by_its_name() {
        assert!(check_server(140_000, "14.0").is_ok() && check_server(180_001, "18.1").is_ok());
        let refused = check_server(130_014, "13.14 (Debian)").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the server is Postgres 13.14 (Debian); 14 or newer is needed"
        );
    }
}
