//! A failing history made short: what can go without curing the failure goes.

use super::{Open, run::run, step::History};

/// How often a failing history is tried again to make it shorter.
const ATTEMPTS: usize = 1_000;

/// A failing history on its way to a short one.
pub(crate) struct Shrink {
    pub(crate) history: History,
    /// How it fails.
    pub(crate) what: String,
    open: Open,
    attempts: usize,
}

impl Shrink {
    /// Leaves out of a failing history what it fails without.
    pub(crate) async fn of(open: Open, history: History, what: String) -> Self {
        let mut shrink = Self {
            history,
            what,
            open,
            attempts: 0,
        };
        loop {
            let before = shrink.history.size();
            shrink.steps().await;
            shrink.parts().await;
            if shrink.history.size() == before || shrink.attempts >= ATTEMPTS {
                return shrink;
            }
        }
    }

    /// Whole runs of steps, from half of all down to single ones.
    async fn steps(&mut self) {
        let mut chunk = self.history.steps.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.history.steps.len() {
                let mut shorter = self.history.clone();
                shorter
                    .steps
                    .drain(at..(at + chunk).min(self.history.steps.len()));
                if !self.fails_too(shorter).await {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Each step made simpler: fewer parts, and what it means nearer.
    async fn parts(&mut self) {
        for step in 0..self.history.steps.len() {
            let mut form = 0;
            while let Some(simpler) = self.history.steps[step].simpler(form) {
                let mut shorter = self.history.clone();
                shorter.steps[step] = simpler;
                if !self.fails_too(shorter).await {
                    form += 1;
                }
            }
        }
    }

    /// Takes a shorter history over if it fails too.
    async fn fails_too(&mut self, shorter: History) -> bool {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return false;
        }
        match run(self.open, &shorter).await {
            Ok(()) => false,
            Err(what) => {
                self.history = shorter;
                self.what = what;
                true
            }
        }
    }
}
