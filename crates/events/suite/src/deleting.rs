//! What deletions and requests to vanish take and block: STORE-D01 to D08.

use std::sync::Arc;

use esker_events_api::{Outcome, Rejection};
use esker_nostr::{Event, EventFields};

use crate::{
    Engine,
    events::{
        ALICE, BOB, CAROL, address_deletion, deletion, event, id, key, note, tagged, untagged, vanish,
        version,
    },
    world::{NOW, RELAY, Seen, World, parse},
};

const DELETED: Outcome = Outcome::Rejected(Rejection::Deleted);
const VANISHED: Outcome = Outcome::Rejected(Rejection::Vanished);
const ALL: &[&str] = &["ALL_RELAYS"];

pub async fn store_d01_named_events_go_whatever_the_times<E: Engine>() {
    let world = World::<E>::open().await;
    let own = [
        note(ALICE, 1, "older"),
        note(ALICE, 50, "same time"),
        note(ALICE, 90, "newer"),
    ];
    let kept = [note(ALICE, 50, "not named"), note(BOB, 50, "another's")];
    world.put(&own).await;
    world.put(&kept).await;
    let request = deletion(ALICE, 50, &[&own[0], &own[1], &own[2], &kept[1], &own[0]]);
    world.put([&request]).await;
    for event in &own {
        assert!(!world.contains(event).await);
    }
    for event in kept.iter().chain([&request]) {
        assert!(world.contains(event).await);
    }
    let removed = world
        .log
        .wait(9)
        .into_iter()
        .filter(|seen| matches!(seen, Seen::Removed(_)))
        .count();
    assert_eq!(removed, 3, "each removal is told once");
}

pub async fn store_d01_a_deletion_takes_versions_and_wraps_by_id<E: Engine>() {
    let world = World::<E>::open().await;
    let targets = [
        untagged(ALICE, 0, 1, ""),
        version(ALICE, 30_000, "d", 2, ""),
        crate::events::wrap(BOB, ALICE, 3, ""),
    ];
    world.put(&targets).await;
    let request = deletion(ALICE, 2, &[&targets[0], &targets[1], &targets[2]]);
    world.put([&request]).await;
    world.holds([&request]).await;
    assert_eq!(world.offer(&targets[0]).await, DELETED);
    world.put([&untagged(ALICE, 0, 1, "another version")]).await;
    world
        .put([&version(
            ALICE,
            30_000,
            "d",
            1,
            "an older version that nobody named",
        )])
        .await;
}

pub async fn store_d02_an_address_goes_up_to_the_requests_time<E: Engine>() {
    for kind in [30_000, 10_002, 0] {
        let (author, d) = (key(ALICE), if kind == 30_000 { "a:b" } else { "" });
        for (at, deleted) in [(99, true), (100, true), (101, false)] {
            let world = World::<E>::open().await;
            let target = version(ALICE, kind, d, at, "");
            let kept = [version(BOB, kind, d, at, ""), version(ALICE, 30_001, d, at, "")];
            world.put(&kept).await;
            world.put([&target]).await;
            world
                .put([&address_deletion(ALICE, 100, &[&format!("{kind}:{author}:{d}")])])
                .await;
            assert_eq!(!world.contains(&target).await, deleted, "{kind} at {at}");
            for kept in &kept {
                assert!(world.contains(kept).await);
            }
        }
    }
}

pub async fn store_d02_an_address_takes_exactly_one_d<E: Engine>() {
    let ds = ["", "a", "a-b", "a:b", "a:", ":", "wss://h:7777", "A"];
    let author = key(ALICE);
    for (n, d) in ds.iter().enumerate() {
        let world = World::<E>::open().await;
        let versions: Vec<_> = ds.iter().map(|d| version(ALICE, 30_023, d, 10, "")).collect();
        world.put(&versions).await;
        world
            .put([&address_deletion(ALICE, 10, &[&format!("30023:{author}:{d}")])])
            .await;
        for (m, version) in versions.iter().enumerate() {
            assert_eq!(world.contains(version).await, m != n, "{d:?} and {:?}", ds[m]);
        }
    }
}

pub async fn store_d02_a_replaceable_address_needs_no_last_colon<E: Engine>() {
    let author = key(ALICE);
    for (address, deletes) in [
        (format!("10002:{author}"), true),
        (format!("10002:{author}:"), true),
        (format!("10002:{author}:d"), false),
        (format!("010002:{author}:"), false),
        (format!("10002:{}:", author.to_uppercase()), false),
        (format!("10003:{author}:"), false),
        (format!("10002:{}:", key(BOB)), false),
        (author.clone(), false),
    ] {
        let world = World::<E>::open().await;
        let target = event(ALICE, 10_002, 10, &[["d", "d"]], "");
        world
            .put([&target, &address_deletion(ALICE, 20, &[&address])])
            .await;
        assert_eq!(!world.contains(&target).await, deletes, "{address}");
        let again = world.offer(&target).await;
        assert_eq!(
            again,
            if deletes { DELETED } else { Outcome::Duplicate },
            "{address}"
        );
    }
}

