//! Schedules, and the next boundary of each.

use std::collections::BTreeMap;

use esker_coord_api::{Name, NewSchedule};

use crate::jobs::Jobs;

/// By name.
#[derive(Clone, Default)]
pub(crate) struct Schedules(BTreeMap<Name, Scheduled>);

#[derive(Clone)]
pub(crate) struct Scheduled {
    pub(crate) schedule: NewSchedule,
    /// The first boundary that has not fired.
    pub(crate) next: i64,
}

impl Schedules {
    pub(crate) fn set(&mut self, schedule: NewSchedule, now: i64) {
        let next = match self.0.get(&schedule.name) {
            Some(known) if known.schedule.spec == schedule.spec => known.next,
            _ => schedule.spec.first(now),
        };
        self.0.insert(schedule.name.clone(), Scheduled { schedule, next });
    }

    pub(crate) fn remove(&mut self, name: &Name) -> bool {
        self.0.remove(name).is_some()
    }

    /// Enqueues a job for each boundary that fires, and gives the queues that had some, one for each job.
    pub(crate) fn fire(&mut self, jobs: &mut Jobs, now: i64) -> Vec<Name> {
        let mut fired = Vec::new();
        for Scheduled { schedule, next } in self.0.values_mut() {
            let caught_up = schedule.spec.catch_up(*next, now);
            for boundary in caught_up.fire {
                jobs.enqueue(&schedule.queue, schedule.job_at(boundary), now);
                fired.push(schedule.queue.clone());
            }
            *next = caught_up.next;
        }
        fired
    }

    /// The next boundary of all.
    pub(crate) fn next(&self) -> Option<i64> {
        self.0.values().map(|scheduled| scheduled.next).min()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Scheduled> {
        self.0.values()
    }
}
