//! Observers in the process: inserts and removals, in order and without gaps (LIVE-15).

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use esker_events_api::{Accepted, Change};
use esker_live::{Dispatcher, Ended, Observation, Observed, Options};
use esker_nostr::{Canonical, Event, EventFields};

use crate::support::{Kept, all, change, event, kind_event, kinds, now};

fn dispatcher() -> Dispatcher {
    Dispatcher::start(&Options::default()).unwrap()
}

fn removed(event: &Event) -> Change {
    Change::Removed(event.json().clone())
}

/// What is there, as `+offset` and `-id`, and whether the end was reached.
fn received(observation: &mut Observation) -> (Vec<String>, bool) {
    let mut all = Vec::new();
    loop {
        match now(observation.recv()) {
            None => return (all, false),
            Some(None) => return (all, true),
            Some(Some(Observed::Inserted(accepted))) => all.push(format!("+{:?}", accepted.offset)),
            Some(Some(Observed::Removed(json))) => all.push(format!("-{}", Canonical::new(&json).id())),
        }
    }
}

#[test]
fn live_15_an_observer_gets_matching_inserts_and_removals_in_order() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let mut observation = dispatcher.observe(kinds(&[1, 30_023]), 100);
    let (note, article, reaction) = (event(1), kind_event(30_023, 2), kind_event(7, 3));
    observer(&[change(1, &note), removed(&article), change(2, &article)]);
    observer(&[removed(&reaction), change(3, &reaction), removed(&note)]);
    dispatcher.flush();
    let wanted = [
        "+Some(1)".into(),
        format!("-{}", article.id()),
        "+Some(2)".into(),
        format!("-{}", note.id()),
    ];
    assert_eq!(received(&mut observation), (wanted.into(), false));
    assert_eq!(observation.ended(), None);
    drop(dispatcher);
    assert_eq!(received(&mut observation), (Vec::new(), true));
    assert_eq!(observation.ended(), Some(Ended::Stopped));
}

#[test]
fn live_15_a_view_kept_by_inserts_and_removals_equals_the_store() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let events: Vec<_> = (0..20).map(event).collect();
    let mut store = BTreeSet::new();
    let step = |n: usize, store: &mut BTreeSet<_>| {
        let event = &events[(n * 7) % events.len()];
        if store.remove(&event.id()) {
            observer(&[removed(event)]);
        } else {
            store.insert(event.id());
            observer(&[change(i64::try_from(n).unwrap(), event)]);
        }
    };
    (0..30).for_each(|n| step(n, &mut store));
    let mut observation = dispatcher.observe(all(), 1000);
    // Changes between the observation and the query are in both.
    (30..57).for_each(|n| step(n, &mut store));
    let mut view = store.clone();
    (57..100).for_each(|n| step(n, &mut store));
    dispatcher.flush();
    while let Some(Some(observed)) = now(observation.recv()) {
        match observed {
            Observed::Inserted(accepted) => view.insert(accepted.event.id()),
            Observed::Removed(json) => view.remove(&Canonical::new(&json).id()),
        };
    }
    assert_eq!(view, store);
}

#[test]
fn live_15_one_that_does_not_keep_up_is_ended_and_harms_nobody() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    let (mut slow, mut quick) = (dispatcher.observe(all(), 3), dispatcher.observe(all(), 100));
    let kept = Arc::new(Kept::default());
    let _kept = dispatcher.register(all(), Arc::clone(&kept) as _);
    (1..=10).for_each(|offset| observer(&[change(offset, &event(1))]));
    observer(&[removed(&event(1))]);
    dispatcher.flush();
    let gapless = ["+Some(1)", "+Some(2)", "+Some(3)"].map(String::from);
    assert_eq!(
        received(&mut slow),
        (gapless.into(), true),
        "what it has is without a gap"
    );
    assert_eq!(slow.ended(), Some(Ended::Lagged));
    assert_eq!(received(&mut quick).0.len(), 11);
    assert_eq!(kept.offsets().len(), 10);
    assert_eq!(dispatcher.counters().lagged.load(Ordering::Relaxed), 1);
    let candidates = dispatcher.counters().candidates.load(Ordering::Relaxed);
    observer(&[change(11, &event(1))]);
    dispatcher.flush();
    assert_eq!(
        dispatcher.counters().candidates.load(Ordering::Relaxed),
        candidates + 2,
        "it is not asked again"
    );
}

#[test]
fn live_15_one_that_lags_by_a_removal_is_ended_too() {
    let dispatcher = dispatcher();
    let mut slow = dispatcher.observe(all(), 1);
    dispatcher.observer()(&[removed(&event(1)), removed(&event(2))]);
    dispatcher.flush();
    let (changes, end) = received(&mut slow);
    assert_eq!((changes.len(), end, slow.ended()), (1, true, Some(Ended::Lagged)));
}

#[test]
fn live_15_a_dropped_observation_is_forgotten() {
    let dispatcher = dispatcher();
    let observer = dispatcher.observer();
    drop(dispatcher.observe(all(), 0));
    observer(&[change(1, &event(1)), removed(&event(1))]);
    dispatcher.flush();
    let counters = dispatcher.counters();
    assert_eq!(counters.events.load(Ordering::Relaxed), 1);
    assert_eq!(counters.candidates.load(Ordering::Relaxed), 0);
    assert_eq!(counters.lagged.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn live_15_waiting_for_a_change_ends_when_one_comes() {
    let dispatcher = dispatcher();
    let mut observation = dispatcher.observe(all(), 1);
    let observer = dispatcher.observer();
    let waiting = tokio::spawn(async move { observation.recv().await });
    let ephemeral = Change::Accepted(Accepted {
        offset: None,
        event: event(1),
    });
    observer(&[ephemeral]);
    assert!(matches!(
        waiting.await,
        Ok(Some(Observed::Inserted(Accepted { offset: None, .. })))
    ));
}
