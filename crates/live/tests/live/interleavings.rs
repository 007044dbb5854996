//! Where stored and live meet (LIVE-10): every order in which the query, the writer and the dispatcher can take
//! their steps, walked through one by one; then the same races with threads.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, LazyLock, atomic::Ordering},
    thread,
};

use esker_events_api::Accepted;
use esker_live::{Dispatcher, Options, Outbound, Registration, Sink, Subscription};
use esker_nostr::Event;

use crate::support::{Store, all, brake, eose, event, kind_event, kinds, message, outbound, sent};

/// The steps of the three parties; each party takes its own in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Query {
    Register,
    Snapshot,
    FirstPage,
    SecondPage,
    Done,
}

const QUERY: [Query; 5] = [
    Query::Register,
    Query::Snapshot,
    Query::FirstPage,
    Query::SecondPage,
    Query::Done,
];

/// Signed once for all walks; the second is ephemeral.
static EVENTS: LazyLock<[Arc<Event>; 3]> = LazyLock::new(|| [event(1), kind_event(20_001, 2), event(3)]);
const OFFSETS: [Option<i64>; 3] = [Some(1), None, Some(2)];

/// One `REQ` while it is being served.
struct Req {
    subscription: Arc<Subscription>,
    steps: usize,
    registered: bool,
    snapshot: usize,
}

/// A world in the middle of a walk. Commits and registrations pass through one queue to the dispatcher.
struct World {
    events: usize,
    closed: bool,
    outbound: Arc<Outbound>,
    reqs: Vec<Req>,
    // How many events a query gives at most.
    limit: usize,
    // The last offset that was dispatched.
    past: Option<i64>,
    committed: usize,
    told: usize,
    queue: VecDeque<Queued>,
    // Who was registered, when each event was told: it must reach those.
    due: Vec<Vec<usize>>,
}

#[derive(Clone, Copy)]
enum Queued {
    Register(usize),
    Event(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Query(usize),
    Commit,
    Tell,
    Dispatch,
}

impl World {
    fn new(events: usize) -> Self {
        Self {
            events,
            closed: false,
            outbound: outbound(),
            reqs: Vec::new(),
            limit: usize::MAX,
            past: None,
            committed: 0,
            told: 0,
            queue: VecDeque::new(),
            due: Vec::new(),
        }
    }

    fn open(&mut self) {
        let subscription = Arc::new(Subscription::new("s", Arc::clone(&self.outbound)));
        self.reqs.push(Req {
            subscription,
            steps: 0,
            registered: false,
            snapshot: 0,
        });
    }

    fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, req) in self.reqs.iter().enumerate() {
            if req.steps < QUERY.len() && !self.closed && !req.subscription.is_cancelled() {
                steps.push(Step::Query(index));
            }
        }
        if self.committed < self.events {
            steps.push(Step::Commit);
        }
        if self.told < self.committed {
            steps.push(Step::Tell);
        }
        if !self.queue.is_empty() {
            steps.push(Step::Dispatch);
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Query(index) => self.query(index),
            Step::Commit => self.committed += 1,
            Step::Tell => {
                self.queue.push_back(Queued::Event(self.told));
                let registered = |index: &usize| self.reqs[*index].steps > 0;
                self.due.push((0..self.reqs.len()).filter(registered).collect());
                self.told += 1;
            }
            Step::Dispatch => match self.queue.pop_front().unwrap() {
                Queued::Register(index) => {
                    self.reqs[index].registered = true;
                    self.reqs[index].subscription.in_force(self.past);
                }
                Queued::Event(n) => {
                    let accepted = Accepted {
                        offset: OFFSETS[n],
                        event: Arc::clone(&EVENTS[n]),
                    };
                    for req in self.reqs.iter().filter(|req| req.registered) {
                        req.subscription.deliver(&accepted);
                    }
                    self.past = OFFSETS[n].or(self.past);
                }
            },
        }
    }

    fn query(&mut self, index: usize) {
        let committed = self.committed;
        let req = &mut self.reqs[index];
        // Newest first; one event per page, the rest on the second. The ephemeral one is not stored.
        let stored: Vec<_> = (0..req.snapshot)
            .rev()
            .filter_map(|n| Some((OFFSETS[n]?, EVENTS[n].json().clone())))
            .take(self.limit)
            .collect();
        let first = stored.len().min(1);
        match QUERY[req.steps] {
            Query::Register => self.queue.push_back(Queued::Register(index)),
            Query::Snapshot => req.snapshot = committed,
            Query::FirstPage => assert!(req.subscription.stored(stored[..first].to_vec())),
            Query::SecondPage => assert!(req.subscription.stored(stored[first..].to_vec())),
            Query::Done => assert!(req.subscription.stored_done()),
        }
        self.reqs[index].steps += 1;
    }

    /// What a `REQ` must have been sent in all: of the stored ones the newest, `EOSE`, then in commit order every event
    /// that was told while it was registered and did not come as a stored one.
    fn wanted(&self, index: usize) -> Vec<String> {
        let snapshot = self.reqs[index].snapshot;
        let text = |n: usize| message("s", &EVENTS[n]);
        let stored: Vec<_> = (0..snapshot)
            .rev()
            .filter(|n| OFFSETS[*n].is_some())
            .take(self.limit)
            .collect();
        let live = (0..self.events)
            .filter(|n| !stored.contains(n) && self.due[*n].contains(&index))
            .map(text);
        let stored = stored.iter().map(|n| text(*n));
        stored.chain([eose("s")]).chain(live).collect()
    }
}

