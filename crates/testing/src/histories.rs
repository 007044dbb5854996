//! Generated histories, on which an engine and its model must agree: which are run, and a failing one made short.

use std::{env, fmt, future::Future, ops::Range, thread};

/// How often a failing history is tried again to make it shorter.
const ATTEMPTS: usize = 1_000;

/// What is done to an engine and to its model.
pub trait History: Clone + fmt::Display {
    /// One thing of it.
    type Step: Step;

    /// The history of a seed, so many steps long.
    fn generate(seed: u64, steps: usize) -> Self;

    /// Its steps.
    fn steps(&self) -> &[Self::Step];

    /// Its steps, to leave some out.
    fn steps_mut(&mut self) -> &mut Vec<Self::Step>;
}

/// A step of a history.
pub trait Step: Clone {
    /// How much of it could be made simpler.
    fn weight(&self) -> usize;

    /// The same step in its `n`-th simpler form, if it has that many.
    fn simpler(&self, n: usize) -> Option<Self>;
}

/// A history on which engine and model differ, made as short as it gets.
pub struct Failure {
    seed: u64,
    steps: usize,
    text: String,
}

impl Failure {
    /// The seed that it was generated from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many steps are left of it.
    pub fn steps(&self) -> usize {
        self.steps
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs the histories of these seeds, `steps` each, and stops at the first on which the run tells a difference.
pub async fn compare<H: History, Run: Future<Output = Result<(), String>>>(
    seeds: impl IntoIterator<Item = u64>,
    steps: usize,
    run: impl Fn(H) -> Run,
) -> Result<(), Box<Failure>> {
    for seed in seeds {
        let _named = Named(seed);
        let history = H::generate(seed, steps);
        if let Err(what) = run(history.clone()).await {
            let mut shrink = Shrink {
                history,
                what,
                run: &run,
                attempts: 0,
            };
            shrink.shrink().await;
            let Shrink { history, what, .. } = shrink;
            return Err(Box::new(Failure {
                seed,
                steps: history.steps().len(),
                text: format!("engine and memory differ on seed {seed}, shortened to:\n{history}{what}"),
            }));
        }
        if seed % 1_000 == 999 {
            eprintln!("{} histories agree", seed + 1);
        }
    }
    Ok(())
}

/// The seeds that `ESKER_MODEL_SEEDS` asks for, or these. It is a number of seeds, a range as in `2000..3000`, or
/// `forever`.
///
/// # Panics
///
/// When the variable says something else.
pub fn seeds(otherwise: Range<u64>) -> Range<u64> {
    match env::var("ESKER_MODEL_SEEDS") {
        Ok(text) => {
            parse(&text).unwrap_or_else(|| panic!("ESKER_MODEL_SEEDS: {text:?}, not 200, 0..200 or forever"))
        }
        Err(_) => otherwise,
    }
}

fn parse(text: &str) -> Option<Range<u64>> {
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

/// A failing history on its way to a short one: what can go without curing the failure goes.
struct Shrink<'r, H, R> {
    history: H,
    /// How it fails.
    what: String,
    run: &'r R,
    attempts: usize,
}

impl<H: History, R: Fn(H) -> Run, Run: Future<Output = Result<(), String>>> Shrink<'_, H, R> {
    async fn shrink(&mut self) {
        loop {
            let before = self.size();
            self.leave_out().await;
            self.simplify().await;
            if self.size() == before || self.attempts >= ATTEMPTS {
                return;
            }
        }
    }

    fn size(&self) -> usize {
        self.history.steps().iter().map(|step| 1 + step.weight()).sum()
    }

    /// Whole runs of steps, from half of all down to single ones.
    async fn leave_out(&mut self) {
        let mut chunk = self.history.steps().len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.history.steps().len() {
                let mut shorter = self.history.clone();
                let end = (at + chunk).min(self.history.steps().len());
                shorter.steps_mut().drain(at..end);
                if !self.fails_too(shorter).await {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Each step made simpler.
    async fn simplify(&mut self) {
        for step in 0..self.history.steps().len() {
            let mut form = 0;
            while let Some(simpler) = self.history.steps()[step].simpler(form) {
                let mut shorter = self.history.clone();
                shorter.steps_mut()[step] = simpler;
                if !self.fails_too(shorter).await {
                    form += 1;
                }
            }
        }
    }

    /// Takes a shorter history over if it fails too.
    async fn fails_too(&mut self, shorter: H) -> bool {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return false;
        }
        match (self.run)(shorter.clone()).await {
            Ok(()) => false,
            Err(what) => {
                self.history = shorter;
                self.what = what;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn seeds_are_a_number_a_range_or_forever() {
        assert_eq!(parse("200"), Some(0..200));
        assert_eq!(parse("17..18"), Some(17..18));
        assert_eq!(parse("forever"), Some(0..u64::MAX));
        assert_eq!(parse("-1"), None);
        assert_eq!(parse(""), None);
    }
}