pub async fn store_d02_ids_and_addresses_go_in_one_request<E: Engine>() {
    let world = World::<E>::open().await;
    let (by_id, by_address) = (note(ALICE, 5, ""), version(ALICE, 30_000, "d", 5, ""));
    let both = version(ALICE, 30_001, "d", 15, "newer than the request, but named by id");
    world.put([&by_id, &by_address, &both]).await;
    let author = key(ALICE);
    let tags = [
        ["e".into(), id(&by_id)],
        ["a".into(), format!("30000:{author}:d")],
        ["e".into(), id(&both)],
        ["a".into(), format!("30001:{author}:d")],
        ["k".into(), "1".to_owned()],
    ];
    let request = event(ALICE, 5, 10, &tags, "");
    world.put([&request]).await;
    world.holds([&request]).await;
}

pub async fn store_d03_anothers_request_is_stored_and_does_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        note(ALICE, 3, ""),
        untagged(ALICE, 0, 2, ""),
        version(ALICE, 30_000, "d", 1, ""),
    ];
    world.put(&all).await;
    let author = key(ALICE);
    let by_id = deletion(BOB, 9, &[&all[0], &all[1], &all[2]]);
    let by_address = address_deletion(BOB, 8, &[&format!("0:{author}:"), &format!("30000:{author}:d")]);
    let unknown = address_deletion(BOB, 7, &["nonsense", &format!("30000:{}:unknown", key(BOB))]);
    let nothing = untagged(BOB, 5, 6, "names nothing");
    world.put([&by_id, &by_address, &unknown, &nothing]).await;
    world
        .holds([&by_id, &by_address, &unknown, &nothing].into_iter().chain(&all))
        .await;
    for event in &all {
        assert_eq!(world.offer(event).await, Outcome::Duplicate);
    }
    let new = version(ALICE, 30_000, "d", 5, "not blocked either");
    world.put([&new, &deletion(ALICE, 9, &[&all[0]])]).await;
    assert!(!world.contains(&all[0]).await, "its owner's request still works");
}

pub async fn store_d04_a_stored_request_blocks_by_id<E: Engine>() {
    for (event_at, blocked) in [(9, true), (10, true), (11, false)] {
        let world = World::<E>::open().await;
        let target = note(ALICE, event_at, "");
        let request = deletion(ALICE, 10, &[&target]);
        world.put([&request]).await;
        let expected = if blocked { DELETED } else { Outcome::Stored };
        assert_eq!(world.offer(&target).await, expected, "at {event_at}");
        assert_eq!(world.contains(&target).await, !blocked);
        // Another's does not block, whenever it was made.
        let other = note(BOB, event_at, "");
        world.put([&deletion(ALICE, 99, &[&other]), &other]).await;
    }
}

pub async fn store_d04_a_stored_request_blocks_by_address<E: Engine>() {
    let author = key(ALICE);
    for kind in [30_000, 10_002] {
        let d = if kind == 30_000 { "d" } else { "" };
        let world = World::<E>::open().await;
        world
            .put([&address_deletion(ALICE, 10, &[&format!("{kind}:{author}:{d}")])])
            .await;
        for blocked in [9, 10] {
            assert_eq!(
                world.offer(&version(ALICE, kind, d, blocked, "")).await,
                DELETED,
                "at {blocked}"
            );
        }
        world
            .put([
                &version(ALICE, 30_000, "other d", 9, ""),
                &version(BOB, kind, d, 9, ""),
            ])
            .await;
        let newer = version(ALICE, kind, d, 11, "");
        world.put([&newer]).await;
        // A later request raises the bound, an earlier one does not lower it.
        world
            .put([&address_deletion(ALICE, 20, &[&format!("{kind}:{author}:{d}")])])
            .await;
        world
            .put([&address_deletion(ALICE, 5, &[&format!("{kind}:{author}:{d}")])])
            .await;
        assert!(!world.contains(&newer).await);
        assert_eq!(world.offer(&version(ALICE, kind, d, 20, "")).await, DELETED);
        world.put([&version(ALICE, kind, d, 21, "")]).await;
    }
}

pub async fn store_d04_a_backdated_request_deletes_and_does_not_block<E: Engine>() {
    let world = World::<E>::open().await;
    let target = note(ALICE, 50, "");
    world.put([&target, &deletion(ALICE, 10, &[&target])]).await;
    assert!(!world.contains(&target).await);
    world.put([&target]).await;
    assert!(world.contains(&target).await);
    // With a second request the newest decides.
    world.put([&deletion(ALICE, 50, &[&target])]).await;
    assert_eq!(world.offer(&target).await, DELETED);
}

