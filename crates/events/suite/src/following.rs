//! Pages and observers, and how they fit together: STORE-F07, W11 and what live delivery stands on.

use std::{
    collections::HashSet,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use esker_events_api::{EventStore, Page, PageLimits, Query};
use esker_nostr::{Event, EventFields, EventId};

use crate::{
    Engine,
    events::{ALICE, BOB, deletion, event, note, tagged, untagged, vanish, version},
    naive,
    world::{Log, Seen, World, parse},
};

/// Pages of so many events.
fn of(events: usize) -> PageLimits {
    PageLimits {
        events,
        ..PageLimits::default()
    }
}

async fn page(store: &Arc<dyn EventStore>, query: Query) -> Page {
    store.page(query).await.expect("a page")
}

/// The rest of a query's result.
async fn rest(store: &Arc<dyn EventStore>, mut next: Option<Query>) -> Vec<EventId> {
    let mut ids = Vec::new();
    while let Some(query) = next {
        let page = page(store, query).await;
        ids.extend(page.events.iter().map(|json| naive::id(json)));
        next = page.next;
    }
    ids
}

fn ids<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Vec<EventId> {
    events.into_iter().map(|event| event.id()).collect()
}

pub async fn store_f08_every_page_size_gives_the_same_result<E: Engine>() {
    let world = World::<E>::open().await;
    let mut all: Vec<_> = (0..60)
        .map(|n: usize| {
            let at = i64::try_from(n / 7).expect("small");
            event(
                n % 5,
                [1, 7, 6][n % 3],
                at,
                &[["t", ["x", "y"][n % 2]]],
                &n.to_string(),
            )
        })
        .collect();
    world.put(&all).await;
    all.sort_by_key(|event| esker_events_api::admission::position(&**event));
    for filters in [
        &["{}"][..],
        &[r#"{"kinds":[1,7]}"#],
        &[r##"{"#t":["x","y"],"limit":33}"##],
        &[r#"{"&t":["x"]}"#],
        &[
            r#"{"kinds":[1],"limit":9}"#,
            r##"{"#t":["x"],"limit":11}"##,
            r#"{"since":3,"until":5}"#,
        ],
    ] {
        let filters = parse(filters);
        let whole = world.store.query(filters.clone()).await.expect("query");
        assert!(!whole.is_empty());
        for size in 1..=whole.len() + 1 {
            assert_eq!(world.paged(&filters, of(size)).await, whole, "pages of {size}");
        }
        for bytes in [0, 1, 300, 1_000, 5_000] {
            assert_eq!(
                world.paged(&filters, PageLimits { bytes, ..of(500) }).await,
                whole,
                "pages of {bytes} bytes"
            );
        }
        let hasty = PageLimits {
            time: Duration::from_nanos(1),
            ..of(500)
        };
        assert_eq!(world.paged(&filters, hasty).await, whole, "pages of no time");
    }
}

pub async fn store_f07_limits_run_across_pages<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..20)
        .map(|n| untagged(ALICE, [1, 7][n % 2], 100 - i64::try_from(n).expect("small"), ""))
        .collect();
    world.put(&all).await;
    let filters = parse(&[
        r#"{"kinds":[1],"limit":4}"#,
        r#"{"limit":3}"#,
        r#"{"kinds":[7],"limit":6}"#,
    ]);
    let expected = ids(all.iter().take(8).chain([&all[9], &all[11]]));
    assert_eq!(
        rest(&world.store, Some(Query::new(filters.clone()))).await,
        expected
    );
    for size in 1..=11 {
        let query = Query::new(filters.clone()).with_limits(of(size));
        assert_eq!(rest(&world.store, Some(query)).await, expected, "pages of {size}");
    }
}

pub async fn store_f07_what_comes_between_pages_is_left_to_the_observer<E: Engine>() {
    let world = World::<E>::open().await;
    let before: Vec<_> = (0..10)
        .map(|n| tagged(ALICE, 100 - n * 10, &[["t", "x"]]))
        .collect();
    world.put(&before).await;
    let mut told = before.len();
    for filter in ["{}", r#"{"kinds":[1]}"#, r##"{"#t":["x","y"],"limit":500}"##] {
        let first = page(&world.store, Query::new(parse(&[filter])).with_limits(of(3))).await;
        // Newer than the page, within what is still to come, and older than all.
        let between: Vec<_> = [500, 75, 45, 15, -5]
            .map(|at| event(BOB, 1, at, &[["t", "x"]], filter))
            .into_iter()
            .collect();
        world.put(&between).await;
        let mut found: Vec<_> = first.events.iter().map(|json| naive::id(json)).collect();
        found.extend(rest(&world.store, first.next).await);
        assert_eq!(found, ids(&before), "{filter}");
        told += between.len();
        let seen = world.log.wait(told);
        let later: HashSet<_> = seen
            .into_iter()
            .filter_map(|seen| match seen {
                Seen::Accepted(id, Some(offset)) if offset > first.as_of => Some(id),
                _ => None,
            })
            .collect();
        assert!(ids(&between).iter().all(|id| later.contains(id)), "{filter}");
        assert!(ids(&before).iter().all(|id| !later.contains(id)), "{filter}");
        for event in &between {
            assert!(world.store.delete_id(event.id()).await.expect("an answer"));
        }
        told += between.len();
    }
}

pub async fn store_f07_what_is_removed_between_pages_is_not_returned<E: Engine>() {
    let world = World::<E>::open().await;
    let mut all: Vec<_> = (0..10).map(|n| note(ALICE, 100 - n, "")).collect();
    all.push(version(BOB, 30_000, "d", 1, ""));
    world.put(&all).await;
    let first = page(
        &world.store,
        Query::new(parse(&[r#"{"limit":8}"#, r#"{"kinds":[30000]}"#])).with_limits(of(2)),
    )
    .await;
    assert_eq!(first.events.len(), 2);
    world
        .put([
            &deletion(ALICE, 200, &[&all[1], &all[3]]),
            &version(BOB, 30_000, "d", 2, "newer"),
        ])
        .await;
    world.store.delete_id(all[4].id()).await.expect("an answer");
    let found = rest(&world.store, first.next).await;
    // The limit counts what was returned: the place of the removed goes to who comes next.
    assert_eq!(found, ids([&all[2], &all[5], &all[6], &all[7], &all[8], &all[9]]));
}

pub async fn store_w11_observers_see_every_change_in_commit_order<E: Engine>() {
    let world = World::<E>::open().await;
    let [old, new] = [1, 2].map(|at| version(ALICE, 30_000, "d", at, ""));
    let (a, b) = (note(ALICE, 3, "a"), note(ALICE, 4, "b"));
    let ephemeral = untagged(ALICE, 20_000, 5, "");
    let delete = deletion(ALICE, 9, &[&a, &new]);
    let gone = vanish(ALICE, 9, &["ALL_RELAYS"]);
    world.put([&old, &new, &a, &b]).await;
    world.offer(&ephemeral).await;
    world.offer(&old).await;
    world.put([&delete]).await;
    world.put([&gone]).await;
    world.store.delete_id(gone.id()).await.expect("an answer");
    world.delete(&[r#"{"kinds":[5]}"#]).await;
    let seen = world.log.wait(13);
    let told = |seen: &[Seen]| {
        let mut told: Vec<_> = seen
            .iter()
            .map(|seen| match seen {
                Seen::Accepted(id, offset) => (*id, offset.is_some(), false),
                Seen::Removed(id) => (*id, false, true),
            })
            .collect();
        told.sort();
        told
    };
    let (accepted, removed) = (
        |event: &Event| (event.id(), true, false),
        |event: &Event| (event.id(), false, true),
    );
    let mut at = 0;
    // What one step changes comes together; what it removes is in no particular order, and before what it adds.
    for step in [
        vec![accepted(&old)],
        vec![removed(&old)],
        vec![accepted(&new)],
        vec![accepted(&a)],
        vec![accepted(&b)],
        vec![(ephemeral.id(), false, false)],
        vec![removed(&a), removed(&new)],
        vec![accepted(&delete)],
        vec![removed(&b)],
        vec![accepted(&gone)],
        vec![removed(&gone)],
        vec![removed(&delete)],
    ] {
        let mut step = step;
        step.sort();
        assert_eq!(
            told(&seen[at..(at + step.len()).min(seen.len())]),
            step,
            "{seen:?}"
        );
        at += step.len();
    }
    assert_eq!(seen.len(), at, "nothing else: {seen:?}");
    let offsets: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Accepted(_, offset) => *offset,
            Seen::Removed(_) => None,
        })
        .collect();
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
}

pub async fn store_w11_offsets_are_never_reused<E: Engine>() {
    let mut world = World::<E>::open().await;
    let mut last = i64::MIN;
    for n in 0..3 {
        let note = note(ALICE, n, "");
        world.put([&note]).await;
        let seen = world.log.wait(1);
        let Some(Seen::Accepted(_, Some(offset))) = seen.last() else {
            panic!("{seen:?}")
        };
        assert!(*offset > last, "{offset} after {last}");
        last = *offset;
        // The newest goes, and its offset with it.
        world.store.delete_id(note.id()).await.expect("an answer");
        let page = page(&world.store, Query::new(parse(&["{}"]))).await;
        assert!(page.as_of >= last, "{} before {last}", page.as_of);
        world = world.reopen().await;
    }
}

pub async fn store_w11_all_observers_see_the_same<E: Engine>() {
    let world = World::<E>::open().await;
    let second = Log::of(&world.store);
    world
        .put([
            &note(ALICE, 1, ""),
            &untagged(ALICE, 0, 1, ""),
            &untagged(ALICE, 0, 2, ""),
        ])
        .await;
    let late = Log::of(&world.store);
    world.put([&note(ALICE, 2, "")]).await;
    let all = world.log.wait(5);
    assert_eq!(second.wait(5), all);
    assert_eq!(late.wait(1), all[4..], "a late one sees what comes after it");
}

pub async fn store_w11_stored_and_live_parts_have_no_gap_and_no_overlap<E: Engine>() {
    const WRITERS: usize = 4;
    const EACH: i64 = 60;
    let world = World::<E>::open().await;
    let writing = AtomicBool::new(true);
    let start = Barrier::new(WRITERS + 1);
    let answers: Vec<(i64, Vec<EventId>)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, start) = (&world.store, &start);
                scope.spawn(move || {
                    start.wait();
                    for n in 0..EACH {
                        // All times, so that new events fall before and after what a query has read.
                        E::run(store.insert(tagged(writer, (n * 37) % 50, &[["t", &n.to_string()]])));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            start.wait();
            let mut answers = Vec::new();
            while writing.load(Ordering::Acquire) || answers.is_empty() {
                E::run(async {
                    let first = page(&world.store, Query::new(parse(&["{}"])).with_limits(of(7))).await;
                    let mut found: Vec<_> = first.events.iter().map(|json| naive::id(json)).collect();
                    found.extend(rest(&world.store, first.next).await);
                    answers.push((first.as_of, found));
                });
            }
            answers
        });
        for writer in writers {
            writer.join().expect("a writer");
        }
        writing.store(false, Ordering::Release);
        reader.join().expect("the reader")
    });
    let total = WRITERS * usize::try_from(EACH).expect("small");
    let seen = world.log.wait(total);
    assert_eq!(seen.len(), total);
    let accepted: Vec<(EventId, i64)> = seen
        .iter()
        .map(|seen| match seen {
            Seen::Accepted(id, Some(offset)) => (*id, *offset),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        accepted.is_sorted_by(|a, b| a.1 < b.1),
        "offsets are told in commit order"
    );
    for (as_of, found) in answers {
        let stored: HashSet<_> = found.iter().copied().collect();
        assert_eq!(stored.len(), found.len(), "each event once");
        let expected: HashSet<_> = accepted
            .iter()
            .filter(|(_, offset)| *offset <= as_of)
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(
            stored, expected,
            "what is not in the answer of offset {as_of} is told later"
        );
    }
}
