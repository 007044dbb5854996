//! Opening: what is made, what is migrated, what is refused and left alone.

use std::{fs, path::Path};

use esker_coord_sqlite::{Database, Error, Options, Schema, rusqlite::Connection};

use crate::support::{Fixture, MINUTE, NOTES, write_note};

fn open(path: &Path, schemas: &[Schema]) -> Result<Database, Error> {
    Database::open(path, Options::default(), schemas)
}

async fn text(db: &Database, sql: &'static str) -> String {
    db.write(move |tx| {
        let value: esker_coord_sqlite::rusqlite::types::Value =
            tx.sql().query_row(sql, [], |row| row.get(0))?;
        Ok::<_, Error>(format!("{value:?}"))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn cx_09_open_makes_the_file_with_its_pragmas() {
    let fx = Fixture::new();
    for (pragma, value) in [
        ("PRAGMA journal_mode", "Text(\"wal\")"),
        ("PRAGMA page_size", "Integer(4096)"),
        ("PRAGMA cache_size", "Integer(-16000)"),
        ("PRAGMA temp_store", "Integer(2)"),
        ("PRAGMA wal_autocheckpoint", "Integer(0)"),
        ("PRAGMA journal_size_limit", "Integer(41943040)"),
        ("PRAGMA application_id", "Integer(1163086674)"),
    ] {
        assert_eq!(text(&fx.db, pragma).await, value, "{pragma}");
    }
    assert_eq!(fx.db.path(), fx.path());
}

const V1: Schema = Schema {
    component: "things",
    migrations: &["CREATE TABLE a (x)"],
};
const V2: Schema = Schema {
    component: "things",
    migrations: &["CREATE TABLE a (x)", "CREATE TABLE b (x); ALTER TABLE a ADD y"],
};
const BROKEN: Schema = Schema {
    component: "things",
    migrations: &[
        "CREATE TABLE a (x)",
        "CREATE TABLE b (x); DROP TABLE a",
        "CREATE TABLE b (x)",
    ],
};

#[tokio::test]
async fn store_k04_migrations_run_once_each_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    open(&path, &[V1]).unwrap().close().await;
    for _ in 0..2 {
        let db = open(&path, &[V2, NOTES]).unwrap();
        let versions = "SELECT group_concat(component || version) FROM esker_schema";
        assert_eq!(text(&db, versions).await, "Text(\"notes2,things2\")");
        assert_eq!(text(&db, "SELECT count(y) FROM a").await, "Integer(0)");
        db.close().await;
    }
}

#[tokio::test]
async fn store_k04_an_up_to_date_file_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    open(&path, &[V2]).unwrap().close().await;
    let before = (
        fs::read(&path).unwrap(),
        fs::metadata(&path).unwrap().modified().unwrap(),
    );
    open(&path, &[V2]).unwrap().close().await;
    let after = (
        fs::read(&path).unwrap(),
        fs::metadata(&path).unwrap().modified().unwrap(),
    );
    assert!(before == after);
}

#[tokio::test]
async fn store_k04_a_failing_migration_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    open(&path, &[V1]).unwrap().close().await;
    let before = fs::read(&path).unwrap();
    // The component before it is not migrated either.
    let error = open(&path, &[NOTES, BROKEN]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Migration {
                component: "things",
                version: 2,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(fs::read(&path).unwrap() == before);
    open(&path, &[V2]).unwrap().close().await;
}

#[tokio::test]
async fn cx_09_a_newer_schema_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    open(&path, &[V2]).unwrap().close().await;
    let error = open(&path, &[V1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the file's things tables have version 2, this build knows up to 1; use a newer build"
    );
}

#[test]
fn cx_09_a_file_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for script in [
        "CREATE TABLE theirs (x)",
        "PRAGMA application_id = 252006674",
        "DROP TABLE theirs",
    ] {
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(script).unwrap();
        conn.close().unwrap();
        let before = fs::read(&path).unwrap();
        let error = open(&path, &[V1]).unwrap_err();
        assert!(matches!(error, Error::ForeignFile { .. }), "{error:?}");
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn cx_09_a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let letter = "Dear Sir or Madam, ".repeat(1000);
    fs::write(&path, &letter).unwrap();
    assert!(matches!(open(&path, &[V1]), Err(Error::NotADatabase(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), letter);
}

#[test]
fn cx_09_what_names_no_file_is_refused() {
    for path in ["", ":memory:", "file:a.db?mode=memory"] {
        assert!(
            matches!(open(Path::new(path), &[]), Err(Error::NotAPath(_))),
            "{path}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("a.db");
    assert!(matches!(open(&missing, &[]), Err(Error::NoFolder(_))));
    assert!(open(folder.path(), &[]).is_err());
}

#[tokio::test]
async fn cx_09_a_replaced_file_is_noticed_and_the_old_one_not_written() {
    let fx = Fixture::new();
    write_note(&fx.db, 1).await.unwrap();
    let other = fx.folder.path().join("other.db");
    open(&other, &[NOTES]).unwrap().close().await;
    let kept = fx.folder.path().join("kept.db");
    fs::hard_link(fx.path(), &kept).unwrap();
    let before = fs::metadata(&kept).unwrap();
    let wal_before = fx.wal_bytes();

    let mut held = fx.db.begin().await.unwrap();
    held.run(|tx| crate::support::note(tx, 5)).await.unwrap();
    fs::rename(&other, fx.path()).unwrap();
    assert!(matches!(held.commit().await, Err(Error::Replaced(_))));
    for n in 2..4 {
        assert!(matches!(write_note(&fx.db, n).await, Err(Error::Replaced(_))));
    }
    assert!(matches!(fx.db.begin().await.map(drop), Err(Error::Replaced(_))));
    let read = fx.db.read(MINUTE, |_| Ok::<_, Error>(())).await;
    assert!(matches!(read, Err(Error::Replaced(_))));
    assert_eq!(fx.db.stats().commits, 1);
    assert_eq!(fx.wal_bytes(), wal_before);
    fx.db.close().await;
    let after = fs::metadata(&kept).unwrap();
    assert_eq!(
        (after.len(), after.modified().unwrap()),
        (before.len(), before.modified().unwrap())
    );
}

#[tokio::test]
async fn cx_09_a_removed_file_is_noticed_by_readers_too() {
    let fx = Fixture::new();
    fx.db.read(MINUTE, |_| Ok::<_, Error>(())).await.unwrap();
    fs::remove_file(fx.path()).unwrap();
    // Readers look now and then.
    while fx.db.read(MINUTE, |_| Ok::<_, Error>(())).await.is_ok() {
        assert!(!fx.db.is_closed());
    }
    assert!(fx.db.is_closed());
    assert!(matches!(write_note(&fx.db, 1).await, Err(Error::Replaced(_))));
    fx.db.close().await;
    assert!(!fx.path().exists());
}
