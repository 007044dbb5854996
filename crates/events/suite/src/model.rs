//! The model test: generated histories go to an engine and to memory, and every outcome, result, count, figure and
//! observed change must be equal, order included.

mod run;
mod scene;
mod seen;
mod step;

use std::ops::Range;

use esker_testing::histories;
pub use esker_testing::histories::Failure;
pub use scene::{Profile, Scene};
use step::History;

use crate::Engine;

/// How many histories the ordinary test runs, of [`STEPS`] each.
pub const SEEDS: Range<u64> = 0..40;

/// How long a history is.
pub const STEPS: usize = 80;

/// Runs the histories of these seeds, `steps` each, on an engine and on memory, and stops at the first on which
/// they differ.
pub async fn run_model<E: Engine>(
    seeds: impl IntoIterator<Item = u64>,
    steps: usize,
) -> Result<(), Box<Failure>> {
    let run = |history: History| async move { run::run::<E>(&history).await };
    histories::compare(seeds, steps, run).await
}

/// Runs the histories that `ESKER_MODEL_SEEDS` [asks for](histories::seeds), or [`SEEDS`].
///
/// # Panics
///
/// When engine and memory differ: with the seed and the shortest history that shows it. When the variable says
/// something else.
pub fn check_model<E: Engine>() {
    if let Err(failure) = E::run(run_model::<E>(histories::seeds(SEEDS), STEPS)) {
        panic!("{failure}");
    }
}
