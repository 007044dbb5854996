//! Who gets an event, in which order, and what happens to those who misbehave or leave.

use std::sync::{Arc, atomic::Ordering};

use esker_events_api::{Accepted, Change};
use esker_live::{Dispatcher, Options, Sink, Subscription};
use esker_nostr::{EventFields, Filter, Keys};

use crate::support::{
    Kept, accepted, all, brake, change, event, kind_event, kinds, message, now, outbound, sent,
};

fn dispatcher() -> Dispatcher {
    Dispatcher::start(&Options::default()).unwrap()
}

fn live(subscription: &str) -> Arc<Subscription> {
    let subscription = Arc::new(Subscription::new(subscription, outbound()));
    assert!(subscription.stored_done());
    sent(subscription.outbound());
    subscription
}

#[test]
fn live_11_delivery_is_in_commit_order_whatever_the_batches() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let kept = Arc::new(Kept::default());
    let _registration = dispatcher.register(all(), Arc::clone(&kept) as Arc<dyn Sink>);
    let events: Vec<_> = (0..10).map(event).collect();
    let changes: Vec<_> = (0..1000)
        .map(|n| change(n, &events[usize::try_from(n % 10).unwrap()]))
        .collect();
    let mut rest = &changes[..];
    for size in (1..50).cycle() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        observer(batch);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    dispatcher.flush();
    assert_eq!(kept.offsets(), (0..1000).map(Some).collect::<Vec<_>>());
    assert_eq!(dispatcher.counters().events.load(Ordering::Relaxed), 1000);
}

#[test]
fn live_11_all_receivers_share_the_events_bytes() {
    let dispatcher = dispatcher();
    let subscriptions = ["a", "b"].map(live);
    let _registrations = subscriptions
        .each_ref()
        .map(|subscription| dispatcher.register(all(), Arc::clone(subscription) as Arc<dyn Sink>));
    let event = event(1);
    dispatcher.observer()(&[change(1, &event)]);
    dispatcher.flush();
    for subscription in &subscriptions {
        let mut frames = Vec::new();
        now(subscription.outbound().next(&mut frames, 1))
            .unwrap()
            .unwrap();
        assert_eq!(frames[0].parts()[1].as_ptr(), event.json().as_ptr());
        let text = String::from_utf8(frames[0].parts().concat()).unwrap();
        assert_eq!(text, message(subscription.id(), &event));
    }
}

#[test]
fn live_03_only_what_a_filter_matches_is_delivered_and_once() {
    let dispatcher = dispatcher();
    let kept = Arc::new(Kept::default());
    let author = Filter {
        authors: Some([Keys::from_seed(1).public()].into_iter().collect()),
        since: Some(5),
        ..Filter::default()
    };
    let filters = [author, kinds(&[7])[0].clone()];
    let _registration = dispatcher.register(filters.into(), Arc::clone(&kept) as Arc<dyn Sink>);
    let observer = dispatcher.observer();
    // By time, by both filters, by kind alone, by none.
    observer(&[
        change(1, &event(5)),
        change(2, &kind_event(7, 6)),
        change(3, &kind_event(7, 1)),
        change(4, &event(4)),
    ]);
    dispatcher.flush();
    assert_eq!(kept.offsets(), [Some(1), Some(2), Some(3)]);
    let counters = dispatcher.counters();
    let read = [
        &counters.events,
        &counters.candidates,
        &counters.matches,
        &counters.deliveries,
    ]
    .map(|counter| counter.load(Ordering::Relaxed));
    assert_eq!(read, [4, 4, 3, 3]);
}

#[test]
fn live_03_no_filters_and_filters_that_match_nothing_get_nothing() {
    let dispatcher = dispatcher();
    let kept = Arc::new(Kept::default());
    let nothing = Filter {
        kinds: Some([].into_iter().collect()),
        ..Filter::default()
    };
    let _none = dispatcher.register([].into(), Arc::clone(&kept) as Arc<dyn Sink>);
    let _nothing = dispatcher.register([nothing].into(), Arc::clone(&kept) as Arc<dyn Sink>);
    dispatcher.observer()(&[change(1, &event(1))]);
    dispatcher.flush();
    assert!(kept.offsets().is_empty());
    assert_eq!(dispatcher.counters().candidates.load(Ordering::Relaxed), 0);
}

#[test]
fn relay_05_a_search_that_constrains_gets_no_live_events() {
    let dispatcher = dispatcher();
    let search = |search: &str| Filter {
        search: Some(search.into()),
        ..Filter::default()
    };
    let (constrained, extension, beside) = (
        <Arc<Kept>>::default(),
        <Arc<Kept>>::default(),
        <Arc<Kept>>::default(),
    );
    let _registrations = [
        dispatcher.register(
            [search("best apps")].into(),
            Arc::clone(&constrained) as Arc<dyn Sink>,
        ),
        dispatcher.register(
            [search("include:spam")].into(),
            Arc::clone(&extension) as Arc<dyn Sink>,
        ),
        dispatcher.register(
            [search("best"), kinds(&[7])[0].clone()].into(),
            Arc::clone(&beside) as Arc<dyn Sink>,
        ),
    ];
    dispatcher.observer()(&[change(1, &event(1)), change(2, &kind_event(7, 2))]);
    dispatcher.flush();
    assert!(constrained.offsets().is_empty());
    assert_eq!(extension.offsets(), [Some(1), Some(2)]);
    assert_eq!(beside.offsets(), [Some(2)]);
}

