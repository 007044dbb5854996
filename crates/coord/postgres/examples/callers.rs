//! What sharing commits gains, and what it costs: one caller, and 64 who each ask for one thing at a time, beside the same
//! done row by row.
//!
//! `cargo run --release --example callers -- postgres://user@host/database [seconds]`, alternating, a median of three.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use esker_coord_api::{QueueOptions, Store};
use esker_coord_postgres::{Options, PostgresEngine};
use futures_util::future::join_all;
use tokio_postgres::{Client, NoTls, types::Type};

const CALLERS: [usize; 2] = [1, 64];
const PAYLOAD: &[u8] = &[b'x'; 400];

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().ok_or("callers URL [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(3), |seconds| seconds.parse())?;
    let time = Duration::from_secs(seconds);
    let store = Store::new(PostgresEngine::open(&url, Options::default()).await?);
    let mut clients = Vec::new();
    for _ in 0..CALLERS[1] {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        clients.push(Arc::new(client));
    }
    println!(
        "{:<16}{:>8}{:>14}{:>14}{:>8}{:>8}",
        "each second", "callers", "shared", "row by row", "times", "batch"
    );
    let works = ["publish", "enqueue", "claim and ack"];
    for (work, callers) in works
        .into_iter()
        .flat_map(|work| CALLERS.map(|callers| (work, callers)))
    {
        let (mut shared, mut alone, mut batches) = (Vec::new(), Vec::new(), 0);
        for _ in 0..3 {
            let before = batches_of(&store);
            shared.push(run(time, (0..callers).map(|_| Caller::Store(store.clone())), work).await?);
            batches += batches_of(&store) - before;
            alone.push(
                run(
                    time,
                    clients[..callers]
                        .iter()
                        .map(|client| Caller::Rows(client.clone())),
                    work,
                )
                .await?,
            );
        }
        // Claiming and acknowledging are two batches.
        let calls = shared.iter().sum::<u64>() * seconds * if work == "claim and ack" { 2 } else { 1 };
        let (shared, alone) = (median(shared), median(alone));
        let (times, batch) = (ratio(shared, alone), calls / batches.max(1));
        println!("{work:<16}{callers:>8}{shared:>14}{alone:>14}{times:>8.2}{batch:>8}");
    }
    wakes(&url, &store).await
}

fn batches_of(store: &Store) -> u64 {
    store
        .engine::<PostgresEngine>()
        .map_or(0, |engine| engine.stats().batches)
}

/// Who asks, and how.
enum Caller {
    Store(Store),
    Rows(Arc<Client>),
}

impl Caller {
    async fn ask(&self, work: &str) -> Result<(), Failure> {
        match self {
            Self::Store(store) => ask(store, work).await,
            Self::Rows(client) => rows(client, work).await,
        }
    }
}

async fn ask(store: &Store, work: &str) -> Result<(), Failure> {
    let queue = store.queue("callers", QueueOptions::default())?;
    match work {
        "publish" => drop(store.stream("callers")?.publish(PAYLOAD).await?),
        "enqueue" => drop(queue.enqueue(PAYLOAD).await?),
        _ => {
            if let Some(handle) = queue.claim_one("worker").await? {
                handle.ack().await?;
            }
        }
    }
    Ok(())
}

/// The same tables, one row and one commit at a time.
async fn rows(client: &Client, work: &str) -> Result<(), Failure> {
    let publish =
        "SELECT esker.publish(NULL, ARRAY['callers'], ARRAY[1], ARRAY[1], ARRAY[1], ARRAY[NULL], ARRAY[$1])";
    let enqueue = "INSERT INTO esker.jobs (id, queue, priority, run_at, max_attempts, visibility_timeout_s, \
        backoff_base_s, created_at, payload) VALUES (nextval('esker.job_id'), 'callers', 0, 0, 3, 300, 5, 0, $1)";
    let claim = "UPDATE esker.jobs SET lane = 1, token = 1, worker = 'w', attempts = attempts + 1, claimed_at = 0, \
        claim_expires_at = 9000000000 WHERE id = (SELECT id FROM esker.jobs WHERE queue = 'callers' AND lane = 0 \
            AND run_at <= 9000000000 ORDER BY priority DESC, run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
        RETURNING id, payload";
    match work {
        "publish" => drop(client.query_typed(publish, &[(&PAYLOAD, Type::BYTEA)]).await?),
        "enqueue" => drop(client.execute_typed(enqueue, &[(&PAYLOAD, Type::BYTEA)]).await?),
        _ => {
            if let Some(row) = client.query_typed_opt(claim, &[]).await? {
                let id: i64 = row.get(0);
                client
                    .execute_typed("DELETE FROM esker.jobs WHERE id = $1", &[(&id, Type::INT8)])
                    .await?;
            }
        }
    }
    Ok(())
}

/// How often a second it is done.
async fn run(
    time: Duration,
    callers: impl Iterator<Item = Caller>,
    work: &'static str,
) -> Result<u64, Failure> {
    let (done, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let begun = Instant::now();
    let tasks: Vec<_> = callers
        .map(|caller| {
            let (done, over) = (done.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Relaxed) {
                    caller.ask(work).await?;
                    done.fetch_add(1, Relaxed);
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    let rate = u128::from(done.load(Relaxed)) * 1000 / begun.elapsed().as_millis();
    over.store(true, Relaxed);
    for task in join_all(tasks).await {
        task??;
    }
    Ok(u64::try_from(rate)?)
}

/// From the answer of a publish to the wake in another store.
async fn wakes(url: &str, store: &Store) -> Result<(), Failure> {
    let other = Store::new(PostgresEngine::open(url, Options::default()).await?);
    let mut heard = other.stream("wakes")?.listen().await?;
    let stream = store.stream("wakes")?;
    let mut waits = Vec::new();
    for _ in 0..1000 {
        stream.publish(PAYLOAD).await?;
        let begun = Instant::now();
        heard.recv().await.ok_or("the store is open")?;
        waits.push(begun.elapsed());
    }
    waits.sort_unstable();
    println!(
        "a wake in another store, after the answer: p50 {:?}, p99 {:?}",
        waits[500], waits[990]
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^52")]
fn ratio(shared: u64, alone: u64) -> f64 {
    shared as f64 / alone.max(1) as f64
}

fn median(mut rates: Vec<u64>) -> u64 {
    rates.sort_unstable();
    rates[rates.len() / 2]
}