/// Walks every order of the steps, from the beginning each time, and calls `check` at each end. `at` is called
/// before each step and may take one of its own.
fn walk(events: usize, at: &dyn Fn(&mut World, usize), check: &dyn Fn(&World)) -> usize {
    let mut walks = 0;
    // Which of the possible steps was taken, and of how many.
    let mut choices: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut world = World::new(events);
        world.open();
        let mut taken = 0;
        loop {
            at(&mut world, taken);
            let possible = world.possible();
            if possible.is_empty() {
                break;
            }
            if choices.len() == taken {
                choices.push((0, possible.len()));
            }
            world.take(possible[choices[taken].0]);
            taken += 1;
        }
        check(&world);
        walks += 1;
        while choices.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            choices.pop();
        }
        match choices.last_mut() {
            Some((choice, _)) => *choice += 1,
            None => return walks,
        }
    }
}

#[test]
fn live_10_each_event_once_in_every_interleaving() {
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let walks = walk(3, &|_, _| {}, &|world| {
        let (frames, closing) = sent(&world.outbound);
        assert_eq!(frames, world.wanted(0));
        assert_eq!(closing, None);
        seen.borrow_mut().insert(frames);
    });
    assert!(walks > 100_000, "{walks}");
    // None stored, the first, all; the ephemeral one before or after the registration: each has occurred.
    assert_eq!(seen.into_inner().len(), 5);
}

#[test]
fn live_10_a_limit_cuts_what_was_stored_and_never_what_comes() {
    for limit in [0, 1] {
        let at = |world: &mut World, _: usize| world.limit = limit;
        walk(3, &at, &|world| {
            assert_eq!(sent(&world.outbound).0, world.wanted(0));
        });
    }
}

#[test]
fn live_10_nothing_is_sent_after_a_close_in_mid_query() {
    // After how many steps the CLOSE comes.
    for close in 0..12 {
        let at = |world: &mut World, taken: usize| {
            if taken == close {
                world.reqs[0].subscription.cancel();
                world.closed = true;
                sent(&world.outbound);
            }
        };
        let closed = std::cell::Cell::new(0);
        walk(2, &at, &|world| {
            if world.closed {
                closed.set(closed.get() + 1);
                let subscription = &world.reqs[0].subscription;
                assert!(!subscription.stored([(1, EVENTS[0].json().clone())]));
                assert!(!subscription.stored_done());
                assert_eq!(sent(&world.outbound).0, Vec::<String>::new());
            }
        });
        assert!(closed.get() > 1);
    }
}

#[test]
fn live_10_the_same_id_in_mid_query_serves_the_new_one_alone_and_whole() {
    // After how many steps the second REQ comes, and how many events there are.
    for (replaced, events) in (0..8).map(|steps| (steps, 1)).chain([(4, 2)]) {
        let at = |world: &mut World, taken: usize| {
            if taken == replaced {
                world.reqs[0].subscription.cancel();
                sent(&world.outbound);
                world.open();
            }
        };
        let walks = walk(events, &at, &|world| {
            if world.reqs.len() == 2 {
                assert_eq!(sent(&world.outbound).0, world.wanted(1));
            }
        });
        assert!(walks > 100);
    }
}

#[test]
fn live_10_without_a_query_all_since_the_registration_is_live() {
    let outbound = outbound();
    let subscription = Subscription::new("s", Arc::clone(&outbound));
    subscription.deliver(&Accepted {
        offset: Some(7),
        event: event(1),
    });
    assert!(subscription.stored_done());
    assert_eq!(sent(&outbound).0, [eose("s"), message("s", &event(1))]);
}

