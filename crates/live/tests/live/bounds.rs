//! Readers that stop reading, and a dispatcher that is behind: what is bounded, and who pays (LIVE-12).

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

use esker_live::{Dispatcher, Options, Outbound, OutboundLimits, Sink, Subscription};

use crate::support::{Kept, all, brake, change, event, kind_event, kinds, sent};

#[test]
fn live_12_a_reader_that_stops_reading_closes_itself_alone() {
    let dispatcher = Dispatcher::start(&Options::default()).unwrap();
    let observer = dispatcher.observer();
    let limits = OutboundLimits {
        bytes: 1 << 20,
        frames: 100,
    };
    let connection = || Arc::new(Outbound::new(limits).counting(Arc::clone(dispatcher.counters())));
    let (stuck, reading) = (connection(), connection());
    let subscriptions = [&stuck, &stuck, &reading].map(|outbound| {
        let subscription = Arc::new(Subscription::new("s", Arc::clone(outbound)));
        subscription.stored_done();
        subscription
    });
    let _registrations = subscriptions
        .each_ref()
        .map(|subscription| dispatcher.register(all(), Arc::clone(subscription) as Arc<dyn Sink>));
    let events: Vec<_> = (0..10).map(event).collect();
    let mut read = 0;
    let mut most = 0;
    for offset in 1..=10_000 {
        observer(&[change(offset, &events[usize::try_from(offset % 10).unwrap()])]);
        if offset % 50 == 0 {
            dispatcher.flush();
            most = most.max(stuck.len());
            let (frames, closing) = sent(&reading);
            assert_eq!(closing, None);
            read += frames.len();
        }
    }
    assert_eq!(read, 10_001, "the other reader got all, and its EOSE");
    assert!(most <= limits.frames, "{most}");
    assert_eq!(
        dispatcher.counters().overflows.load(Ordering::Relaxed),
        1,
        "once for the connection"
    );
    let (frames, closing) = sent(&stuck);
    assert!(frames.is_empty());
    assert_eq!(closing.unwrap().code, 1008);
    assert!(subscriptions[0].is_cancelled() && subscriptions[1].is_cancelled());
    drop(dispatcher);
    assert!(
        events.into_iter().all(|event| Arc::strong_count(&event) == 1),
        "nothing is kept"
    );
}

#[test]
fn live_12_what_a_query_holds_back_is_bounded_with_its_connection() {
    let outbound = Arc::new(Outbound::new(OutboundLimits {
        bytes: 1 << 20,
        frames: 50,
    }));
    let slow = Subscription::new("slow", Arc::clone(&outbound));
    let other = Subscription::new("other", Arc::clone(&outbound));
    let event = event(1);
    let deliver = |subscription: &Subscription, offset| {
        subscription.deliver(&esker_events_api::Accepted {
            offset: Some(offset),
            event: Arc::clone(&event),
        });
    };
    // What turns out to be the query's, what is cancelled and what is dropped gives its place back.
    for round in 0..20 {
        let cancelled = Subscription::new("cancelled", Arc::clone(&outbound));
        (0..40).for_each(|offset| deliver(&cancelled, offset));
        match round % 3 {
            0 => cancelled.cancel(),
            1 => drop(cancelled),
            _ => {
                let stored = (0..5).map(|offset| (offset, event.json().clone()));
                assert!(cancelled.stored(stored) && cancelled.stored_done());
                sent(&outbound);
            }
        }
    }
    (0..25).for_each(|offset| deliver(&slow, offset));
    (0..25).for_each(|offset| deliver(&other, offset));
    assert!(!outbound.is_closed());
    assert_eq!(outbound.len(), 0);
    deliver(&slow, 26);
    assert!(outbound.is_closed());
    assert!(!other.stored([]), "its query ends");
    assert!(!other.stored_done() && !slow.stored_done());
    drop((slow, other));
    assert_eq!(Arc::strong_count(&event), 1);
    let (frames, closing) = sent(&outbound);
    assert!(frames.is_empty() && closing.is_some());
}

#[test]
fn live_12_held_events_that_are_released_at_eose_keep_their_places() {
    let limits = OutboundLimits {
        bytes: 1 << 20,
        frames: 4,
    };
    let outbound = Arc::new(Outbound::new(limits));
    let subscription = Subscription::new("s", Arc::clone(&outbound));
    for offset in 1..4 {
        subscription.deliver(&esker_events_api::Accepted {
            offset: Some(offset),
            event: event(1),
        });
    }
    assert!(subscription.stored_done());
    assert_eq!(outbound.len(), 4, "three, and EOSE");
    assert!(!outbound.is_closed());
}

#[test]
fn live_12_a_writer_that_is_ahead_of_the_dispatcher_waits_and_loses_nothing() {
    let event = event(1);
    let weight = 256 + event.json().len();
    let dispatcher = Dispatcher::start(&Options {
        backlog_bytes: 3 * weight,
    })
    .unwrap();
    let observer = dispatcher.observer();
    let (brake, pedal) = brake();
    let _brake = dispatcher.register(kinds(&[7]), brake);
    let kept = Arc::new(Kept::default());
    let _kept = dispatcher.register(kinds(&[1]), Arc::clone(&kept) as Arc<dyn Sink>);
    observer(&[change(0, &kind_event(7, 1))]);
    pedal.arrived.recv().unwrap();
    let waits = || dispatcher.counters().waits.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let writer = scope.spawn(|| (1..=7).for_each(|offset| observer(&[change(offset, &event)])));
        while waits() == 0 {
            assert!(!writer.is_finished(), "the fourth waits");
            thread::yield_now();
        }
        // Registering does not.
        drop(dispatcher.register(all(), Arc::new(Kept::default())));
        pedal.go_on.send(()).unwrap();
    });
    dispatcher.flush();
    assert_eq!(kept.offsets(), (1..=7).map(Some).collect::<Vec<_>>());
    assert!(waits() >= 1);
}

#[test]
fn live_12_a_commit_larger_than_the_backlog_passes_alone() {
    let dispatcher = Dispatcher::start(&Options { backlog_bytes: 1 }).unwrap();
    let kept = Arc::new(Kept::default());
    let _kept = dispatcher.register(all(), Arc::clone(&kept) as Arc<dyn Sink>);
    let observer = dispatcher.observer();
    for offset in 0..100 {
        observer(&[change(2 * offset, &event(1)), change(2 * offset + 1, &event(2))]);
    }
    dispatcher.flush();
    assert_eq!(kept.offsets().len(), 200);
}