pub async fn store_d04_a_request_blocks_as_long_as_it_is_stored<E: Engine>() {
    let world = World::<E>::open().await;
    let target = note(ALICE, 5, "");
    let request = deletion(ALICE, 10, &[&target]);
    world.put([&request]).await;
    assert_eq!(world.offer(&target).await, DELETED);
    assert!(world.store.delete_id(request.id()).await.expect("an answer"));
    world.put([&target]).await;
    // Of the losing version a blocked winner takes nothing.
    let [old, new] = [1, 2].map(|at| version(ALICE, 30_000, "d", at, ""));
    world.put([&old, &deletion(ALICE, 10, &[&new])]).await;
    assert_eq!(world.offer(&new).await, DELETED);
    assert!(world.contains(&old).await);
}

pub async fn store_d05_a_deletion_reaches_neither_deletions_nor_vanish_requests<E: Engine>() {
    let world = World::<E>::open().await;
    let target = note(ALICE, 1, "");
    let first = deletion(ALICE, 10, &[&target]);
    let elsewhere = vanish(ALICE, 11, &["wss://other.example"]);
    let second = deletion(ALICE, 20, &[&first, &elsewhere]);
    world.put([&target, &first, &elsewhere, &second]).await;
    world.holds([&second, &elsewhere, &first]).await;
    assert_eq!(world.offer(&target).await, DELETED);
    // Nor does it block them.
    let (later_deletion, later_vanish) = (
        untagged(ALICE, 5, 12, "later"),
        vanish(ALICE, 12, &["wss://x.example"]),
    );
    world
        .put([
            &deletion(ALICE, 30, &[&later_deletion, &later_vanish]),
            &later_deletion,
            &later_vanish,
        ])
        .await;
}

pub async fn store_d05_revocable_deletions_can_be_deleted<E: Engine>() {
    let world = World::<E>::open_with(|options| options.revocable_deletions = true).await;
    let target = note(ALICE, 1, "");
    let first = deletion(ALICE, 10, &[&target]);
    world.put([&target, &first, &deletion(BOB, 20, &[&first])]).await;
    assert!(world.contains(&first).await, "a stranger's does nothing");
    world.put([&deletion(ALICE, 20, &[&first])]).await;
    assert!(!world.contains(&first).await);
    assert_eq!(world.offer(&first).await, DELETED);
    world.put([&target]).await;
    let gone = vanish(ALICE, 30, ALL);
    world.put([&gone, &deletion(ALICE, 40, &[&gone])]).await;
    assert!(!world.contains(&gone).await);
    world
        .put([&note(ALICE, 25, "the block went with the request")])
        .await;
}

pub async fn store_d06_a_request_acts_for_this_relay_or_all<E: Engine>() {
    for (relays, url, acts) in [
        (&[RELAY][..], Some(RELAY), true),
        (&["WSS://Relay.example:443/"], Some(RELAY), true),
        (&[RELAY], Some("wss://RELAY.example/"), true),
        (&["wss://other.example", RELAY], Some(RELAY), true),
        (ALL, Some(RELAY), true),
        (ALL, None, true),
        (&["wss://other.example"], Some(RELAY), false),
        (&["wss://relay.example/inbox"], Some(RELAY), false),
        (&["all_relays"], Some(RELAY), false),
        (&[], Some(RELAY), false),
        (&[""], Some(RELAY), false),
        (&[RELAY], None, false),
    ] {
        let world = World::<E>::open_with(|options| options.relay_url = url.map(Into::into)).await;
        let (old, request) = (note(ALICE, 1, "old"), vanish(ALICE, 10, relays));
        world.put([&old, &request]).await;
        assert_eq!(!world.contains(&old).await, acts, "{relays:?} at {url:?}");
        assert!(world.contains(&request).await, "it is stored either way");
        let late = note(ALICE, 5, "late");
        assert_eq!(
            world.offer(&late).await,
            if acts { VANISHED } else { Outcome::Stored }
        );
    }
}

