//! Jobs, live and dead, of all queues.

use std::collections::{BTreeMap, BTreeSet};

use esker_coord_api::{
    Claim, Claimed, DeadPage, EXPIRED, FAILED, Job, JobState, LocalName, MOST_SETTLED, Name, NewJob,
    Settlement, claim_order, has_lapsed, is_claimable, settles, spent_error,
};

#[derive(Clone, Default)]
pub(crate) struct Jobs {
    last_id: i64,
    rows: BTreeMap<i64, Row>,
    /// Every queue that ever had a job.
    queues: BTreeSet<Name>,
}

#[derive(Clone)]
struct Row {
    job: Job,
    /// What the present claim is marked with.
    token: i64,
}

impl Jobs {
    /// An id that no other job has, kept or not.
    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn insert(&mut self, job: Job) {
        self.queues.insert(job.queue.clone());
        self.rows.insert(job.id, Row { job, token: 0 });
    }

    pub(crate) fn enqueue(&mut self, queue: &Name, job: NewJob, now: i64) -> i64 {
        let id = self.next_id();
        self.insert(stored(id, queue.clone(), job, now));
        id
    }

    pub(crate) fn claim(
        &mut self,
        queue: &Name,
        worker: &LocalName,
        token: i64,
        n: usize,
        now: i64,
    ) -> Vec<Claimed> {
        self.settle(queue, now, false, MOST_SETTLED);
        let mut claimable: Vec<&mut Row> = self.of(queue).filter(|row| is_claimable(&row.job, now)).collect();
        claimable.sort_by_key(|row| claim_order(&row.job));
        let claim = |row: &mut Row| {
            row.token = token;
            let job = &mut row.job;
            job.state = JobState::Processing;
            job.worker = Some(worker.clone());
            job.claimed_at = Some(now);
            job.claim_expires_at = Some(now.saturating_add(job.stamps.visibility_timeout_s));
            job.attempts += 1;
            Claimed {
                job: job.clone(),
                token,
            }
        };
        claimable.into_iter().take(n).map(claim).collect()
    }

    pub(crate) fn ack(&mut self, queue: &Name, claim: &Claim, now: i64) -> bool {
        let holds = self.held(queue, claim, now).is_some();
        if holds {
            self.rows.remove(&claim.id);
        }
        holds
    }

    pub(crate) fn cancel(&mut self, queue: &Name, id: i64) -> bool {
        let is_live = self.get(queue, id).is_some_and(|job| job.state != JobState::Dead);
        is_live && self.rows.remove(&id).is_some()
    }

    pub(crate) fn get(&self, queue: &Name, id: i64) -> Option<&Job> {
        let job = &self.rows.get(&id)?.job;
        (job.queue == *queue).then_some(job)
    }

    pub(crate) fn sweep(&mut self, queue: &Name, now: i64) -> u64 {
        let moved = self.settle(queue, now, true, usize::MAX);
        self.rows.retain(|_, Row { job, .. }| {
            let kept_until = job
                .died_at
                .zip(job.stamps.dead_letter_retention_s)
                .map(|(died_at, retention)| died_at.saturating_add(retention));
            job.queue != *queue || kept_until.is_none_or(|until| until > now)
        });
        moved
    }

    /// When a claim will next find something.
    pub(crate) fn next_ready(&self, queue: &Name, now: i64) -> Option<i64> {
        let claimable_from = |job: &Job| {
            let time = match job.state {
                JobState::Pending => job.run_at,
                JobState::Processing => job.claim_expires_at?.saturating_add(1),
                JobState::Dead => return None,
            };
            let time = time.max(now);
            is_claimable(job, time).then_some(time)
        };
        let jobs = self.all().filter(|job| job.queue == *queue);
        jobs.filter_map(claimable_from).min()
    }

    pub(crate) fn dead(&self, queue: &Name, page: DeadPage) -> Vec<Job> {
        self.all()
            .filter(|job| job.queue == *queue && job.state == JobState::Dead && job.id > page.after)
            .take(usize::try_from(page.limit).unwrap_or(0))
            .cloned()
            .collect()
    }

