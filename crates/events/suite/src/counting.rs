//! Counts and snapshots: STORE-C01 and N01. Every query of the suite is counted and snapshot too, by
//! [`World::finds`]; here is what only they have.

use esker_events_api::admission::position;

use crate::{
    Engine,
    events::{ALICE, BOB, note, tagged, untagged},
    world::{World, parse},
};

pub async fn store_c01_a_count_is_the_size_of_the_result<E: Engine>() {
    let world = World::<E>::open().await;
    let count = async |filters: &[&str]| world.count(&parse(filters)).await;
    assert_eq!(count(&["{}"]).await, 0);
    for n in 0..30 {
        world
            .put([
                &tagged(ALICE, n, &[["t", "x"], ["t", "y"]]),
                &untagged(BOB, 7, n, ""),
            ])
            .await;
    }
    for (filters, expected) in [
        (&["{}"][..], 60),
        (&[r#"{"kinds":[7]}"#], 30),
        (&[r##"{"#t":["x","y"]}"##], 30),
        (&[r#"{"&t":["x","y"]}"#], 30),
        (&[r#"{"kinds":[7],"limit":12}"#], 12),
        (&[r#"{"limit":0}"#], 0),
        (&[r#"{"kinds":[7]}"#, "{}"], 60),
        (&[r#"{"kinds":[7],"limit":5}"#, r#"{"kinds":[1,7],"limit":5}"#], 8),
        (&[r#"{"since":10,"until":19}"#], 20),
        (
            &[r#"{"since":10,"until":19}"#, r#"{"until":10}"#, r#"{"kinds":[]}"#],
            40,
        ),
        (&[], 0),
    ] {
        assert_eq!(count(filters).await, expected, "{filters:?}");
    }
}

pub async fn store_c01_no_default_limit_applies_to_a_count<E: Engine>() {
    let world = World::<E>::open().await;
    world
        .store
        .insert_batch((0..2_500).map(|n| untagged(ALICE, 1, n, "")).collect())
        .await;
    assert_eq!(world.count(&parse(&["{}"])).await, 2_500);
    assert_eq!(world.count(&parse(&[r#"{"kinds":[1]}"#])).await, 2_500);
    assert_eq!(
        world.count(&parse(&[r#"{"kinds":[1],"limit":2400}"#])).await,
        2_400
    );
}

pub async fn store_n01_a_snapshot_has_at_most_one_more_than_asked<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..30)
        .map(|n| note(ALICE, 100 - n / 3, &n.to_string()))
        .collect();
    world.put(&all).await;
    let mut positions: Vec<_> = all.iter().map(|event| position(&**event)).collect();
    positions.sort();
    for (filter, whole) in [
        ("{}", 30),
        (r#"{"kinds":[1]}"#, 30),
        (r#"{"limit":12}"#, 12),
        (r#"{"kinds":[2]}"#, 0),
    ] {
        for max in [0, 1, 10, 11, 12, 29, 30, 100, usize::MAX] {
            let snapshot = world
                .store
                .snapshot(parse(&[filter]), max)
                .await
                .expect("a snapshot");
            assert_eq!(
                snapshot,
                positions[..whole.min(max.saturating_add(1))],
                "{filter}, {max}"
            );
        }
    }
    let window = world
        .store
        .snapshot(parse(&[r#"{"since":95,"until":97}"#]), 100)
        .await
        .expect("a snapshot");
    assert_eq!(
        window,
        positions
            .into_iter()
            .filter(|at| (95..=97).contains(&at.created_at))
            .collect::<Vec<_>>()
    );
}
