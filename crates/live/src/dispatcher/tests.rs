//! The dispatcher's state after churn, and how it ends: run on this thread, so that every step is in order.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, mpsc},
};

use esker_events_api::{Accepted, Change};
use esker_nostr::{Filter, Keys};

use super::{Dispatch, Options, Sink, run};
use crate::queue::{Command, Queue, Target};

#[derive(Default)]
struct Kept(Mutex<Vec<Option<i64>>>);

impl Sink for Kept {
    fn deliver(&self, accepted: &Accepted) {
        self.0.lock().unwrap().push(accepted.offset);
    }
}

fn queue() -> Queue {
    Queue::new(Options::default().backlog_bytes, Arc::default())
}

fn register(queue: &Queue, sink: &Arc<Kept>) -> u32 {
    queue.register(
        [Filter::default()].into(),
        Target::Sink(Arc::clone(sink) as Arc<dyn Sink>),
        None,
    )
}

fn commit(queue: &Queue, offset: i64) {
    let event = Arc::new(Keys::from_seed(1).sign(1, 1, &[] as &[Vec<String>], ""));
    queue.commit(&[Change::Accepted(Accepted {
        offset: Some(offset),
        event,
    })]);
}

#[test]
fn live_05_registrations_that_come_and_go_leave_nothing_behind() {
    let queue = queue();
    let mut dispatch = Dispatch::new(&queue);
    let mut commands = VecDeque::new();
    let kept = Arc::new(Kept::default());
    for round in 0..1000 {
        let slots: Vec<_> = (0..5).map(|_| register(&queue, &kept)).collect();
        if round % 100 == 0 {
            commit(&queue, round);
        }
        for slot in slots {
            queue.unregister(slot);
        }
        assert!(queue.drain(&mut commands, &mut dispatch.forgotten));
        commands.drain(..).for_each(|command| dispatch.apply(command));
    }
    assert_eq!(kept.0.lock().unwrap().len(), 50);
    assert!(dispatch.index.is_empty());
    assert!(dispatch.entries.iter().all(Option::is_none));
    // A place is free again one batch later.
    assert!(dispatch.entries.len() <= 10, "{} places", dispatch.entries.len());
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn live_11_what_is_queued_when_the_dispatcher_ends_is_dispatched() {
    let queue = queue();
    let kept = Arc::new(Kept::default());
    register(&queue, &kept);
    commit(&queue, 1);
    commit(&queue, 2);
    queue.stop();
    commit(&queue, 3);
    run(&queue);
    assert_eq!(*kept.0.lock().unwrap(), [Some(1), Some(2)]);
}

#[test]
fn live_11_nobody_waits_for_a_dispatcher_that_has_ended() {
    let queue = queue();
    let (done, answer) = mpsc::sync_channel(1);
    queue.flush(done);
    // As when its thread panics with commands in the queue.
    queue.abandon();
    assert!(answer.recv().is_err());
    let (done, answer) = mpsc::sync_channel(1);
    queue.flush(done);
    assert!(answer.recv().is_err());
    commit(&queue, 1);
    let mut commands: VecDeque<Command> = VecDeque::new();
    assert!(!queue.drain(&mut commands, &mut Vec::new()));
}
