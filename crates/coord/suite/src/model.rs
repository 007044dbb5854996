//! The model test: generated histories go to an engine and to memory, and every answer must be equal, order included,
//! and all that is stored in the end.

mod generate;
mod read;
mod run;
mod same;
mod step;
mod transaction;

use std::ops::Range;

use esker_coord_api::BoxFuture;
use esker_testing::histories;
pub use esker_testing::histories::Failure;

use crate::{Engine, World, block_on};
use step::History;

/// How many histories the ordinary test runs, of [`STEPS`] each.
pub const SEEDS: Range<u64> = 0..40;

/// How long a history is.
pub const STEPS: usize = 60;

/// Opens a new store of the engine under test.
type Open = fn() -> BoxFuture<'static, World>;

/// Runs the histories of these seeds, `steps` each, on an engine and on memory, and stops at the first on which they
/// differ.
pub async fn run_model<E: Engine>(seeds: Range<u64>, steps: usize) -> Result<(), Box<Failure>> {
    let open: Open = || Box::pin(World::open::<E>());
    let run = |history: History| async move { run::run(open, &history).await };
    histories::compare(seeds, steps, run).await
}

/// Runs the histories that `ESKER_MODEL_SEEDS` [asks for](histories::seeds), or [`SEEDS`].
///
/// # Panics
///
/// When engine and memory differ: with the seed and the shortest history that shows it. When the variable says
/// something else.
pub fn check_model<E: Engine>() {
    // One by one, so that a test that hangs is told from many that take their time.
    for seed in histories::seeds(SEEDS) {
        block_on(Box::pin(async move {
            if let Err(failure) = run_model::<E>(seed..seed + 1, STEPS).await {
                panic!("{failure}");
            }
        }));
    }
}
