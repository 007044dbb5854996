//! A schedule with two runners: one leads, and when it stops the other takes over; no boundary fires twice.
//!
//! ```text
//! cargo run -p esker-coord --example schedule
//! cargo run -p esker-coord --features postgres --example schedule -- postgres://app@localhost/app
//! ```

use std::{env, error::Error, sync::Mutex};

use esker_coord::{CancellationToken, EnqueueOptions, Job, QueueOptions, WorkOptions, open};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("app.db").display());
    let store = open(&env::args().nth(1).unwrap_or(file)).await?;

    // Every process may do this when it starts: unchanged, a schedule keeps its next boundary.
    let options = EnqueueOptions::default();
    store
        .schedule("example-tick", "@every 1s", "example-ticks", "tick", options)
        .await?;

    let runners = ["one", "two"].map(|name| {
        let (store, stop) = (store.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            let ended = store.run_schedules(stopped).await;
            println!("runner {name} has ended");
            ended
        });
        (stop, running)
    });

    let stop = CancellationToken::new();
    let seen = Mutex::new(Vec::new());
    let handler = async |job: &Job| {
        let boundary = job.boundary.ok_or("it is no job of a schedule")?;
        println!("the boundary at {boundary}");
        let mut seen = seen.lock().map_err(|_| "another handler panicked")?;
        seen.push(boundary);
        match seen.len() {
            // Whether it leads or not, the schedule goes on.
            2 => runners[0].0.cancel(),
            4 => stop.cancel(),
            _ => {}
        }
        Ok(())
    };
    let queue = store.queue("example-ticks", QueueOptions::default())?;
    queue.work(WorkOptions::default(), handler, stop.clone()).await?;

    let seen = seen.into_inner()?;
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    store.unschedule("example-tick").await?;
    for (stop, running) in runners {
        stop.cancel();
        running.await??;
    }
    store.close().await;
    Ok(())
}
