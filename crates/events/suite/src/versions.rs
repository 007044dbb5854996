//! Which version an address keeps: STORE-W01, W02, W07.

use std::{sync::Barrier, thread};

use esker_events_api::Outcome;
use esker_nostr::EventFields;

use crate::{
    Engine,
    events::{ALICE, BOB, event, id, key, ties, untagged, version},
    world::{NOW, Seen, World, parse},
};

pub async fn store_w01_a_newer_version_replaces_and_an_older_one_loses<E: Engine>() {
    for kind in [0, 3, 10_000, 10_002, 19_999] {
        let world = World::<E>::open().await;
        let [old, middle, new] = [1, 2, 3].map(|at| untagged(ALICE, kind, at, ""));
        let others = [untagged(BOB, kind, 2, ""), untagged(ALICE, 10_001, 2, "")];
        world.put(&others).await;
        world.put([&middle]).await;
        assert_eq!(world.offer(&old).await, Outcome::Replaced);
        world
            .finds(
                &[&format!(r#"{{"kinds":[{kind}],"authors":["{}"]}}"#, key(ALICE))],
                [&middle],
            )
            .await;
        world.put([&new]).await;
        for loser in [&middle, &old] {
            assert_eq!(world.offer(loser).await, Outcome::Replaced);
            assert!(!world.contains(loser).await);
        }
        world
            .finds(
                &[&format!(r#"{{"kinds":[{kind}],"authors":["{}"]}}"#, key(ALICE))],
                [&new],
            )
            .await;
        assert_eq!(world.count(&parse(&["{}"])).await, 3, "the others' stay");
    }
}

pub async fn store_w01_at_the_same_time_the_lower_id_wins_in_any_order<E: Engine>() {
    for kind in [0, 3, 10_002, 30_023] {
        let versions = ties(4, |n| version(ALICE, kind, "d", 100, n));
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let world = World::<E>::open().await;
            let mut lowest = usize::MAX;
            for n in order {
                let expected = if n < lowest {
                    Outcome::Stored
                } else {
                    Outcome::Replaced
                };
                assert_eq!(world.offer(&versions[n]).await, expected);
                lowest = lowest.min(n);
                world.holds([&versions[lowest]]).await;
            }
        }
    }
}

pub async fn store_w01_other_kinds_have_no_versions<E: Engine>() {
    let world = World::<E>::open().await;
    let mut all = Vec::new();
    for kind in [1, 2, 4, 7, 1059, 9_999, 40_000, u16::MAX] {
        all.extend(ties(2, |n| {
            event(ALICE, kind, i64::from(kind), &[["d", "same"]], n)
        }));
    }
    world.put(&all).await;
    all.sort_by_key(|event| esker_events_api::admission::position(&**event));
    world.holds(&all).await;
}

pub async fn store_w01_concurrent_writers_leave_one_version<E: Engine>() {
    const WRITERS: usize = 16;
    let world = World::<E>::open().await;
    // Pairs at the same time, so that both comparisons decide; every writer offers all of them, in its own order.
    let versions: Vec<_> = (0..WRITERS)
        .map(|n| {
            version(
                ALICE,
                30_000,
                "d",
                100 + i64::try_from(n / 2).expect("small"),
                &n.to_string(),
            )
        })
        .collect();
    let best = versions
        .iter()
        .min_by_key(|event| esker_events_api::admission::position(&***event));
    let start = Barrier::new(WRITERS);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                let (store, versions, start) = (&world.store, &versions, &start);
                scope.spawn(move || {
                    start.wait();
                    (0..WRITERS)
                        .map(|step| E::run(store.insert(versions[(n * 5 + step * 7) % WRITERS].clone())))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"))
            .collect()
    });
    world.holds(best).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Stored | Outcome::Replaced | Outcome::Duplicate)),
        "{outcomes:?}"
    );
    let stored = outcomes
        .iter()
        .filter(|outcome| **outcome == Outcome::Stored)
        .count();
    let seen = world.log.wait(2 * stored - 1);
    assert_eq!(
        seen.len(),
        2 * stored - 1,
        "each stored version but the last was removed once: {seen:?}"
    );
}

