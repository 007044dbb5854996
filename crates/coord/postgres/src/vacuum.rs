//! Vacuums the table of live jobs as its rows go.
//!
//! Claims begin at the head of an index, and there the entries of the jobs gather that were claimed before: each claim walks
//! over them until a vacuum has been there. The server's own comes once a minute at best, and a minute is a million jobs.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tokio::sync::Notify;

use crate::{Error, database::Database, error::Running, job::one, shared::Shared};

/// Row versions that this store left behind after which it vacuums: to walk over their entries takes some 0.1 ms.
const LEAST: u64 = 40_000;

/// Where the table is large, one row in so many must have gone: a vacuum reads its indexes whole.
const PART: u64 = 50;

/// None waits for another, and nobody is kept out.
const VACUUM: &str = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) {schema}.jobs";

/// As the vacuum counted them.
const ROWS: &str = "SELECT reltuples::bigint FROM pg_class WHERE oid = '{schema}.jobs'::regclass";

/// Row versions of live jobs that claims, their ends and deaths left behind since the last vacuum. Each store counts its own,
/// so that together they vacuum as often as one would.
pub(crate) struct Gone {
    rows: AtomicU64,
    bound: AtomicU64,
    enough: Notify,
}

impl Default for Gone {
    fn default() -> Self {
        Self {
            rows: AtomicU64::new(0),
            bound: AtomicU64::new(LEAST),
            enough: Notify::new(),
        }
    }
}

impl Gone {
    pub(crate) fn add(&self, rows: u64) {
        let before = self.rows.fetch_add(rows, Relaxed);
        let bound = self.bound.load(Relaxed);
        if before < bound && before + rows >= bound {
            self.enough.notify_one();
        }
    }
}

/// Vacuums whenever enough has gone, until the store ends.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let gone = &shared.gone;
    loop {
        tokio::select! {
            () = gone.enough.notified() => {}
            () = shared.stop.cancelled() => return,
        }
        gone.rows.store(0, Relaxed);
        tokio::select! {
            vacuumed = vacuum(&shared.database) => match vacuumed {
                Ok(rows) => {
                    gone.bound.store(LEAST.max(rows / PART), Relaxed);
                    shared.stats.vacuums.add();
                }
                // The server's own vacuum comes in any case.
                Err(error) => tracing::warn!(%error, "the jobs were not vacuumed"),
            },
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Gives how many rows there are.
async fn vacuum(database: &Database) -> Result<u64, Error> {
    // However long it takes: the operation's time is not for this.
    let connection = database.connection().await?;
    let vacuumed = connection.batch_execute(&database.sql(VACUUM)).await;
    vacuumed.map_err(|error| Error::of(error, Running::Commit))?;
    drop(connection);
    let rows: i64 = one(&database.read(ROWS, &[]).await?)?;
    Ok(u64::try_from(rows).unwrap_or(0))
}
