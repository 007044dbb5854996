//! Histories from seeds: what happens how often.

use esker_coord_api::{EnqueueOptions, QueueOptions};
use esker_testing::{histories, random::Random};

use super::step::{
    CONSUMERS, End, History, LOCKS, NewEventStep, NewJobStep, OWNERS, Part, QUEUES, SCHEDULES, STREAMS, Step,
    WORKERS, Wrong,
};
use crate::world::{NOW, options as options_of};

impl histories::History for History {
    type Step = Step;

    fn generate(seed: u64, steps: usize) -> Self {
        let random = &mut Random::new(seed);
        Self {
            eager: random.once_in(3),
            two_handles: random.once_in(2),
            steps: (0..steps).map(|_| step(random)).collect(),
        }
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn steps_mut(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }
}

impl NewJobStep {
    fn generate(random: &mut Random) -> Self {
        let mut some = |values: &[i64]| {
            random
                .pick(&[None, None, None, Some(())])
                .map(|()| random.pick(values))
        };
        let visibility = some(&[1, 10, 40]).unwrap_or(20);
        let options = EnqueueOptions {
            delay: some(&[-5, 0, 3, 15, 40, i64::MAX]),
            run_at: some(&[0, NOW, NOW + 30, i64::MIN]),
            priority: some(&[1, 5, -1, i64::MAX, i64::MIN]).unwrap_or(0),
            max_attempts: some(&[1, 2, i64::MAX]),
            expires: some(&[-1, 0, 1, 10, 30, i64::MAX]),
        };
        let retention = some(&[1, 20]);
        Self {
            payload: random.bits(),
            stamps: QueueOptions {
                dead_letter_retention_s: retention,
                ..options_of(visibility, 3)
            },
            options,
        }
    }
}

impl NewEventStep {
    fn generate(random: &mut Random) -> Self {
        Self {
            payload: random.bits(),
            key: random.pick(&[None, None, Some("k")]),
        }
    }
}

/// Small numbers more often than large ones: of the newest more often than of the oldest.
fn recent(random: &mut Random) -> usize {
    let most = random.pick(&[1, 3, 10, 50]);
    random.below(most)
}

fn step(random: &mut Random) -> Step {
    let handle = random.below(2);
    let (queue, stream) = (random.pick(&QUEUES), random.pick(&STREAMS));
    match random.below(100) {
        0..14 => Step::Enqueue {
            handle,
            queue,
            jobs: (0..random.pick(&[1, 1, 1, 2, 5]))
                .map(|_| NewJobStep::generate(random))
                .collect(),
        },
        14..30 => Step::Claim {
            handle,
            queue,
            worker: random.pick(&WORKERS),
            n: random.pick(&[1, 1, 2, 3, 10]),
        },
        30..45 => Step::EndClaim {
            handle,
            claim: recent(random),
            wrong: random.pick(&[
                None,
                None,
                None,
                None,
                None,
                Some(Wrong::Worker),
                Some(Wrong::Token),
                Some(Wrong::Queue),
            ]),
            end: end(random),
        },
        45..55 => Step::Clock(random.pick(&[1, 1, 5, 10, 11, 20, 21, 40, 41, 100, -7])),
        55..58 => Step::Publish {
            handle,
            stream,
            events: (0..=random.below(3))
                .map(|_| NewEventStep::generate(random))
                .collect(),
        },
        58..68 => Step::Transaction {
            handle,
            parts: (0..=random.below(6)).map(|_| part(random)).collect(),
            commit: !random.once_in(3),
        },
        68..76 => of_a_stream(handle, stream, random),
        76..86 => of_locks_and_schedules(handle, random),
        86 => Step::Reopen,
        87 => Step::Inspect { handle },
        _ => of_a_queue(handle, queue, random),
    }
}

fn of_a_queue(handle: usize, queue: &'static str, random: &mut Random) -> Step {
    let job = recent(random);
    match random.below(12) {
        0..2 => Step::Ack {
            handle,
            queue,
            claims: (0..=random.below(4)).map(|_| recent(random)).collect(),
        },
        2 => Step::Cancel { handle, queue, job },
        3 => Step::GetJob { handle, queue, job },
        4..6 => Step::Sweep { handle, queue },
        6..8 => Step::NextReady { handle, queue },
        8 => Step::Dead {
            handle,
            queue,
            after: random.pick(&[None, Some(job)]),
            limit: random.pick(&[1, 3, i64::MAX]),
        },
        9 => Step::Redrive { handle, queue, job },
        10 => Step::RedriveAll { handle, queue },
        _ => Step::Purge { handle, queue },
    }
}

fn of_a_stream(handle: usize, stream: &'static str, random: &mut Random) -> Step {
    let consumer = random.pick(&CONSUMERS);
    let limit = random.pick(&[1, 3, 1000]);
    match random.below(6) {
        0 => Step::Read {
            handle,
            stream,
            after: offset(random),
            limit,
        },
        1 => Step::ReadSaved {
            handle,
            stream,
            consumer,
            limit,
        },
        2..4 => Step::SaveOffset {
            handle,
            stream,
            consumer,
            offset: offset(random),
        },
        4 => Step::GetOffset {
            handle,
            stream,
            consumer,
        },
        _ => Step::Trim {
            handle,
            stream,
            horizon: offset(random),
        },
    }
}

fn of_locks_and_schedules(handle: usize, random: &mut Random) -> Step {
    let (lock, schedule) = (recent(random), random.pick(&SCHEDULES));
    let ttl = random.pick(&[1, 10, 30, 100, i64::MAX]);
    match random.below(10) {
        0..3 => Step::TryLock {
            handle,
            lock: random.pick(&LOCKS),
            owner: random.pick(&OWNERS),
            ttl,
        },
        3 => Step::Renew { handle, lock, ttl },
        4 => Step::Release { handle, lock },
        5..7 => Step::Schedule {
            handle,
            schedule,
            every_s: random.pick(&[1, 10, 10, 25, i64::MAX]),
            job: NewJobStep::generate(random),
        },
        7 => Step::Unschedule { handle, schedule },
        _ => Step::Fire { handle, lock },
    }
}

fn end(random: &mut Random) -> End {
    let error = random.pick(&[None, Some("boom"), Some("bang")]);
    match random.below(8) {
        0 | 1 => End::Ack,
        2..5 => End::Retry {
            error,
            delay: random.pick(&[0, 0, 5, 20, -3, i64::MAX, i64::MIN]),
        },
        5 => End::Fail { error },
        6 => End::Release,
        _ => End::Heartbeat(random.pick(&[1, 10, 60, i64::MAX])),
    }
}

fn part(random: &mut Random) -> Part {
    let (queue, stream, consumer) = (
        random.pick(&QUEUES),
        random.pick(&STREAMS),
        random.pick(&CONSUMERS),
    );
    let limit = random.pick(&[1, 3, 1000]);
    match random.below(12) {
        0..3 => Part::Enqueue {
            queue,
            jobs: (0..random.pick(&[1, 1, 3]))
                .map(|_| NewJobStep::generate(random))
                .collect(),
        },
        3..6 => Part::Publish {
            stream,
            events: (0..random.pick(&[1, 1, 3]))
                .map(|_| NewEventStep::generate(random))
                .collect(),
        },
        6 => Part::Notify,
        7 => Part::SaveOffset {
            stream,
            consumer,
            offset: offset(random),
        },
        8 => Part::GetOffset { stream, consumer },
        9 => Part::GetJob {
            queue,
            job: recent(random),
        },
        10 if random.once_in(2) => Part::ReadSaved {
            stream,
            consumer,
            limit,
        },
        10 => Part::Read {
            stream,
            after: offset(random),
            limit,
        },
        _ => Part::Outside {
            handle: random.below(2),
        },
    }
}

fn offset(random: &mut Random) -> i64 {
    match random.below(12) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => -1,
        _ => i64::try_from(random.below(12)).expect("a small number"),
    }
}