pub async fn store_w02_versions_share_kind_author_and_d<E: Engine>() {
    let long = "x".repeat(300);
    let almost = format!("{}y", &long[1..]);
    let ds = [
        "a",
        "a-b",
        "a-",
        "",
        "A",
        "a:b",
        "a:b:c",
        ":",
        "wss://host:7777",
        "é",
        "e\u{301}",
        "a\0",
        &long,
        &almost,
    ];
    let world = World::<E>::open().await;
    let mut all = Vec::new();
    for kind in [30_000, 30_023, 39_999] {
        for d in ds {
            all.push(version(ALICE, kind, d, 10, ""));
        }
    }
    all.push(version(BOB, 30_000, "a", 10, ""));
    world.put(&all).await;
    assert_eq!(
        world.count(&parse(&["{}"])).await,
        all.len() as u64,
        "all are distinct"
    );
    for (n, d) in ds.iter().enumerate() {
        let newer = version(ALICE, 30_023, d, 11, "newer");
        assert_eq!(
            world.offer(&version(ALICE, 30_023, d, 9, "older")).await,
            Outcome::Replaced,
            "{d:?}"
        );
        world.put([&newer]).await;
        assert!(!world.contains(&all[ds.len() + n]).await, "{d:?}");
        assert_eq!(
            world.count(&parse(&["{}"])).await,
            all.len() as u64,
            "{d:?} takes nothing else"
        );
    }
}

pub async fn store_w02_no_d_is_the_empty_d_and_the_first_counts<E: Engine>() {
    let world = World::<E>::open().await;
    let steps = [
        untagged(ALICE, 30_000, 1, "no tag"),
        event(ALICE, 30_000, 2, &[["d", ""]], ""),
        event(ALICE, 30_000, 3, &[vec!["d"], vec!["t", "d"]], ""),
        event(ALICE, 30_000, 4, &[vec!["d", "", "a"]], ""),
        event(ALICE, 30_000, 5, &[["d", ""], ["d", "a"]], ""),
    ];
    for step in &steps {
        world.put([step]).await;
        world.holds([step]).await;
    }
    let a = event(ALICE, 30_000, 3, &[["d", "a"], ["d", ""]], "");
    world.put([&a]).await;
    world.holds([&steps[4], &a]).await;
}

pub async fn store_w07_superseding_takes_everything_with_it<E: Engine>() {
    let world = World::<E>::open().await;
    let soon = (NOW + 10).to_string();
    let old = event(
        ALICE,
        30_000,
        1,
        &[["d", "a"], ["t", "x"], ["expiration", &soon]],
        "old",
    );
    let new = event(ALICE, 30_000, 2, &[["d", "a"], ["t", "y"]], "new");
    world.put([&old, &new]).await;
    let (alice, gone) = (key(ALICE), id(&old));
    for filter in [
        "{}",
        r#"{"kinds":[30000]}"#,
        r##"{"#t":["x","y"]}"##,
        r##"{"#d":["a"]}"##,
        r#"{"&d":["a"]}"#,
        r#"{"since":0}"#,
        &format!(r#"{{"authors":["{alice}"]}}"#),
        &format!(r#"{{"authors":["{alice}"],"kinds":[30000],"limit":9}}"#),
    ] {
        world.finds(&[filter], [&new]).await;
    }
    world.finds(&[r##"{"#t":["x"]}"##], []).await;
    world.finds(&[&format!(r#"{{"ids":["{gone}"]}}"#)], []).await;
    assert!(!world.contains(&old).await);
    world.clock.set(NOW + 10);
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 0);
    world.holds([&new]).await;
    let seen = world.log.wait(3);
    assert!(
        matches!(
            seen[..],
            [Seen::Accepted(first, Some(_)), Seen::Removed(gone), Seen::Accepted(second, Some(_))]
                if first == old.id() && gone == old.id() && second == new.id()
        ),
        "{seen:?}"
    );
}
