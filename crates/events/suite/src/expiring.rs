//! What expiration does, on arrival, until the sweep and at it: STORE-W04, W05.

use esker_events_api::{Outcome, Rejection};
use esker_nostr::EventFields;

use crate::{
    Engine,
    events::{ALICE, BOB, event, expiring, id, key, note, version},
    world::{NOW, Seen, World},
};

const EXPIRED: Outcome = Outcome::Rejected(Rejection::Expired);

pub async fn store_w04_an_event_that_has_expired_on_arrival_is_rejected<E: Engine>() {
    let world = World::<E>::open().await;
    for late in [NOW, NOW - 1, 1, 0, -1] {
        let event = expiring(ALICE, NOW, &late.to_string());
        assert_eq!(world.offer(&event).await, EXPIRED, "{late}");
        assert!(!world.contains(&event).await);
    }
    let kept = [
        expiring(ALICE, 9, &(NOW + 1).to_string()),
        // Beyond 32 bits, in milliseconds, beyond 64 bits.
        expiring(ALICE, 8, "4294967296"),
        expiring(ALICE, 7, &(NOW * 1000).to_string()),
        expiring(ALICE, 6, "9223372036854775808"),
        // No integer, no expiration.
        expiring(ALICE, 5, "soon"),
        expiring(ALICE, 4, ""),
        expiring(ALICE, 3, "1.5"),
    ];
    world.put(&kept).await;
    world.holds(&kept).await;
    world.clock.set(NOW + 1);
    assert_eq!(
        world.offer(&kept[0]).await,
        EXPIRED,
        "expired comes before duplicate"
    );
    assert_eq!(world.offer(&kept[1]).await, Outcome::Duplicate);
}

pub async fn store_w05_the_sweep_removes_what_has_expired_and_nothing_else<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        expiring(ALICE, 5, &(NOW + 20).to_string()),
        expiring(ALICE, 4, &(NOW + 11).to_string()),
        expiring(BOB, 3, &(NOW + 10).to_string()),
        expiring(BOB, 2, &(NOW + 9).to_string()),
        note(ALICE, 1, "never"),
    ];
    world.put(&all).await;
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 0);
    world.clock.set(NOW + 10);
    world.holds(&all).await;
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 2);
    world.holds([&all[0], &all[1], &all[4]]).await;
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 0);
    let mut removed = world.log.wait(7).split_off(5);
    removed.sort();
    let mut expected = [Seen::Removed(all[2].id()), Seen::Removed(all[3].id())];
    expected.sort();
    assert_eq!(removed, expected, "each removal is told once");
    world.clock.set(i64::MAX);
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 2);
    world.holds([&all[4]]).await;
}

pub async fn store_w05_expired_events_are_hidden_on_request_only<E: Engine>() {
    for hide in [false, true] {
        let world = World::<E>::open_with(|options| options.hide_expired = hide).await;
        let soon = NOW + 10;
        let all = [
            event(ALICE, 1, 3, &[["expiration", &soon.to_string()], ["t", "x"]], ""),
            event(
                ALICE,
                1,
                2,
                &[["expiration", &(soon + 1).to_string()], ["t", "x"]],
                "",
            ),
            event(ALICE, 1, 1, &[["t", "x"]], ""),
        ];
        world.put(&all).await;
        world.clock.set(soon);
        let shown = if hide { &all[1..] } else { &all[..] };
        let (alice, first) = (key(ALICE), id(&all[0]));
        for filter in [
            "{}",
            r#"{"kinds":[1]}"#,
            r##"{"#t":["x","y"]}"##,
            r#"{"since":0,"until":5}"#,
            &format!(r#"{{"authors":["{alice}"]}}"#),
            &format!(r#"{{"authors":["{alice}"],"kinds":[1],"limit":3}}"#),
        ] {
            world.finds(&[filter], shown).await;
        }
        world.finds(&[r#"{"limit":1}"#], &shown[..1]).await;
        world
            .finds(
                &[&format!(r#"{{"ids":["{first}"]}}"#)],
                if hide { [].iter() } else { all[..1].iter() },
            )
            .await;
        assert!(world.contains(&all[0]).await, "what is hidden is stored");
        assert_eq!(
            world.delete(&[r#"{"kinds":[1],"limit":1}"#]).await,
            1,
            "a deletion takes what is stored"
        );
        assert!(!world.contains(&all[0]).await);
        assert_eq!(world.delete(&[r#"{"kinds":[1]}"#]).await, 2);
    }
}

pub async fn store_w05_an_expired_version_holds_its_address_until_the_sweep<E: Engine>() {
    let world = World::<E>::open_with(|options| options.hide_expired = true).await;
    let soon = (NOW + 10).to_string();
    let expiring = event(ALICE, 30_000, 100, &[["d", "a"], ["expiration", &soon]], "");
    let (older, newer) = (
        version(ALICE, 30_000, "a", 99, ""),
        version(ALICE, 30_000, "a", 101, ""),
    );
    world.put([&expiring]).await;
    world.clock.set(NOW + 10);
    world.holds([]).await;
    assert_eq!(world.offer(&older).await, Outcome::Replaced);
    world.put([&newer]).await;
    world.holds([&newer]).await;
    assert_eq!(
        world.store.delete_expired().await.expect("a sweep"),
        0,
        "its expiration went with it"
    );
    assert_eq!(world.delete(&[r#"{"kinds":[30000]}"#]).await, 1);
    world.clock.set(NOW);
    world.put([&expiring]).await;
    world.clock.set(NOW + 10);
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 1);
    world.put([&older]).await;
    world.holds([&older]).await;
}
