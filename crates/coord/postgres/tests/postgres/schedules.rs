//! Schedules on Postgres: however much is due, what goes to the server at once is bounded.

use esker_coord_api::{CancellationToken, Clock, EnqueueOptions, Firing, FiringRoom, Lock, Name, Store};
use esker_coord_postgres::Options;
use tokio_postgres::{Client, types::Type};

use crate::support::{Database, engine};

const NOW: i64 = 1_700_000_000;

/// Fires until nothing is due, and gives how many jobs each transaction fired.
async fn fire_all(store: &Store, lock: &Lock) -> Vec<u64> {
    use esker_coord_api::Engine as _;
    let mut fired = Vec::new();
    loop {
        let name = Name::new(lock.name()).unwrap();
        let Firing::Fired { jobs, next } = engine(store).fire_schedules(name, lock.fence()).await.unwrap()
        else {
            panic!("the lock is held");
        };
        fired.push(jobs);
        let next = next.unwrap();
        // What is left is due at once, so that the runner does not sleep.
        if !next.wait.is_zero() {
            return fired;
        }
        assert!(jobs > 0);
    }
}

/// The boundaries of a queue's jobs, in the order in which they were enqueued.
async fn boundaries(client: &Client, queue: &str) -> Vec<i64> {
    let sql = "SELECT boundary FROM esker.jobs WHERE queue = $1 ORDER BY id";
    let rows = client.query_typed(sql, &[(&queue, Type::TEXT)]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn open(database: &Database, clock: &Clock) -> Store {
    let options = Options {
        clock: Some(clock.clone()),
        ..Options::default()
    };
    database.open_with(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cd_03_large_payloads_are_fired_schedule_by_schedule_oldest_first_and_none_twice() {
    const EACH: usize = 1 << 17;
    let database = Database::new();
    let clock = Clock::manual(NOW);
    let store = open(&database, &clock).await;
    for name in ["a", "b"] {
        let plain = EnqueueOptions::default();
        store
            .schedule(name, "@every 10s", name, vec![7; EACH], plain)
            .await
            .unwrap();
    }
    // One that is larger than all that is fired at once.
    let plain = EnqueueOptions::default();
    let huge = vec![7; FiringRoom::BYTES + 1];
    store
        .schedule("huge", "@every 700s", "huge", huge, plain)
        .await
        .unwrap();
    clock.set(NOW + 1000);
    let lock = store.try_lock("l", "runner", 10_000).await.unwrap().unwrap();
    let fired = fire_all(&store, &lock).await;
    assert_eq!(fired, [64, 64, 1]);
    let client = database.client().await;
    let newest: Vec<i64> = (37..=100).map(|n| NOW + n * 10).collect();
    for queue in ["a", "b"] {
        assert_eq!(boundaries(&client, queue).await, newest);
    }
    assert_eq!(boundaries(&client, "huge").await, [NOW + 700]);
    // The grid stays, and fires as ever.
    clock.set(NOW + 1010);
    assert_eq!(fire_all(&store, &lock).await, [2]);
    assert_eq!(boundaries(&client, "a").await.last(), Some(&(NOW + 1010)));
}

#[tokio::test(flavor = "multi_thread")]
async fn cd_03_a_runner_fires_thousands_of_schedules_without_a_pause() {
    const SCHEDULES: i64 = 2500;
    let database = Database::new();
    let clock = Clock::manual(NOW);
    let store = open(&database, &clock).await;
    let client = database.client().await;
    let many = "INSERT INTO esker.schedules (name, every_s, next_at, queue, priority, max_attempts, \
        visibility_timeout_s, backoff_base_s, payload) \
        SELECT 's' || n, 100, $1 - n % 7, 'q', 0, 3, 300, 5, 'job' FROM generate_series(1, $2) n";
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&NOW, Type::INT8), (&SCHEDULES, Type::INT8)];
    client.execute_typed(many, &parameters).await.unwrap();
    let lock = store.try_lock("l", "runner", 10_000).await.unwrap().unwrap();
    let fired = fire_all(&store, &lock).await;
    assert_eq!(fired.iter().sum::<u64>(), u64::try_from(SCHEDULES).unwrap());
    let most = FiringRoom::JOBS as u64;
    assert!(fired.iter().all(|jobs| *jobs <= most), "{fired:?}");

    // And again, by a runner, while the time stands still: were it to wait, it would wait for ever.
    clock.set(NOW + 100);
    let (stop, runner) = (CancellationToken::new(), store.clone());
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { runner.run_schedules(stop).await }
    });
    let count = "SELECT count(*) FROM esker.jobs";
    while client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) < 2 * SCHEDULES {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