pub async fn store_d07_it_takes_what_is_older_and_blocks_its_own_second_too<E: Engine>() {
    let world = World::<E>::open().await;
    let gone: Vec<Arc<Event>> = vec![
        note(ALICE, 9, "note"),
        untagged(ALICE, 0, 8, ""),
        version(ALICE, 30_000, "d", 7, ""),
        untagged(ALICE, 5, 6, "a deletion"),
        vanish(ALICE, 5, &["wss://other.example"]),
        vanish(ALICE, 4, ALL),
        note(ALICE, i64::MIN, "first"),
    ];
    let kept = [
        note(ALICE, 11, "later"),
        tagged(ALICE, 10, &[["t", "same second"]]),
        note(BOB, 1, "another's"),
    ];
    for event in gone.iter().rev().chain(&kept) {
        world.put([event]).await;
    }
    let request = vanish(ALICE, 10, ALL);
    world.put([&request]).await;
    let mut left = vec![&kept[0], &kept[1], &kept[2], &request];
    left.sort_by_key(|event| esker_events_api::admission::position(&***event));
    world.holds(left).await;
    for event in &gone {
        assert_eq!(world.offer(event).await, VANISHED, "{}", event.kind());
    }
    assert_eq!(
        world.offer(&note(ALICE, 10, "same second, but late")).await,
        VANISHED
    );
    assert_eq!(world.offer(&kept[1]).await, Outcome::Duplicate);
    assert_eq!(world.offer(&request).await, Outcome::Duplicate);
    world
        .put([&note(ALICE, 12, "new"), &note(BOB, 2, "another's")])
        .await;
}

pub async fn store_d07_the_newest_request_counts<E: Engine>() {
    let world = World::<E>::open().await;
    let (first, second) = (vanish(ALICE, 10, ALL), vanish(ALICE, 20, ALL));
    world.put([&first, &note(ALICE, 15, ""), &second]).await;
    world.holds([&second]).await;
    assert_eq!(world.offer(&first).await, VANISHED, "an older one is no news");
    assert_eq!(world.offer(&vanish(ALICE, 20, &[RELAY])).await, VANISHED);
    assert_eq!(world.offer(&note(ALICE, 20, "")).await, VANISHED);
    // One for another relay is a plain event: blocked like any, and raising nothing.
    assert_eq!(
        world.offer(&vanish(ALICE, 15, &["wss://other.example"])).await,
        VANISHED
    );
    world
        .put([&vanish(ALICE, 40, &["wss://other.example"]), &note(ALICE, 30, "")])
        .await;
    let world = world.reopen().await;
    assert_eq!(world.offer(&note(ALICE, 19, "")).await, VANISHED);
}

pub async fn store_d07_a_request_blocks_as_long_as_it_is_stored<E: Engine>() {
    let world = World::<E>::open().await;
    let request = event(
        CAROL,
        62,
        10,
        &[["relay", "ALL_RELAYS"], ["expiration", &(NOW + 10).to_string()]],
        "",
    );
    world.put([&request]).await;
    let note = note(CAROL, 5, "");
    assert_eq!(world.offer(&note).await, VANISHED);
    world.clock.set(NOW + 10);
    assert_eq!(world.offer(&note).await, VANISHED, "until the sweep");
    assert_eq!(world.store.delete_expired().await.expect("a sweep"), 1);
    world.put([&note]).await;
}

pub async fn store_d08_delete_removes_and_blocks_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        tagged(ALICE, 3, &[["t", "x"]]),
        untagged(ALICE, 0, 2, ""),
        version(BOB, 30_000, "d", 1, ""),
    ];
    world.put(&all).await;
    for event in &all {
        assert!(world.store.delete_id(event.id()).await.expect("an answer"));
        assert!(
            !world.store.delete_id(event.id()).await.expect("an answer"),
            "it is gone"
        );
        assert!(!world.contains(event).await);
        world.put([event]).await;
    }
    world.holds(&all).await;
    world.finds(&[r##"{"#t":["x"]}"##], [&all[0]]).await;
    assert_eq!(
        world.delete(&[r##"{"#t":["x"]}"##, r#"{"kinds":[1,0]}"#]).await,
        2
    );
    world.holds([&all[2]]).await;
    assert_eq!(world.delete(&[r#"{"kinds":[1]}"#]).await, 0);
    world.put(&all[..2]).await;
    world.holds(&all).await;
}

pub async fn store_d08_delete_honours_limits_and_takes_the_newest<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..6)
        .map(|n| untagged(ALICE, [1, 7][n % 2], 100 - i64::try_from(n).expect("small"), ""))
        .collect();
    world.put(&all).await;
    assert_eq!(world.delete(&[r#"{"kinds":[1],"limit":0}"#]).await, 0);
    assert_eq!(
        world
            .delete(&[r#"{"kinds":[1],"limit":1}"#, r#"{"kinds":[1,7],"limit":2}"#])
            .await,
        2
    );
    world.holds(&all[2..]).await;
    assert_eq!(world.delete(&[r#"{"kinds":[7],"until":97}"#]).await, 2);
    world.holds([&all[2], &all[4]]).await;
    assert_eq!(world.count(&parse(&["{}"])).await, 2);
    let removed = world
        .log
        .wait(10)
        .into_iter()
        .skip(6)
        .collect::<std::collections::HashSet<_>>();
    assert_eq!(removed.len(), 4, "each removal is told once");
}
