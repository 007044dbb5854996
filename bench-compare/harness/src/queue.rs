//! Queues: enqueue, claim and acknowledge, and what a claim costs when many jobs wait.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::{Contender, Result, callers::rate, clock, figure, payload, payloads};

/// Jobs that wait when claims are measured.
const WAITING: usize = 50_000;
/// Jobs in one transaction, where there are many.
const BATCH: usize = 1_000;
/// Claims whose latency is taken, at most.
const CLAIMS: usize = 500;

/// `1` or `64` callers, one job at a time; `batch`, so many in one transaction.
pub(crate) async fn enqueue<C: Contender>(contender: &C, how: &str, time: Duration) -> Result<()> {
    let contender = contender.clone();
    let rate = if how == "batch" {
        rate::<C, _, _>(1, time, move |_| {
            let contender = contender.clone();
            async move {
                contender.enqueue_batch(payloads(BATCH)).await?;
                Ok(BATCH)
            }
        })
        .await?
    } else {
        rate::<C, _, _>(how.parse()?, time, move |caller| {
            let contender = contender.clone();
            async move {
                contender.enqueue(payload(caller as u64)).await?;
                Ok(1)
            }
        })
        .await?
    };
    figure(&format!("enqueue-{how}"), "jobs/s", rate);
    Ok(())
}

/// `N` jobs per claim by one worker, or `NxW` by W of them; claimed ones are acknowledged at once.
pub(crate) async fn claim<C: Contender>(contender: &C, how: &str, time: Duration) -> Result<()> {
    let (n, workers) = how.split_once('x').unwrap_or((how, "1"));
    let (n, workers) = (n.parse()?, workers.parse()?);
    fill(contender, WAITING).await?;
    let contender = contender.clone();
    let rate = rate::<C, _, _>(workers, time, move |worker| {
        let contender = contender.clone();
        async move {
            let worker = format!("worker-{worker}");
            let jobs = contender.claim(worker.clone(), n).await?;
            let claimed = jobs.len();
            if claimed > 0 {
                let held = contender.ack(worker, jobs).await?;
                ensure!(held == claimed, "{held} of {claimed} claims held");
            }
            Ok(claimed)
        }
    })
    .await?;
    figure(&format!("claim-{how}"), "jobs/s", rate);
    Ok(())
}

/// The latency of one claim while so many jobs wait.
pub(crate) async fn depth<C: Contender>(contender: &C, waiting: usize, time: Duration) -> Result<()> {
    fill(contender, waiting + CLAIMS).await?;
    let began = Instant::now();
    let mut latencies = Vec::new();
    while latencies.len() < CLAIMS && began.elapsed() < time {
        let claimed = Instant::now();
        let jobs = contender.claim("worker".to_owned(), 1).await?;
        latencies.push(claimed.elapsed());
        ensure!(jobs.len() == 1, "a claim found nothing");
        contender.ack("worker".to_owned(), jobs).await?;
    }
    figure(
        &format!("depth-{waiting}"),
        "ms",
        clock::percentile(&mut latencies, 50),
    );
    Ok(())
}

async fn fill<C: Contender>(contender: &C, count: usize) -> Result<()> {
    for _ in 0..count.div_ceil(BATCH) {
        contender
            .fill_queue(payloads(BATCH))
            .await
            .context("cannot fill the queue")?;
    }
    Ok(())
}
