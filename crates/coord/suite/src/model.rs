//! The model test: generated histories go to an engine and to memory, and every answer must be equal, order included,
//! and all that is stored in the end.

mod generate;
mod read;
mod run;
mod same;
mod shrink;
mod step;
mod transaction;

use std::{fmt, ops::Range, thread};

use esker_coord_api::BoxFuture;

use crate::{Engine, World, block_on};
use shrink::Shrink;
use step::History;

/// How many histories the ordinary test runs, of [`STEPS`] each.
pub const SEEDS: Range<u64> = 0..40;

/// How long a history is.
pub const STEPS: usize = 60;

/// Opens a new store of the engine under test.
type Open = fn() -> BoxFuture<'static, World>;

/// A history on which engine and memory differ, made as short as it gets.
pub struct Failure {
    history: History,
    what: String,
}

impl Failure {
    /// The seed that it was generated from.
    pub fn seed(&self) -> u64 {
        self.history.seed
    }

    /// How many steps are left of it.
    pub fn steps(&self) -> usize {
        self.history.steps.len()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.history.seed;
        writeln!(f, "engine and memory differ on seed {seed}, shortened to:")?;
        write!(f, "{}{}", self.history, self.what)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs the histories of these seeds, `steps` each, on an engine and on memory, and stops at the first on which they
/// differ.
pub async fn run_model<E: Engine>(seeds: Range<u64>, steps: usize) -> Result<(), Box<Failure>> {
    run_histories(|| Box::pin(World::open::<E>()), seeds, steps).await
}

async fn run_histories(open: Open, seeds: Range<u64>, steps: usize) -> Result<(), Box<Failure>> {
    for seed in seeds {
        let _named = Named(seed);
        let history = History::generate(seed, steps);
        if let Err(what) = run::run(open, &history).await {
            let Shrink { history, what, .. } = Shrink::of(open, history, what).await;
            return Err(Box::new(Failure { history, what }));
        }
        if seed % 1_000 == 999 {
            eprintln!("{} histories agree", seed + 1);
        }
    }
    Ok(())
}

/// Runs the histories that `ESKER_MODEL_SEEDS` asks for, or [`SEEDS`]. It is a number of seeds, a range as in
/// `2000..3000`, or `forever`.
///
/// # Panics
///
/// When engine and memory differ: with the seed and the shortest history that shows it. When the variable says
/// something else.
pub fn check_model<E: Engine>() {
    let seeds = match std::env::var("ESKER_MODEL_SEEDS") {
        Ok(text) => {
            seeds(&text).unwrap_or_else(|| panic!("ESKER_MODEL_SEEDS: {text:?}, not 200, 0..200 or forever"))
        }
        Err(_) => SEEDS,
    };
    // One by one, so that a test that hangs is told from many that take their time.
    for seed in seeds {
        block_on(Box::pin(async move {
            if let Err(failure) = run_model::<E>(seed..seed + 1, STEPS).await {
                panic!("{failure}");
            }
        }));
    }
}

fn seeds(text: &str) -> Option<Range<u64>> {
    if text == "forever" {
        return Some(0..u64::MAX);
    }
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => Some(0..text.parse().ok()?),
    }
}

/// Names the seed of a history in which an engine panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("a panic in the history of seed {}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::seeds;

    #[test]
    fn seeds_are_a_number_a_range_or_forever() {
        assert_eq!(seeds("200"), Some(0..200));
        assert_eq!(seeds("17..18"), Some(17..18));
        assert_eq!(seeds("forever"), Some(0..u64::MAX));
        assert_eq!(seeds("-1"), None);
        assert_eq!(seeds(""), None);
    }
}