#[test]
fn live_10_an_id_is_written_as_json() {
    let outbound = outbound();
    let subscription = Subscription::new("a\"b\\", Arc::clone(&outbound));
    subscription.stored([(1, EVENTS[0].json().clone())]);
    subscription.stored_done();
    assert_eq!(subscription.id(), "a\"b\\");
    assert_eq!(
        sent(&outbound).0,
        [message(r#"a\"b\\"#, &EVENTS[0]), eose(r#"a\"b\\"#)]
    );
}

#[test]
fn live_10_an_event_of_the_snapshot_that_is_dispatched_after_eose_is_not_sent_again() {
    let dispatcher = Dispatcher::start(&Options::default()).unwrap();
    let store = Store::new(dispatcher.observer());
    let (brake, pedal) = brake();
    let _brake = dispatcher.register(kinds(&[7]), brake);
    store.commit(&kind_event(7, 0));
    pedal.arrived.recv().unwrap();
    // The dispatcher stands. Both are committed before the query sees the store, and dispatched after EOSE.
    let outbound = outbound();
    let subscription = Arc::new(Subscription::new("s", Arc::clone(&outbound)));
    let _registration = dispatcher.register(kinds(&[1]), Arc::clone(&subscription) as Arc<dyn Sink>);
    store.commit(&EVENTS[0]);
    store.commit(&EVENTS[2]);
    let stored = store.snapshot();
    assert!(subscription.stored(stored[1..].to_vec()));
    assert!(subscription.stored_done());
    let third = event(4);
    store.commit(&third);
    pedal.go_on.send(()).unwrap();
    dispatcher.flush();
    let text = |event: &Event| message("s", event);
    assert_eq!(
        sent(&outbound).0,
        [text(&EVENTS[0]), text(&EVENTS[2]), eose("s"), text(&third)]
    );
    assert_eq!(dispatcher.counters().deliveries.load(Ordering::Relaxed), 4);
}

#[test]
fn live_10_what_is_dispatched_late_reaches_the_replaced_one_before_it_gives_way() {
    for first_is_live in [true, false] {
        let dispatcher = Dispatcher::start(&Options::default()).unwrap();
        let store = Store::new(dispatcher.observer());
        let (brake, pedal) = brake();
        let _brake = dispatcher.register(kinds(&[7]), brake);
        let outbound = outbound();
        let first = Arc::new(Subscription::new("s", Arc::clone(&outbound)));
        let registration = dispatcher.register(kinds(&[1]), Arc::clone(&first) as Arc<dyn Sink>);
        if first_is_live {
            assert!(first.stored([]) && first.stored_done());
        }
        store.commit(&kind_event(7, 0));
        pedal.arrived.recv().unwrap();
        // The dispatcher stands: committed, and not dispatched yet, when the second comes, which asks for nothing stored.
        store.commit(&EVENTS[0]);
        let (in_force, ready) = std::sync::mpsc::channel();
        let second = Subscription::new("s", Arc::clone(&outbound));
        let second = second.replacing(Arc::clone(&first), move || in_force.send(()).unwrap());
        let second = Arc::new(second);
        assert!(!first.stored([(9, EVENTS[2].json().clone())]) && !first.stored_done());
        let sink = Arc::clone(&second) as Arc<dyn Sink>;
        let _registration = dispatcher.replace(registration, kinds(&[1]), sink);
        store.commit(&EVENTS[2]);
        pedal.go_on.send(()).unwrap();
        ready.recv().unwrap();
        assert!(second.stored([]) && second.stored_done());
        dispatcher.flush();
        let text = |event: &Event| message("s", event);
        let first_eose = first_is_live.then(|| eose("s"));
        let expected = first_eose
            .into_iter()
            .chain([text(&EVENTS[0]), eose("s"), text(&EVENTS[2])]);
        assert_eq!(sent(&outbound).0, expected.collect::<Vec<_>>());
    }
}

#[test]
fn live_10_closing_the_successor_closes_the_one_that_waits_to_give_way() {
    let outbound = outbound();
    let first = Arc::new(Subscription::new("s", Arc::clone(&outbound)));
    assert!(first.stored([]) && first.stored_done());
    let second = Subscription::new("s", Arc::clone(&outbound)).replacing(Arc::clone(&first), || ());
    assert_eq!(sent(&outbound).0, [eose("s")]);
    second.cancel();
    // The dispatcher has not come to the replacement yet.
    first.deliver(&Accepted {
        offset: Some(1),
        event: event(1),
    });
    second.in_force(Some(1));
    assert_eq!(sent(&outbound).0, Vec::<String>::new());
}

#[test]
fn live_10_subscribing_a_thousand_times_while_events_pour_in() {
    let dispatcher = Dispatcher::start(&Options::default()).unwrap();
    let store = Store::new(dispatcher.observer());
    let events: Vec<_> = (0..1000).map(event).collect();
    let mut open: Vec<(Arc<Outbound>, Registration)> = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| events.iter().for_each(|event| store.commit(event)));
        for _ in 0..1000 {
            let outbound = outbound();
            let subscription = Arc::new(Subscription::new("s", Arc::clone(&outbound)));
            // The oldest are left out: the buffer is bounded, and they can cross with nothing.
            let left_out = store.snapshot().len().saturating_sub(20);
            let registration = dispatcher.register(all(), Arc::clone(&subscription) as Arc<dyn Sink>);
            assert!(subscription.stored(store.snapshot()[left_out..].to_vec()));
            assert!(subscription.stored_done());
            open.push((outbound, registration));
        }
    });
    dispatcher.flush();
    let messages: Vec<_> = events.iter().map(|event| message("s", event)).collect();
    for (outbound, _registration) in open {
        let (mut frames, closing) = sent(&outbound);
        assert_eq!(closing, None);
        let eose_at = frames.iter().position(|frame| *frame == eose("s")).unwrap();
        frames.remove(eose_at);
        assert_eq!(
            frames,
            messages[messages.len() - frames.len()..],
            "no gap, no double, in order"
        );
        assert!(frames.len() >= eose_at);
    }
}
