//! Time on Postgres is the database's, whatever the host's clock shows.

use std::ops::RangeInclusive;

use esker_coord_api::{Clock, Engine as _, EnqueueOptions, Firing, Name, QueueOptions};
use tokio_postgres::Client;

use crate::support::{Database, engine};

const DAY: i64 = 86_400;

/// A number of the database.
async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_04_every_time_is_the_databases_not_the_hosts() {
    let database = Database::new();
    let store = database.open().await;
    let client = database.client().await;
    // A database that is a day ahead of this host.
    let ahead = "CREATE OR REPLACE FUNCTION esker.exact_clock(given bigint) RETURNS double precision LANGUAGE sql \
        AS $$ SELECT coalesce(given, extract(epoch FROM clock_timestamp()) + 86400)::double precision $$";
    client.batch_execute(ahead).await.unwrap();
    let host = Clock::system().now();
    // So many seconds after the database's now, whenever in the next hours this runs.
    let after = |seconds: i64| -> RangeInclusive<i64> {
        let there = host + DAY + seconds;
        there..=there + DAY / 2
    };

    let stream = store.stream("s").unwrap();
    stream.publish("event").await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    transaction.publish("s", "event").await.unwrap();
    transaction.enqueue("q", "job").await.unwrap();
    transaction.commit().await.unwrap();
    for event in stream.read_since(0, 9).await.unwrap() {
        assert!(after(0).contains(&event.created_at), "{event:?}");
    }

    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let later = EnqueueOptions {
        delay: Some(10 * DAY),
        expires: Some(5 * DAY),
        ..EnqueueOptions::default()
    };
    let delayed = queue.enqueue_with("later", later).await.unwrap();
    let delayed = queue.get_job(delayed).await.unwrap().unwrap();
    assert!(after(0).contains(&delayed.created_at) && after(10 * DAY).contains(&delayed.run_at));
    assert!(after(15 * DAY).contains(&delayed.expires_at.unwrap()));
    let handle = queue.claim_one("worker").await.unwrap().unwrap();
    let job = handle.job();
    assert!(
        after(0).contains(&job.created_at) && after(0).contains(&job.run_at),
        "{job:?}"
    );
    assert!(after(0).contains(&job.claimed_at.unwrap()), "{job:?}");
    assert!(after(300).contains(&job.claim_expires_at.unwrap()), "{job:?}");
    assert!(after(301).contains(&queue.next_ready_at().await.unwrap().unwrap()));
    assert!(handle.heartbeat(3 * DAY).await.unwrap());
    let beaten = queue.get_job(job.id).await.unwrap().unwrap();
    assert!(after(3 * DAY).contains(&beaten.claim_expires_at.unwrap()));
    assert!(handle.retry(None, Some(2 * DAY)).await.unwrap());
    let retried = queue.get_job(job.id).await.unwrap().unwrap();
    assert!(after(2 * DAY).contains(&retried.run_at));
    queue.enqueue("fails").await.unwrap();
    let failing = queue.claim_one("worker").await.unwrap().unwrap();
    assert!(failing.fail(None).await.unwrap());
    let dead = queue.get_job(failing.job().id).await.unwrap().unwrap();
    assert!(after(0).contains(&dead.died_at.unwrap()));

    let lock = store.try_lock("lock", "owner", DAY).await.unwrap().unwrap();
    let lapses = "SELECT expires_at FROM esker.locks WHERE name = 'lock'";
    assert!(after(DAY).contains(&number(&client, lapses).await));
    assert!(lock.renew(4 * DAY).await.unwrap());
    assert!(after(4 * DAY).contains(&number(&client, lapses).await));

    let plain = EnqueueOptions::default();
    store
        .schedule("daily", "@every 1d", "q", "job", plain)
        .await
        .unwrap();
    let inspection = store.inspect().await.unwrap();
    assert!(after(DAY).contains(&inspection.schedules[0].next));
    let left = inspection.locks[0].expires_in_s;
    assert!((3 * DAY..=4 * DAY).contains(&left), "{left}");
    let lock = Name::new(lock.name()).unwrap();
    let fired = engine(&store).fire_schedules(lock, 1).await.unwrap();
    let Firing::Fired {
        jobs: 0,
        next: Some(next),
    } = fired
    else {
        panic!("{fired:?}");
    };
    // By its own clock: in a day, not in two.
    assert!((DAY / 2..=DAY).contains(&i64::try_from(next.wait.as_secs()).unwrap()));
}
