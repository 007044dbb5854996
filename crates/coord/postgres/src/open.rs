//! How a store is opened: the URL, the pool, the schema, and what can wait until it works.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::sleep;

use crate::{Error, Options, database::Database, schema, shared::Shared, stats::Counters, url};

/// The shortest time for which a store gives way that is not the only one to build an index.
const GIVE_WAY: Duration = Duration::from_millis(100);

/// What the parts of the store share, and where the listening connection goes.
pub(crate) async fn open(url: &str, mut options: Options) -> Result<(Arc<Shared>, url::Target), Error> {
    let main = url::parse(url, &mut options)?;
    options.check()?;
    let listener = match options.listener_url.clone() {
        // What else it says of the store is the main URL's to say.
        Some(url) => url::parse(&url, &mut options.clone())?,
        None => main.clone(),
    };
    let stats = Arc::new(Counters::default());
    let database = Database::new(&main, &options, stats.clone());
    schema::migrate(&database, options.create).await?;
    // Not drawn from the database, so that who may only read can look.
    let number = format!("{:016x}", fastrand::u64(..));
    let (deferred, counters) = (database.clone(), stats.clone());
    let shared = Arc::new(Shared::new(database, options, number, stats));
    let stop = shared.stop.clone();
    shared.runtime.spawn(async move {
        let building = async {
            loop {
                match schema::build_deferred(&deferred).await {
                    Ok(true) => return counters.indexes_ready.store(true, Relaxed),
                    // Other stores that open build them too, and all but one give way, each for a time of its own.
                    Ok(false) => {}
                    Err(error) if error.is_conflict() => {}
                    Err(error) => {
                        return tracing::warn!(%error, "an index is built when the store is opened next");
                    }
                }
                sleep(GIVE_WAY * fastrand::u32(1..=8)).await;
            }
        };
        tokio::select! {
            () = building => {}
            () = stop.cancelled() => {}
        }
    });
    Ok((shared, listener))
}
