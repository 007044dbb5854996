//! What a state holds, counted.

use esker_coord_api::{
    ConsumerInspection, Inspection, JobState, LockInspection, Name, QueueInspection, ScheduleInspection,
    StreamInspection,
};

use crate::{jobs::Jobs, schedules::Scheduled, state::State, streams::Stream};

pub(crate) fn inspect(state: &State, now: i64) -> Inspection {
    let locks = state.locks.held(now).map(|(name, holder)| LockInspection {
        name: name.to_string(),
        owner: holder.owner.to_string(),
        fence: holder.fence,
        expires_in_s: holder.expires_at.saturating_sub(now),
    });
    let schedules = state
        .schedules
        .all()
        .map(|Scheduled { schedule, next }| ScheduleInspection {
            name: schedule.name.to_string(),
            spec: schedule.spec.to_string(),
            queue: schedule.queue.to_string(),
            next: *next,
        });
    let streams = state.streams.all().filter(|(_, stream)| stream.last > 0);
    Inspection {
        queues: state
            .jobs
            .queues()
            .map(|name| queue(&state.jobs, name, now))
            .collect(),
        streams: streams.map(|(name, of)| stream(name, of)).collect(),
        locks: locks.collect(),
        schedules: schedules.collect(),
        size_bytes: None,
    }
}

fn queue(jobs: &Jobs, name: &Name, now: i64) -> QueueInspection {
    let mut queue = QueueInspection {
        name: name.to_string(),
        ..QueueInspection::default()
    };
    for job in jobs.all().filter(|job| job.queue == *name) {
        match job.state {
            JobState::Pending if job.run_at <= now => {
                queue.ready += 1;
                let age = now.saturating_sub(job.run_at);
                queue.oldest_ready_s = queue.oldest_ready_s.max(Some(age));
            }
            JobState::Pending => queue.scheduled += 1,
            JobState::Processing => queue.running += 1,
            JobState::Dead => queue.dead += 1,
        }
    }
    queue
}

fn stream(name: &Name, stream: &Stream) -> StreamInspection {
    let consumers = stream.consumers.iter();
    StreamInspection {
        name: name.to_string(),
        first: stream.events.keys().next().copied(),
        last: stream.last,
        consumers: consumers
            .map(|(consumer, offset)| ConsumerInspection::new(consumer.to_string(), *offset, stream.last))
            .collect(),
    }
}
