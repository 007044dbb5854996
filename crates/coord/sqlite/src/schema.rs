//! Whose file it is, and the versions of what is in it: application id, schema table, migrations.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::Error;

/// `ESKR` in ASCII, the file's `application_id`.
const APPLICATION_ID: i32 = 0x4553_4B52;

const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS esker_schema \
    (component TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL) STRICT, WITHOUT ROWID";

/// One component's tables in the file: a name, and its migrations in order. The version is how many ran.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The component, such as `events`.
    pub component: &'static str,
    /// SQL scripts; number n brings version n to n + 1. They run inside a transaction and may not end it.
    pub migrations: &'static [&'static str],
}

/// Refuses a file of another program, and gives whether the file is ours already rather than empty.
pub(crate) fn is_ours(conn: &Connection, path: &Path) -> Result<bool, Error> {
    // In this order: should another process make the file ours in between, then an empty file is found to be ours.
    let empty: bool = conn.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| {
        row.get(0)
    })?;
    let found: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if found == APPLICATION_ID {
        return Ok(true);
    }
    if empty && found == 0 {
        return Ok(false);
    }
    Err(Error::ForeignFile {
        path: path.to_owned(),
        application_id: found,
    })
}

/// Brings every component to the version that this build knows, all in one transaction. A file that is up to date is
/// only read.
pub(crate) fn migrate(conn: &mut Connection, path: &Path, schemas: &[Schema]) -> Result<(), Error> {
    if is_ours(conn, path)? && behind(conn, schemas)?.is_empty() {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if !is_ours(&tx, path)? {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.execute_batch(VERSION_TABLE)?;
    }
    for (schema, version) in behind(&tx, schemas)? {
        raise(&tx, schema, version)?;
    }
    tx.commit().map_err(Error::of_commit)
}

/// The components that lack migrations, each with its version in the file.
fn behind<'s>(conn: &Connection, schemas: &'s [Schema]) -> Result<Vec<(&'s Schema, usize)>, Error> {
    let mut behind = Vec::new();
    for schema in schemas {
        let found: i64 = conn
            .query_row(
                "SELECT version FROM esker_schema WHERE component = ?1",
                [schema.component],
                |row| row.get(0),
            )
            .optional()?
            .unwrap_or(0);
        let known = schema.migrations.len();
        match usize::try_from(found) {
            Ok(version) if version == known => {}
            Ok(version) if version < known => behind.push((schema, version)),
            _ => {
                let known = i64::try_from(known).unwrap_or(i64::MAX);
                return Err(Error::NewerSchema {
                    component: schema.component.to_owned(),
                    found,
                    known,
                });
            }
        }
    }
    Ok(behind)
}

fn raise(tx: &Transaction<'_>, schema: &Schema, from: usize) -> Result<(), Error> {
    let mut version = i64::try_from(from).unwrap_or(i64::MAX);
    for script in &schema.migrations[from..] {
        tx.execute_batch(script)
            .map_err(|error| match Error::from(error) {
                Error::Sqlite(cause) => Error::Migration {
                    component: schema.component,
                    version,
                    cause,
                },
                other => other,
            })?;
        version += 1;
    }
    let (component, versions) = (
        schema.component,
        "INSERT OR REPLACE INTO esker_schema VALUES (?1, ?2)",
    );
    tx.execute(versions, rusqlite::params![component, version])?;
    tracing::info!(component, from, to = version, "database migrated");
    Ok(())
}
