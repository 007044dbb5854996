//! Every statement of a read path is one search of one key, as SQLite plans it (STORE-F09, performance traps).

use esker_coord_sqlite::rusqlite::Connection;

use crate::{
    counting::{COUNT_KIND, COUNT_TIME},
    execution::EVENT,
    plan::{ADDRESSES, IDS},
    schema::SCHEMA,
    slices::{SLICES, Slices},
    source::{BY_AUTHOR, BY_KIND, BY_KIND_WITH_AUTHOR, BY_TAG, BY_TIME, KINDS_OF_AUTHOR, KINDS_OF_TAG},
};

fn database() -> Connection {
    let database = Connection::open_in_memory().unwrap();
    for migration in SCHEMA.migrations {
        database.execute_batch(migration).unwrap();
    }
    database
}

fn plan_of(database: &Connection, statement: &str) -> String {
    let mut explain = database
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap();
    let count = explain.parameter_count();
    let values = esker_coord_sqlite::rusqlite::params_from_iter(vec![1_i64; count]);
    let steps: Vec<String> = explain
        .query_map(values, |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    steps.join("; ")
}

#[test]
fn store_f09_each_read_path_is_one_search_of_its_key() {
    let database = database();
    let walk = "time>? AND (time,place,seq)<(?,?,?))";
    let expected = [
        (BY_TIME, format!("SEARCH by_time USING PRIMARY KEY ({walk}")),
        (BY_KIND, format!("SEARCH by_kind USING PRIMARY KEY (kind=? AND {walk}")),
        (BY_KIND_WITH_AUTHOR, format!("SEARCH by_kind USING PRIMARY KEY (kind=? AND {walk}")),
        (BY_AUTHOR, format!("SEARCH by_author USING PRIMARY KEY (author=? AND kind=? AND {walk}")),
        (BY_TAG, format!("SEARCH by_tag USING PRIMARY KEY (tag=? AND kind=? AND {walk}")),
        (KINDS_OF_AUTHOR, "SEARCH by_author USING PRIMARY KEY (author=? AND kind>?)".into()),
        (KINDS_OF_TAG, "SEARCH by_tag USING PRIMARY KEY (tag=? AND kind>?)".into()),
        (IDS, "SEARCH by_id USING PRIMARY KEY (place=?)".into()),
        (
            ADDRESSES,
            "SEARCH by_address USING PRIMARY KEY (address=?); SEARCH events USING INTEGER PRIMARY KEY (rowid=?)".into(),
        ),
        (EVENT, "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)".into()),
        (COUNT_TIME, "SEARCH by_time USING PRIMARY KEY (time>? AND time<?)".into()),
        (COUNT_KIND, "SEARCH by_kind USING PRIMARY KEY (kind=? AND time>? AND time<?)".into()),
    ];
    for (statement, plan) in expected {
        assert_eq!(plan_of(&database, statement), plan, "{statement}");
    }
}

#[test]
fn store_w03_the_database_refuses_an_ephemeral_row() {
    let database = database();
    let insert = |kind: i64| database.execute("INSERT INTO events (kind, json) VALUES (?1, x'00')", [kind]);
    assert!(insert(20_000).is_err());
    assert!(insert(29_999).is_err());
    assert!(insert(19_999).is_ok());
    assert!(insert(30_000).is_ok());
}

#[test]
fn a_new_file_has_every_slice() {
    assert_eq!(Slices::read(&database()).unwrap().complete_to[..], [0; SLICES]);
}
