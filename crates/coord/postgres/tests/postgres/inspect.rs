//! Looking in on Postgres: what it costs, and what the server alone can tell.

use esker_coord_api::{Clock, EnqueueOptions, Payload, QueueOptions, Store};
use esker_coord_postgres::Options;
use tokio_postgres::types::{ToSql, Type};

use crate::support::{Database, pages};

async fn size(store: &Store) -> u64 {
    store.inspect().await.unwrap().size_bytes.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ci_01_the_stores_size_grows_with_what_is_in_it() {
    const EACH: u32 = 1 << 16;
    let database = Database::new();
    let store = database.open_settled(Options::default()).await;
    let empty = size(&store).await;
    let stream = store.stream("s").unwrap();
    for number in 0_u32..16 {
        // The server cannot make it smaller.
        let mut seed = number;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = (seed ^ 0x3d)
                .wrapping_mul(0x9e37_79b9)
                .rotate_left(13)
                .wrapping_add(1);
            seed.to_le_bytes()[3]
        })
        .take(EACH as usize)
        .collect();
        stream.publish(noise).await.unwrap();
    }
    let full = size(&store).await;
    assert!(full - empty >= u64::from(EACH) * 16, "{empty} bytes, then {full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ci_01_counting_jobs_reads_the_indexes_not_the_jobs() {
    const READY: usize = 20_000;
    let database = Database::new();
    let clock = Clock::manual(1_700_000_000);
    let options = Options {
        clock: Some(clock.clone()),
        ..Options::default()
    };
    let store = database.open_settled(options).await;
    let client = database.client().await;
    let own = "ALTER TABLE esker.jobs SET (autovacuum_enabled = off)";
    client.batch_execute(own).await.unwrap();
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let job = || Payload::from(vec![7; 250]);
    let later = EnqueueOptions {
        delay: Some(1000),
        ..EnqueueOptions::default()
    };
    let first = EnqueueOptions {
        priority: 1,
        ..EnqueueOptions::default()
    };
    for (options, count) in [(EnqueueOptions::default(), READY), (later, 3), (first, 9)] {
        queue.enqueue_batch(vec![(job(), options); count]).await.unwrap();
    }
    let claimed = queue.claim_batch("worker", 9).await.unwrap();
    assert_eq!(claimed.len(), 9);
    for held in &claimed[..4] {
        assert!(held.heartbeat(1000).await.unwrap());
    }
    // Five lapse, and are put where claims look for them: to who looks in they stay claimed.
    clock.advance(301);
    let settle = "SELECT esker.settle($1, 'q', 1000)";
    let now = [(&clock.now() as &(dyn ToSql + Sync), Type::INT8)];
    client.query_typed(settle, &now).await.unwrap();
    client.batch_execute("VACUUM ANALYZE esker.jobs").await.unwrap();
    let seen = &store.inspect().await.unwrap().queues[0];
    assert_eq!(
        (seen.ready, seen.scheduled, seen.running, seen.oldest_ready_s),
        (READY as u64, 3, 9, Some(301))
    );

    let table = "SELECT pg_relation_size('esker.jobs') / 8192";
    let table: i64 = client.query_one(table, &[]).await.unwrap().get(0);
    let count = "SELECT * FROM esker.counts(1700000301)";
    // The first asks for what the session learns once.
    pages(&client, count).await;
    let read = pages(&client, count).await;
    assert!(read < table / 4, "{read} pages, of {table} with jobs");
}