    /// Redrives the dead jobs of the queue that are wanted.
    pub(crate) fn redrive(&mut self, queue: &Name, now: i64, wanted: impl Fn(i64) -> bool) -> u64 {
        let dead = self
            .of(queue)
            .filter(|row| row.job.state == JobState::Dead && wanted(row.job.id));
        dead.map(|Row { job, .. }| {
            job.state = JobState::Pending;
            job.run_at = now;
            job.attempts = 0;
            job.expires_at = None;
            job.died_at = None;
        })
        .map(|()| 1)
        .sum()
    }

    pub(crate) fn purge(&mut self, queue: &Name) -> u64 {
        let before = self.rows.len();
        self.rows
            .retain(|_, row| row.job.queue != *queue || row.job.state != JobState::Dead);
        (before - self.rows.len()) as u64
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Name> {
        self.queues.iter()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Job> {
        self.rows.values().map(|row| &row.job)
    }

    fn of(&mut self, queue: &Name) -> impl Iterator<Item = &mut Row> {
        self.rows.values_mut().filter(move |row| row.job.queue == *queue)
    }

    /// The job of a claim, if the claim still holds (CQ-03).
    pub(crate) fn held(&mut self, queue: &Name, claim: &Claim, now: i64) -> Option<&mut Job> {
        let row = self.rows.get_mut(&claim.id)?;
        let holds = row.job.queue == *queue
            && row.job.state == JobState::Processing
            && row.job.worker.as_ref() == Some(&claim.worker)
            && row.token == claim.token
            && !has_lapsed(&row.job, now);
        holds.then_some(&mut row.job)
    }

    /// Moves to dead what the clock has decided, at most so many for each reason, and tells how many.
    fn settle(&mut self, queue: &Name, now: i64, sweep: bool, most: usize) -> u64 {
        let (mut expired, mut spent) = (0, 0);
        for Row { job, .. } in self.of(queue).filter(|row| row.job.state != JobState::Dead) {
            let (count, error) = match settles(job, now, sweep) {
                Settlement::Live => {
                    if !sweep && has_lapsed(job, now) {
                        // Its time has come before, though the clock may have been set back since.
                        job.run_at = job.run_at.min(now);
                    }
                    continue;
                }
                Settlement::Dead(EXPIRED) => (&mut expired, EXPIRED.to_owned()),
                Settlement::Dead(_) => (&mut spent, spent_error(None, job.last_error.clone())),
            };
            if *count < most {
                *count += 1;
                die(job, error, now);
            }
        }
        (expired + spent) as u64
    }
}

/// A job as it is when it is enqueued.
pub(crate) fn stored(id: i64, queue: Name, new: NewJob, now: i64) -> Job {
    Job {
        id,
        queue,
        state: JobState::Pending,
        run_at: new.run_at(now),
        expires_at: new.expires_at(now),
        payload: new.payload,
        priority: new.priority,
        attempts: 0,
        stamps: new.stamps,
        worker: None,
        claimed_at: None,
        claim_expires_at: None,
        created_at: now,
        boundary: new.boundary,
        last_error: None,
        died_at: None,
    }
}

/// [`Engine::retry`](esker_coord_api::Engine::retry), of a claim that holds.
pub(crate) fn retry(job: &mut Job, error: Option<String>, delay: i64, now: i64) {
    if job.attempts >= job.stamps.max_attempts {
        let error = spent_error(error, job.last_error.clone());
        die(job, error, now);
        return;
    }
    pend(job);
    job.run_at = now.saturating_add(delay);
    job.last_error = error.or(job.last_error.take());
}

/// [`Engine::fail`](esker_coord_api::Engine::fail), of a claim that holds.
pub(crate) fn fail(job: &mut Job, error: Option<String>, now: i64) {
    die(job, error.unwrap_or_else(|| FAILED.to_owned()), now);
}

/// [`Engine::release`](esker_coord_api::Engine::release), of a claim that holds.
pub(crate) fn release(job: &mut Job) {
    pend(job);
    job.attempts -= 1;
}

fn die(job: &mut Job, error: String, now: i64) {
    pend(job);
    job.state = JobState::Dead;
    job.last_error = Some(error);
    job.died_at = Some(now);
}

/// Ends whatever claim there is.
fn pend(job: &mut Job) {
    job.state = JobState::Pending;
    job.worker = None;
    job.claimed_at = None;
    job.claim_expires_at = None;
}
