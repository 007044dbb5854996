//! Commands that run until they are stopped go on when the database has been away.

use std::io::{BufRead as _, BufReader};

use esker_coord::{
    Queue, QueueOptions, Store, WakeReceiver,
    postgres::{Options, PostgresEngine},
};
use esker_testing::{postgres::Database, wire::Wire};

use crate::support::{Folder, Running, wait_for_line};

/// What such a command says when the database fails it.
const FAILED: &str = "the store failed; trying again";

#[test]
fn a_tail_goes_on_after_an_outage_where_it_was() {
    let (database, folder) = (Database::new(), Folder::new());
    let publish = |payload| folder.ok(&["stream", "publish", "s", payload, "--store", &database.url()]);
    publish("before");
    let wire = Wire::to(&database.url());
    let args = [
        "stream",
        "tail",
        "s",
        "--after",
        "0",
        "--json",
        "--store",
        wire.url(),
    ];
    let mut tail = Running::start(&folder, &args);
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines();
    let mut next = || -> serde_json::Value {
        let line = lines.next().expect("the tail goes on").unwrap();
        serde_json::from_str(&line).unwrap()
    };
    assert_eq!(next()["payload"], "before");
    let mut errors = BufReader::new(tail.0.stderr.take().unwrap());
    wire.cut();
    wait_for_line(&mut errors, FAILED);
    publish("meanwhile");
    wire.mend();
    assert_eq!(next()["payload"], "meanwhile");
    publish("after");
    assert_eq!(next()["payload"], "after");
    assert_eq!(tail.stop(), Some(130));
}

#[test]
fn a_runner_of_schedules_goes_on_after_an_outage_and_leaves_no_boundary_out() {
    let (database, folder) = (Database::new(), Folder::new());
    let url = database.url();
    folder.ok(&[
        "schedule",
        "add",
        "tick",
        "@every 1s",
        "ticks",
        "now",
        "--store",
        &url,
    ]);
    let wire = Wire::to(&url);
    let args = ["schedule", "run", "--ttl", "2", "--store", wire.url()];
    let mut runner = Running::start(&folder, &args);
    let boundaries = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = PostgresEngine::open(&url, Options::default()).await.unwrap();
        let store = Store::new(engine);
        let queue = store.queue("ticks", QueueOptions::default()).unwrap();
        let mut wakes = queue.listen().await.unwrap();
        let mut boundaries = fired(&queue, &mut wakes).await;
        let mut errors = BufReader::new(runner.0.stderr.take().unwrap());
        wire.cut();
        wait_for_line(&mut errors, FAILED);
        boundaries.extend(claim(&queue).await);
        wire.mend();
        boundaries.extend(fired(&queue, &mut wakes).await);
        assert_eq!(runner.stop(), Some(0));
        boundaries.extend(claim(&queue).await);
        store.close().await;
        boundaries
    });
    let all = (boundaries[0]..).take(boundaries.len());
    assert_eq!(boundaries, all.collect::<Vec<_>>());
}

/// The boundaries that have fired since they were asked for last.
async fn claim(queue: &Queue) -> Vec<i64> {
    let claimed = queue.claim_batch("w", 1_000).await.unwrap();
    claimed
        .iter()
        .map(|handle| handle.job().boundary.unwrap())
        .collect()
}

/// The same, of which there is one at least.
async fn fired(queue: &Queue, wakes: &mut WakeReceiver) -> Vec<i64> {
    loop {
        let boundaries = claim(queue).await;
        if !boundaries.is_empty() {
            return boundaries;
        }
        wakes.recv().await.unwrap();
    }
}
