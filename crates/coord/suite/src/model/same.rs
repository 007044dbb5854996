//! What must be equal, and what may differ: the numbers that an engine gives to jobs.

use std::{collections::BTreeMap, fmt::Debug};

use esker_coord_api::{Inspection, Job, Result};

/// What differed, or nothing.
pub(crate) type Verdict<T = ()> = std::result::Result<T, String>;

/// Both answers must be there: no step asks for an error.
pub(crate) fn answered<T>(whose: &str, answer: Result<T>) -> Verdict<T> {
    answer.map_err(|error| format!("{whose} gives an error: {error:?}"))
}

/// Equal, or told.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, engine: &T, memory: &T) -> Verdict {
    if engine == memory {
        Ok(())
    } else {
        Err(format!("{what}: the engine gives {engine:?}, memory {memory:?}"))
    }
}

/// Which job of the engine is which of memory. An engine may leave numbers out, so they are paired when both first show
/// the same job.
#[derive(Clone, Default)]
pub(crate) struct Ids {
    memory_of: BTreeMap<i64, i64>,
    pairs: Vec<(i64, i64)>,
    /// The newest id that the engine gave to an enqueue.
    newest: i64,
}

impl Ids {
    /// Two jobs that must be the same.
    pub(crate) fn pair(&mut self, engine: i64, memory: i64) -> Verdict {
        if let Some(known) = self.memory_of.get(&engine) {
            return same("jobs", known, &memory);
        }
        if let Some((other, _)) = self.pairs.iter().find(|(_, known)| *known == memory) {
            return Err(format!(
                "jobs: memory's {memory} is the engine's {other}, which now gives {engine}"
            ));
        }
        self.memory_of.insert(engine, memory);
        self.pairs.push((engine, memory));
        Ok(())
    }

    /// Ids that were given just now: they grow.
    pub(crate) fn given(&mut self, engine: &[i64], memory: &[i64]) -> Verdict {
        same("ids given", &engine.len(), &memory.len())?;
        for (engine, memory) in engine.iter().zip(memory) {
            if *engine <= self.newest {
                return Err(format!("ids do not grow: {engine} after {}", self.newest));
            }
            self.newest = *engine;
            self.pair(*engine, *memory)?;
        }
        Ok(())
    }

    /// The job that is so many before the newest one known; with no job at all, one that does not exist.
    pub(crate) fn back(&self, back: usize) -> (i64, i64) {
        let Some(last) = self.pairs.len().checked_sub(1) else {
            return (i64::MAX, i64::MAX);
        };
        self.pairs[last - back % self.pairs.len()]
    }

    /// The pair of a job that is known.
    pub(crate) fn of_memory(&self, memory: i64) -> (i64, i64) {
        let known = self.pairs.iter().find(|(_, known)| *known == memory);
        *known.expect("a job that was paired")
    }

    /// All that are known.
    pub(crate) fn pairs(&self) -> Vec<(i64, i64)> {
        self.pairs.clone()
    }

    /// Jobs that must be the same in the same order; new ones are paired.
    pub(crate) fn same_jobs(&mut self, what: &str, mut engine: Vec<Job>, memory: &[Job]) -> Verdict {
        if engine.len() == memory.len() {
            for (engine, memory) in engine.iter_mut().zip(memory) {
                self.pair(engine.id, memory.id)
                    .map_err(|why| format!("{what}: {why}"))?;
                engine.id = memory.id;
            }
        }
        if engine == memory {
            return Ok(());
        }
        let (ours, theirs) = (memory.iter(), engine.iter());
        match ours.zip(theirs).find(|(ours, theirs)| ours != theirs) {
            Some((ours, theirs)) => same(what, theirs, ours),
            None => Err(format!(
                "{what}: the engine gives {} jobs, memory {}",
                engine.len(),
                memory.len()
            )),
        }
    }
}

/// What the contract leaves open is taken out: the size on the disk, queues that are empty by now, and consumers that
/// are where they would be had they saved nothing.
pub(crate) fn comparable(mut seen: Inspection) -> Inspection {
    seen.size_bytes = None;
    seen.queues
        .retain(|queue| queue.ready + queue.scheduled + queue.running + queue.dead > 0);
    for stream in &mut seen.streams {
        stream.consumers.retain(|consumer| consumer.offset != 0);
    }
    seen
}
