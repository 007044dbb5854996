//! Measures the coordination store with the default durability: queues, streams, claims beside a large backlog, wakes
//! between processes.
//!
//! `cargo run --release -p esker-coord-sqlite --example coordination -- [queue|stream|claim|wake|all] [folder]`
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::{
    env,
    fs::read_to_string,
    io::{BufRead, BufReader, Write, stdout},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use esker_coord_api::{EnqueueOptions, NewEvent, Payload, Queue, QueueOptions, Result, Store};
use esker_coord_sqlite::{Settings, SqliteEngine};

const BODY: [u8; 100] = [b'x'; 100];

fn open(folder: &Path, name: &str) -> Result<Store> {
    Ok(Store::new(SqliteEngine::open(
        &folder.join(name),
        Settings::default(),
    )?))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let what = env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    let parent = env::args().nth(2).map_or_else(env::temp_dir, PathBuf::from);
    if what == "notifier" {
        return Ok(runtime.block_on(notifier(&parent))?);
    }
    let folder = tempfile::tempdir_in(parent)?;
    runtime.block_on(async {
        for (name, wanted) in
            ["queue", "stream", "claim", "wake"].map(|name| (name, what == name || what == "all"))
        {
            match name {
                _ if !wanted => {}
                "queue" => queue(folder.path()).await?,
                "stream" => stream(folder.path()).await?,
                "claim" => claim(folder.path()).await?,
                _ => wake(folder.path()).await?,
            }
        }
        Ok(())
    })
}

fn report(what: &str, count: i64, began: Instant) {
    let per_second = count as f64 / began.elapsed().as_secs_f64();
    println!("{what:<44} {per_second:>10.0}/s");
}

fn jobs(count: i64) -> Vec<(Payload, EnqueueOptions)> {
    (0..count)
        .map(|_| (Payload::new(&BODY[..]), EnqueueOptions::default()))
        .collect()
}

/// Runs `call` in so many tasks until the counter that it moves reaches `most`.
async fn together<F>(tasks: usize, most: i64, call: impl Fn() -> F + Clone + Send + 'static) -> Result<()>
where
    F: Future<Output = Result<i64>> + Send,
{
    let done = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (done, call) = (done.clone(), call.clone());
            tokio::spawn(async move {
                while done.load(Relaxed) < most {
                    match call().await? {
                        0 => break,
                        count => done.fetch_add(count, Relaxed),
                    };
                }
                Ok::<_, esker_coord_api::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics")?;
    }
    Ok(())
}

async fn queue(folder: &Path) -> Result<()> {
    let store = open(folder, "queue.db")?;
    let queue = store.queue("jobs", QueueOptions::default())?;
    for callers in [1, 64] {
        let began = Instant::now();
        let most = if callers == 1 { 2000 } else { 100_000 };
        let of = queue.clone();
        together(callers, most, move || {
            let queue = of.clone();
            async move { queue.enqueue(&BODY[..]).await.map(|_| 1) }
        })
        .await?;
        report(&format!("enqueue one by one, {callers} callers"), most, began);
    }
    drain(&queue, 128, 8).await?;
    let began = Instant::now();
    for _ in 0..200 {
        queue.enqueue_batch(jobs(1000)).await?;
    }
    report("enqueue in batches of 1000", 200_000, began);
    for (n, workers) in [
        (128, 1),
        (128, 4),
        (128, 8),
        (128, 16),
        (8, 1),
        (8, 64),
        (8, 128),
        (1, 64),
        (1, 256),
    ] {
        let most = if n == 128 { 100_000 } else { 30_000 };
        let most = if n == 8 && workers == 1 { 4000 } else { most };
        queue.enqueue_batch(jobs(most + 50_000)).await?;
        let began = Instant::now();
        let of = queue.clone();
        together(workers, most, move || {
            let queue = of.clone();
            async move {
                let claimed = queue.claim_batch("worker", n).await?;
                Ok(i64::try_from(queue.ack_batch(&claimed).await?).unwrap_or(0))
            }
        })
        .await?;
        report(&format!("claim({n}) and ack, {workers} workers"), most, began);
        drain(&queue, 128, 8).await?;
    }
    println!(
        "{:?}",
        store
            .engine::<SqliteEngine>()
            .map(|engine| engine.database().stats())
    );
    store.close().await;
    Ok(())
}

async fn drain(queue: &Queue, n: i64, workers: usize) -> Result<()> {
    let of = queue.clone();
    together(workers, i64::MAX, move || {
        let queue = of.clone();
        async move {
            let claimed = queue.claim_batch("worker", n).await?;
            Ok(i64::try_from(queue.ack_batch(&claimed).await?).unwrap_or(0))
        }
    })
    .await
}

async fn stream(folder: &Path) -> Result<()> {
    let store = open(folder, "stream.db")?;
    let stream = store.stream("events")?;
    for callers in [1, 64] {
        let began = Instant::now();
        let most = if callers == 1 { 2000 } else { 100_000 };
        let of = stream.clone();
        together(callers, most, move || {
            let stream = of.clone();
            async move { stream.publish(&BODY[..]).await.map(|_| 1) }
        })
        .await?;
        report(&format!("publish one by one, {callers} callers"), most, began);
    }
    let began = Instant::now();
    for _ in 0..500 {
        let events = (0..1000).map(|_| NewEvent::new(None, Payload::new(&BODY[..])));
        stream.publish_batch(events.collect::<Result<_>>()?).await?;
    }
    report("publish in batches of 1000", 500_000, began);
    for page in [256, 1000, 10_000] {
        let (mut offset, mut read) = (0, 0);
        let began = Instant::now();
        loop {
            let events = stream.read_since(offset, page).await?;
            let Some(last) = events.last() else { break };
            offset = last.offset;
            read += i64::try_from(events.len()).unwrap_or(0);
        }
        report(&format!("read in pages of {page}"), read, began);
    }
    store.close().await;
    Ok(())
}

/// One claim and its ack, beside a million other jobs of each kind.
async fn claim(folder: &Path) -> Result<()> {
    let store = open(folder, "claim.db")?;
    let queue = store.queue("jobs", QueueOptions::default())?;
    let few = |what: &'static str| {
        let queue = queue.clone();
        async move {
            queue.enqueue_batch(jobs(600)).await?;
            let mut times = Vec::new();
            for _ in 0..500 {
                let began = Instant::now();
                let claimed = queue.claim_batch("worker", 1).await?;
                times.push(began.elapsed());
                queue.ack_batch(&claimed).await?;
            }
            times.sort();
            println!(
                "claim(1), {what:<34} p50 {:>8.3} ms",
                times[250].as_secs_f64() * 1e3
            );
            Ok::<_, esker_coord_api::Error>(())
        }
    };
    let million = |options: EnqueueOptions| {
        let queue = queue.clone();
        async move {
            for _ in 0..100 {
                let jobs = (0..10_000).map(|_| (Payload::new(&BODY[..]), options));
                queue.enqueue_batch(jobs.collect()).await?;
            }
            Ok::<_, esker_coord_api::Error>(())
        }
    };
    few("nothing else").await?;
    million(EnqueueOptions::default()).await?;
    few("a million ready").await?;
    let mut left = 1_000_000;
    while left > 0 {
        let claimed = queue.claim_batch("holder", 5000.min(left)).await?;
        left -= i64::try_from(claimed.len()).unwrap_or(0);
    }
    few("a million in flight").await?;
    million(EnqueueOptions {
        delay: Some(100_000),
        priority: 9,
        ..EnqueueOptions::default()
    })
    .await?;
    few("and a million delayed, higher priority").await?;
    million(EnqueueOptions {
        expires: Some(0),
        ..EnqueueOptions::default()
    })
    .await?;
    let began = Instant::now();
    let swept = queue.sweep_expired().await?;
    report("sweep", i64::try_from(swept).unwrap_or(0), began);
    few("and a million dead").await?;
    let began = Instant::now();
    let inspection = store.inspect().await?;
    println!(
        "inspect: {:.1} ms, {:?}",
        began.elapsed().as_secs_f64() * 1e3,
        inspection.queues
    );
    store.close().await;
    Ok(())
}

fn nanoseconds() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
}

/// Notifies each time that it is asked to by a line.
async fn notifier(folder: &Path) -> Result<()> {
    let store = open(folder, "wake.db")?;
    for _ in std::io::stdin().lines() {
        let began = nanoseconds();
        store.notify("channel", "").await?;
        drop(writeln!(stdout(), "{began} {}", nanoseconds()));
    }
    store.close().await;
    Ok(())
}

async fn wake(folder: &Path) -> Result<()> {
    let store = open(folder, "wake.db")?;
    let mut others = Vec::new();
    for n in 0..100 {
        others.push(store.listen(&format!("other {n}")).await?);
    }
    let mut wakes = store.listen("channel").await?;

    let (before, began) = (cpu_seconds(), Instant::now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = (cpu_seconds() - before) / began.elapsed().as_secs_f64();
    println!("idle with 101 listeners: {:.3} % of a core", idle * 100.0);

    // What the watcher costs a process whose own commits ring all the time.
    for (what, listens) in [("101 listeners", true), ("none", false)] {
        let name = format!("busy {listens}.db");
        let busy = open(folder, &name)?;
        let mut listeners = Vec::new();
        if listens {
            for n in 0..101 {
                listeners.push(busy.listen(&format!("other {n}")).await?);
            }
        }
        let (jobs, before, began) = (
            busy.queue("jobs", QueueOptions::default())?,
            cpu_seconds(),
            Instant::now(),
        );
        together(64, 100_000, move || {
            let jobs = jobs.clone();
            async move { jobs.enqueue(&BODY[..]).await.map(|_| 1) }
        })
        .await?;
        report(&format!("enqueue one by one, 64 callers, {what}"), 100_000, began);
        println!(
            "  {:.2} s of the processor, {:?}",
            cpu_seconds() - before,
            busy.engine::<SqliteEngine>()
                .map(|engine| engine.database().stats().watcher_looks)
        );
        busy.close().await;
    }

    let mut child = Command::new(env::current_exe().expect("a program has a path"))
        .arg("notifier")
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let mut asks = child.stdin.take().expect("it is piped");
    let mut tells = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut latencies, mut line) = (Vec::new(), String::new());
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        writeln!(asks).expect("the child reads");
        wakes.recv().await;
        let woken = nanoseconds();
        line.clear();
        tells.read_line(&mut line).expect("the child tells");
        let began: u128 = line
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        latencies.push(woken.saturating_sub(began));
    }
    drop(asks);
    drop(child.wait());
    latencies.sort_unstable();
    let at = |part: usize| latencies[latencies.len() * part / 100] as f64 / 1e6;
    println!(
        "wake of another process, from before the notify: p50 {:.3} ms, p90 {:.3} ms, p99 {:.3} ms",
        at(50),
        at(90),
        at(99)
    );
    store.close().await;
    Ok(())
}

/// Processor time of this process so far; 0 where there is no `/proc`.
fn cpu_seconds() -> f64 {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |n: usize| {
        fields
            .get(n)
            .and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}
