//! A failing history made short: what can go without curing the failure goes.

use super::{run::run, step::History};
use crate::Engine;

/// How often a failing history is tried again to make it shorter.
const ATTEMPTS: usize = 2_000;

/// A failing history on its way to a short one.
pub(crate) struct Shrink {
    pub(crate) history: History,
    /// How it fails.
    pub(crate) failure: String,
    attempts: usize,
}

impl Shrink {
    /// Leaves out of a failing history what it fails without.
    pub(crate) async fn of<E: Engine>(history: History, failure: String) -> Self {
        let mut shrink = Self {
            history,
            failure,
            attempts: 0,
        };
        loop {
            let before = size(&shrink.history);
            shrink.steps::<E>().await;
            shrink.parts::<E>().await;
            if size(&shrink.history) == before || shrink.attempts >= ATTEMPTS {
                return shrink;
            }
        }
    }

    /// Whole runs of steps, from half of all down to single ones.
    async fn steps<E: Engine>(&mut self) {
        let mut chunk = self.history.steps.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.history.steps.len() {
                let mut shorter = self.history.clone();
                shorter
                    .steps
                    .drain(at..(at + chunk).min(self.history.steps.len()));
                if !self.fails_too::<E>(shorter).await {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Single events of batches and single filters of several.
    async fn parts<E: Engine>(&mut self) {
        for step in 0..self.history.steps.len() {
            let mut part = 0;
            while let Some(smaller) = self.history.steps[step].without(part) {
                let mut shorter = self.history.clone();
                shorter.steps[step] = smaller;
                if !self.fails_too::<E>(shorter).await {
                    part += 1;
                }
            }
        }
    }

    /// Takes a shorter history over if it fails too.
    async fn fails_too<E: Engine>(&mut self, shorter: History) -> bool {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return false;
        }
        match run::<E>(&shorter).await {
            Ok(()) => false,
            Err(failure) => {
                self.history = shorter;
                self.failure = failure;
                true
            }
        }
    }
}

fn size(history: &History) -> usize {
    history.steps.iter().map(|step| 1 + step.parts()).sum()
}