#[test]
fn live_10_a_registration_is_in_force_for_each_later_commit_and_for_none_before() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let (brake, pedal) = brake();
    let _brake = dispatcher.register(kinds(&[7]), brake);
    observer(&[change(1, &kind_event(7, 1))]);
    pedal.arrived.recv().unwrap();
    // The dispatcher stands; commits and registrations alternate behind it.
    let mut kept = Vec::new();
    for offset in 2..6 {
        let sink = Arc::new(Kept::default());
        kept.push((
            dispatcher.register(all(), Arc::clone(&sink) as Arc<dyn Sink>),
            sink,
        ));
        observer(&[change(offset, &event(2))]);
    }
    // Leaving is a step in the same queue.
    let (registration, first) = kept.remove(0);
    drop(registration);
    observer(&[change(6, &event(2))]);
    pedal.go_on.send(()).unwrap();
    dispatcher.flush();
    assert_eq!(first.offsets(), [2, 3, 4, 5].map(Some));
    assert_eq!(kept[0].1.offsets(), [3, 4, 5, 6].map(Some));
    assert_eq!(kept[2].1.offsets(), [5, 6].map(Some));
}

#[test]
fn live_05_a_place_is_used_again_without_mixing_up_who_had_it() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    for round in 1..200 {
        let (one, two) = (<Arc<Kept>>::default(), <Arc<Kept>>::default());
        let first = dispatcher.register(kinds(&[1]), Arc::clone(&one) as Arc<dyn Sink>);
        let second = dispatcher.register(kinds(&[1]), Arc::clone(&two) as Arc<dyn Sink>);
        drop(first);
        observer(&[change(round, &event(1))]);
        drop(second);
        if round % 3 == 0 {
            dispatcher.flush();
            assert_eq!((one.offsets(), two.offsets()), (vec![], vec![Some(round)]));
            assert_eq!(
                (Arc::strong_count(&one), Arc::strong_count(&two)),
                (1, 1),
                "sinks are let go"
            );
        }
    }
}

struct Panics;

impl Sink for Panics {
    fn deliver(&self, _: &Accepted) {
        panic!("a sink that panics, on purpose");
    }
}

#[test]
fn live_12_a_sink_that_panics_is_dropped_and_counted_and_harms_nobody() {
    let dispatcher = dispatcher();
    let kept = Arc::new(Kept::default());
    let panics: Arc<dyn Sink> = Arc::new(Panics);
    let before = dispatcher.register(all(), Arc::clone(&panics));
    let _kept = dispatcher.register(all(), Arc::clone(&kept) as Arc<dyn Sink>);
    dispatcher.observer()(&[change(1, &event(1)), change(2, &event(2))]);
    dispatcher.flush();
    assert_eq!(kept.offsets(), [Some(1), Some(2)]);
    assert_eq!(dispatcher.counters().panics.load(Ordering::Relaxed), 1);
    assert_eq!(Arc::strong_count(&panics), 1);
    // Its registration is dropped late, and its place goes to another.
    drop(before);
    dispatcher.flush();
    let next = Arc::new(Kept::default());
    let _next = dispatcher.register(all(), Arc::clone(&next) as Arc<dyn Sink>);
    dispatcher.observer()(&[change(3, &event(3))]);
    dispatcher.flush();
    assert_eq!(next.offsets(), [Some(3)]);
}

/// A sink that registers another from within a delivery, and drops its own registration.
struct Restless {
    dispatcher: Arc<Dispatcher>,
    inner: std::sync::Mutex<Vec<esker_live::Registration>>,
}

impl Sink for Restless {
    fn deliver(&self, _: &Accepted) {
        let registration = self.dispatcher.register(all(), Arc::new(Kept::default()));
        self.inner.lock().unwrap().push(registration);
    }
}

#[test]
fn live_04_a_sink_may_register_and_unregister_while_it_is_called() {
    let dispatcher = Arc::new(dispatcher());
    let restless = Arc::new(Restless {
        dispatcher: Arc::clone(&dispatcher),
        inner: std::sync::Mutex::default(),
    });
    let own = dispatcher.register(kinds(&[1]), Arc::clone(&restless) as Arc<dyn Sink>);
    dispatcher.observer()(&[change(1, &event(1)), change(2, &event(2))]);
    dispatcher.flush();
    assert_eq!(restless.inner.lock().unwrap().len(), 2);
    drop(own);
    restless.inner.lock().unwrap().clear();
    drop(restless);
    dispatcher.flush();
    dispatcher.observer()(&[change(3, &event(1))]);
    dispatcher.flush();
    assert_eq!(dispatcher.counters().candidates.load(Ordering::Relaxed), 2);
}

#[test]
fn live_11_after_the_dispatcher_commits_and_registrations_are_nobodys() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let kept = Arc::new(Kept::default());
    let registration = dispatcher.register(all(), Arc::clone(&kept) as Arc<dyn Sink>);
    observer(&[change(1, &event(1))]);
    drop(dispatcher);
    assert_eq!(kept.offsets(), [Some(1)]);
    assert_eq!(Arc::strong_count(&kept), 1, "sinks are let go");
    observer(&[change(2, &event(2)), Change::Removed(event(2).json().clone())]);
    drop(registration);
    assert_eq!(kept.offsets(), [Some(1)]);
}

#[test]
fn live_10_an_ephemeral_event_has_no_offset_and_is_always_live() {
    let dispatcher = dispatcher();
    let subscription = live("s");
    let _registration = dispatcher.register(kinds(&[20_001]), Arc::clone(&subscription) as Arc<dyn Sink>);
    let ephemeral = kind_event(20_001, 1);
    let change = Change::Accepted(Accepted {
        offset: None,
        event: Arc::clone(&ephemeral),
    });
    dispatcher.observer()(&[change]);
    dispatcher.flush();
    assert_eq!(sent(subscription.outbound()).0, [message("s", &ephemeral)]);
    assert_eq!(accepted(1, &ephemeral).event.kind(), 20_001);
}
