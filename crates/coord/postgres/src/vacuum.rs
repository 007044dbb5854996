//! Vacuums the table of live jobs as its rows go.
//!
//! Claims begin at the head of an index, and there the entries of the jobs gather that were claimed before: each claim walks
//! over them until a vacuum has been there. The server's own comes once a minute at best, and a minute is a million jobs.
//!
//! Only who owns the table may vacuum it (or has MAINTAIN, from Postgres 17); for others the server's own is all there is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::{sync::Notify, time::sleep};

use crate::{Error, error::Running, shared::Shared};

/// Row versions that this store left behind after which it vacuums: to walk over their entries takes some 0.1 ms.
const LEAST: u64 = 40_000;

/// A vacuum of a large table reads its indexes whole, and finds nothing to do while a transaction elsewhere stays open: so
/// it rests for so many times as long as it took.
const REST: u32 = 3;

/// None waits for another, and nobody is kept out.
const VACUUM: &str = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) {schema}.jobs";

/// Row versions of live jobs that claims, their ends and deaths left behind since the last vacuum. Each store counts its
/// own, so that together they vacuum as often as one would.
#[derive(Default)]
pub(crate) struct Gone {
    rows: AtomicU64,
    enough: Notify,
}

impl Gone {
    pub(crate) fn add(&self, rows: u64) {
        if self.rows.fetch_add(rows, Relaxed) + rows >= LEAST {
            self.enough.notify_one();
        }
    }
}

/// Vacuums whenever enough has gone, until the store ends.
pub(crate) async fn keep(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.gone.enough.notified() => {}
            () = shared.stop.cancelled() => return,
        }
        // One that came while the last vacuum began may be of what it saw.
        if shared.gone.rows.load(Relaxed) < LEAST {
            continue;
        }
        shared.gone.rows.store(0, Relaxed);
        let begun = Instant::now();
        match vacuum(&shared).await {
            Ok(()) => shared.stats.vacuums.add(),
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "the jobs were not vacuumed"),
        }
        tokio::select! {
            () = sleep(begun.elapsed() * REST) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Vacuums once, on a connection of its own; cancelled when the store ends.
async fn vacuum(shared: &Shared) -> Result<(), Error> {
    let database = &shared.database;
    let client = database.connection_apart().await?;
    let sql = database.sql(VACUUM);
    tokio::select! {
        vacuumed = client.batch_execute(&sql) => vacuumed.map_err(|error| Error::of(error, Running::Commit)),
        () = shared.stop.cancelled() => {
            database.cancel(client);
            Err(Error::Closed)
        }
    }
}
