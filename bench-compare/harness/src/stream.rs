//! Streams: publish, and read from the first event to the last.

use std::time::Duration;

use anyhow::Context as _;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use crate::{Contender, Result, callers::rate, figure, payload, payloads};

/// Events in one transaction, where there are many, and in a page that is read.
const BATCH: usize = 1_000;
/// Events in the stream when reads are measured.
const EVENTS: usize = 100_000;

/// `1` or `64` callers, one event at a time; `batch`, so many in one transaction.
pub(crate) async fn publish<C: Contender>(contender: &C, how: &str, time: Duration) -> Result<()> {
    let contender = contender.clone();
    let rate = if how == "batch" {
        rate::<C, _, _>(1, time, move |_| {
            let contender = contender.clone();
            async move {
                contender.publish_batch(payloads(BATCH)).await?;
                Ok(BATCH)
            }
        })
        .await?
    } else {
        rate::<C, _, _>(how.parse()?, time, move |caller| {
            let contender = contender.clone();
            async move {
                contender.publish(payload(caller as u64)).await?;
                Ok(1)
            }
        })
        .await?
    };
    figure(&format!("publish-{how}"), "events/s", rate);
    Ok(())
}

/// Pages of the stream, over and over.
pub(crate) async fn read<C: Contender>(contender: &C, time: Duration) -> Result<()> {
    for _ in 0..EVENTS / BATCH {
        contender
            .fill_stream(payloads(BATCH))
            .await
            .context("cannot fill the stream")?;
    }
    let (contender, offset) = (contender.clone(), Arc::new(AtomicI64::new(0)));
    let rate = rate::<C, _, _>(1, time, move |_| {
        let (contender, offset) = (contender.clone(), Arc::clone(&offset));
        async move {
            let limit = i64::try_from(BATCH)?;
            let mut page = contender.read(offset.load(Ordering::Relaxed), limit).await?;
            if page.0 == 0 {
                page = contender.read(0, limit).await?;
            }
            offset.store(page.1, Ordering::Relaxed);
            Ok(page.0)
        }
    })
    .await?;
    figure("read", "events/s", rate);
    Ok(())
}
