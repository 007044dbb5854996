//! What each query shape costs in statements, index rows and events: no shape grows with the store (STORE-F09).
//!
//! The figures are exact for a given layout and may be improved upon; a test that fails here shows a query that
//! began to read more than it returns.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use esker_events_api::{EventStore, Options, Outcome};
use esker_events_sqlite::{Cost, Settings, SqliteStore};
use esker_nostr::{Event, EventFields, Filter, Keys};

const AUTHORS: u64 = 20;
const THREADS: i64 = 40;

/// A store of `count` events: 20 authors take turns at notes, reactions, messages and reposts, each about one of
/// 40 threads, each to the next author, one in ten with a topic; times go up by one.
async fn store(count: i64, waiting_tag_rows: usize) -> (SqliteStore, Vec<Event>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        waiting_tag_rows,
        ..Settings::default()
    };
    let store = SqliteStore::open(&folder.path().join("cost.db"), Options::default(), settings).unwrap();
    let keys: Vec<Keys> = (0..AUTHORS).map(Keys::from_seed).collect();
    let mut events = Vec::new();
    for number in 0..count {
        let turn = usize::try_from(number).unwrap();
        let author = &keys[turn % keys.len()];
        let recipient = keys[(turn + 1) % keys.len()].public().to_string();
        let mut tags = vec![
            vec!["e".to_owned(), format!("{:064x}", number % THREADS)],
            vec!["p".to_owned(), recipient],
        ];
        if number % 10 == 0 {
            tags.push(vec!["t".to_owned(), "topic".to_owned()]);
        }
        let kind = [1, 7, 4, 6][turn / keys.len() % 4];
        events.push(author.sign(kind, 1_000 + number, &tags, ""));
    }
    for batch in events.chunks(100) {
        let outcomes = store
            .insert_batch(batch.iter().cloned().map(Arc::new).collect())
            .await;
        assert!(
            outcomes.iter().all(|outcome| *outcome == Outcome::Stored),
            "{outcomes:?}"
        );
    }
    (store, events, folder)
}

/// What a filter costs, after its result was compared with the one matcher's.
async fn cost(store: &SqliteStore, events: &[Event], filter: &str) -> Cost {
    let filter = Filter::parse(filter.as_bytes()).unwrap();
    let mut expected: Vec<&Event> = events.iter().filter(|event| filter.matches(*event)).collect();
    expected.sort_by_key(|event| (-event.created_at(), event.id()));
    expected.truncate(
        filter
            .limit
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()),
    );
    let found = store.query(Arc::from([filter])).await.unwrap();
    assert_eq!(
        found,
        expected
            .iter()
            .map(|event| event.json().clone())
            .collect::<Vec<_>>()
    );
    store.last_cost()
}

fn list(values: impl Iterator<Item = String>) -> String {
    values
        .map(|value| format!("\"{value}\""))
        .collect::<Vec<_>>()
        .join(",")
}

fn at_most(statements: u64, rows: u64, events: u64) -> Cost {
    Cost {
        statements,
        rows,
        events,
    }
}

/// Shape, filter (`ID` stands for a stored id), and what it may cost.
fn shapes() -> Vec<(&'static str, String, Cost)> {
    let author = |number: u64| Keys::from_seed(number).public().to_string();
    let all_authors = list((0..AUTHORS).map(author));
    let threads = list((0..5).map(|thread| format!("{thread:064x}")));
    let (one, next, thread) = (author(3), author(4), format!("{:064x}", 7));
    vec![
        (
            "kinds only",
            r#"{"kinds":[1],"limit":20}"#.into(),
            at_most(1, 21, 20),
        ),
        (
            "two kinds",
            r#"{"kinds":[1,7],"limit":20}"#.into(),
            at_most(3, 120, 20),
        ),
        (
            "since only",
            r#"{"since":1900,"until":1919}"#.into(),
            at_most(1, 20, 20),
        ),
        ("newest", r#"{"limit":20}"#.into(), at_most(1, 21, 20)),
        (
            "profile",
            format!(r#"{{"authors":["{one}"],"kinds":[1],"limit":10}}"#),
            at_most(1, 11, 10),
        ),
        (
            "author alone",
            format!(r#"{{"authors":["{one}"],"limit":8}}"#),
            at_most(9, 20, 8),
        ),
        (
            "feed",
            format!(r#"{{"authors":[{all_authors}],"kinds":[1],"limit":20}}"#),
            at_most(1, 128, 20),
        ),
        (
            "metadata",
            format!(r#"{{"authors":[{all_authors}],"kinds":[0]}}"#),
            at_most(20, 0, 0),
        ),
        (
            "thread",
            format!(r##"{{"#e":["{thread}"],"kinds":[1],"limit":5}}"##),
            at_most(1, 6, 5),
        ),
        (
            "tag without kinds",
            format!(r##"{{"#e":["{thread}"],"limit":5}}"##),
            at_most(5, 12, 5),
        ),
        (
            "five threads",
            format!(r##"{{"#e":[{threads}],"kinds":[1,7],"limit":20}}"##),
            at_most(10, 20, 20),
        ),
        (
            "author, kind and tag",
            format!(r##"{{"authors":["{one}"],"kinds":[4],"#p":["{next}"],"limit":5}}"##),
            at_most(1, 6, 5),
        ),
        ("ids", r#"{"ids":["ID"]}"#.into(), at_most(1, 1, 1)),
    ]
}

#[tokio::test]
async fn store_f09_no_shape_grows_with_the_store() {
    for waiting_tag_rows in [0, 1_000_000] {
        for count in [2_000, 6_000] {
            let (store, events, _folder) = store(count, waiting_tag_rows).await;
            for (shape, filter, most) in shapes() {
                let filter = filter.replace("ID", &events[500].id().to_string());
                let cost = cost(&store, &events, &filter).await;
                assert!(
                    cost.statements <= most.statements
                        && cost.rows <= most.rows
                        && cost.events <= most.events,
                    "{shape}, {count} events, {waiting_tag_rows} waiting: {cost:?} is more than {most:?}",
                );
            }
            store.close().await;
        }
    }
}
