//! What becomes of an offered event, and what is kept of it: STORE-W03, W06, W08 to W12.

use std::{
    sync::{Arc, Barrier},
    task::{Context, Waker},
    thread,
};

use esker_events_api::{Outcome, Rejection};
use esker_nostr::{Event, EventFields};

use crate::{
    Engine,
    events::{
        ALICE, BOB, CAROL, address_deletion, deletion, event, expiring, id, key, note, tagged, untagged,
        vanish, version, wrap,
    },
    world::{Seen, World, parse},
};

const EXPIRED: Outcome = Outcome::Rejected(Rejection::Expired);
const DELETED: Outcome = Outcome::Rejected(Rejection::Deleted);
const VANISHED: Outcome = Outcome::Rejected(Rejection::Vanished);

pub async fn store_w03_ephemeral_events_are_told_and_never_stored<E: Engine>() {
    let world = World::<E>::open().await;
    let ephemeral = [untagged(ALICE, 20_000, 1, ""), untagged(ALICE, 29_999, 2, "")];
    let regular = [untagged(ALICE, 30_000, 2, ""), untagged(ALICE, 19_999, 1, "")];
    for event in &ephemeral {
        assert_eq!(world.offer(event).await, Outcome::Ephemeral);
        assert_eq!(
            world.offer(event).await,
            Outcome::Ephemeral,
            "the same again is no duplicate"
        );
        assert!(!world.contains(event).await);
    }
    world.put(&regular).await;
    world.holds(&regular).await;
    world.finds(&[r#"{"kinds":[20000,29999]}"#], []).await;
    let seen = world.log.wait(6);
    let told = ephemeral
        .iter()
        .flat_map(|event| [Seen::Accepted(event.id(), None); 2]);
    assert_eq!(seen[..4], told.collect::<Vec<_>>());
    assert!(
        matches!(
            seen[4..],
            [Seen::Accepted(_, Some(_)), Seen::Accepted(_, Some(_))]
        ),
        "{seen:?}"
    );
}

pub async fn store_w03_ephemeral_events_obey_vanish_and_deletion<E: Engine>() {
    let world = World::<E>::open().await;
    let (old, named, free) = (
        untagged(ALICE, 20_000, 10, "old"),
        untagged(BOB, 20_000, 10, "named"),
        untagged(BOB, 20_000, 10, "free"),
    );
    world
        .put([&vanish(ALICE, 10, &["ALL_RELAYS"]), &deletion(BOB, 10, &[&named])])
        .await;
    assert_eq!(world.offer(&old).await, VANISHED);
    assert_eq!(world.offer(&named).await, DELETED);
    assert_eq!(world.offer(&free).await, Outcome::Ephemeral);
}

pub async fn store_w06_gift_wraps_belong_to_their_recipient<E: Engine>() {
    let world = World::<E>::open().await;
    let for_bob = wrap(ALICE, BOB, 10, "");
    world
        .put([
            &for_bob,
            &deletion(ALICE, 20, &[&for_bob]),
            &deletion(CAROL, 20, &[&for_bob]),
        ])
        .await;
    assert!(
        world.contains(&for_bob).await,
        "neither its signer nor a stranger deletes it"
    );
    world.put([&deletion(BOB, 20, &[&for_bob])]).await;
    assert!(!world.contains(&for_bob).await);
    assert_eq!(world.offer(&for_bob).await, DELETED);
}

pub async fn store_w06_gift_wraps_vanish_with_their_recipient<E: Engine>() {
    let world = World::<E>::open().await;
    let wraps = [
        wrap(ALICE, BOB, 10, "1"),
        wrap(ALICE, ALICE, 10, "2"),
        wrap(BOB, ALICE, 9, "3"),
    ];
    world.put(&wraps).await;
    let gone = vanish(BOB, 20, &["ALL_RELAYS"]);
    world.put([&gone]).await;
    assert!(!world.contains(&wraps[0]).await);
    assert!(world.contains(&wraps[1]).await && world.contains(&wraps[2]).await);
    assert_eq!(world.offer(&wraps[0]).await, VANISHED);
    assert_eq!(world.offer(&wrap(CAROL, BOB, 20, "late")).await, VANISHED);
    world
        .put([
            &wrap(CAROL, BOB, 21, "new"),
            &wrap(BOB, CAROL, 5, "signed by the vanished"),
        ])
        .await;
}

pub async fn store_w06_a_wraps_owner_is_its_first_valid_p_or_its_signer<E: Engine>() {
    let world = World::<E>::open().await;
    let (bob, carol) = (key(BOB), key(CAROL));
    let upper = bob.to_uppercase();
    let owned_by_bob = [
        event(
            ALICE,
            1059,
            1,
            &[
                vec!["p"],
                vec!["p", "nonsense"],
                vec!["p", &bob],
                vec!["p", &carol],
            ],
            "",
        ),
        event(ALICE, 1059, 2, &[["p", &upper], ["p", &bob]], ""),
    ];
    let owned_by_signer = [
        event(ALICE, 1059, 3, &[["p", "nonsense"], ["P", &bob]], ""),
        untagged(ALICE, 1059, 4, ""),
    ];
    let not_a_wrap = event(ALICE, 1060, 5, &[["p", &bob]], "");
    world.put(&owned_by_bob).await;
    world.put(&owned_by_signer).await;
    world.put([&not_a_wrap]).await;
    let targets: Vec<&Event> = owned_by_bob
        .iter()
        .chain(&owned_by_signer)
        .map(|event| &**event)
        .collect();
    world.put([&deletion(CAROL, 9, &targets)]).await;
    assert_eq!(world.count(&parse(&[r#"{"kinds":[1059]}"#])).await, 4);
    world.put([&deletion(BOB, 9, &targets)]).await;
    world
        .finds(
            &[r#"{"kinds":[1059]}"#],
            [&owned_by_signer[1], &owned_by_signer[0]],
        )
        .await;
    world.put([&vanish(ALICE, 9, &["ALL_RELAYS"])]).await;
    world.finds(&[r#"{"kinds":[1059,1060]}"#], []).await;
}

pub async fn store_w08_a_batch_answers_in_input_order<E: Engine>() {
    let world = World::<E>::open().await;
    assert_eq!(world.store.insert_batch(Vec::new()).await, []);
    let victim = note(ALICE, 5, "deleted within the batch");
    let [old, new] = [1, 2].map(|at| version(BOB, 30_000, "d", at, ""));
    let stays = note(CAROL, 3, "stays");
    let delete = deletion(ALICE, 6, &[&victim]);
    let gone = vanish(CAROL, 2, &["ALL_RELAYS"]);
    let early = note(CAROL, 1, "before the request to vanish");
    let batch = [
        (&victim, Outcome::Stored),
        (&stays, Outcome::Stored),
        (&victim, Outcome::Duplicate),
        (&new, Outcome::Stored),
        (&old, Outcome::Replaced),
        (&delete, Outcome::Stored),
        (&victim, DELETED),
        (&expiring(BOB, 9, "1"), EXPIRED),
        (&untagged(BOB, 20_000, 9, ""), Outcome::Ephemeral),
        (&early, Outcome::Stored),
        (&gone, Outcome::Stored),
        (&early, VANISHED),
        (&stays, Outcome::Duplicate),
    ];
    let events = batch.iter().map(|(event, _)| Arc::clone(event)).collect();
    let expected: Vec<_> = batch.iter().map(|(_, outcome)| outcome.clone()).collect();
    assert_eq!(world.store.insert_batch(events).await, expected);
    let mut left = [&stays, &new, &delete, &gone];
    left.sort_by_key(|event| esker_events_api::admission::position(&***event));
    world.holds(left).await;
}

pub async fn store_w08_a_batch_does_what_single_inserts_do<E: Engine>() {
    let mut random = esker_testing::random::Random::new(8);
    let mut scene = crate::model::Scene::new(crate::model::Profile::Narrow, &mut random);
    let events: Vec<_> = (0..300).map(|_| scene.event(&mut random)).collect();
    let (single, batched) = (World::<E>::open().await, World::<E>::open().await);
    let mut outcomes = Vec::new();
    for event in &events {
        outcomes.push(single.offer(event).await);
    }
    assert_eq!(batched.store.insert_batch(events).await, outcomes);
    let all = || parse(&["{}"]);
    assert_eq!(
        batched.store.query(all()).await.expect("query"),
        single.store.query(all()).await.expect("query")
    );
}

pub async fn store_w09_the_same_event_again_is_a_duplicate<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        note(ALICE, 3, ""),
        untagged(ALICE, 0, 2, ""),
        version(ALICE, 30_000, "d", 1, ""),
    ];
    world.put(&all).await;
    for event in &all {
        let parsed = Arc::new(Event::parse(event.json()).expect("an event"));
        assert_eq!(world.offer(event).await, Outcome::Duplicate);
        assert_eq!(
            world.offer(&parsed).await,
            Outcome::Duplicate,
            "whoever parsed it"
        );
    }
    world.holds(&all).await;
    assert_eq!(world.log.wait(3).len(), 3, "a duplicate is told to nobody");
}

pub async fn store_w09_concurrent_offers_of_one_event_store_it_once<E: Engine>() {
    const WRITERS: usize = 8;
    let world = World::<E>::open().await;
    let events: Vec<_> = (0..20).map(|n| note(ALICE, n, "")).collect();
    let start = Barrier::new(WRITERS);
    let outcomes: Vec<Vec<Outcome>> = thread::scope(|scope| {
        let offer = || {
            start.wait();
            events
                .iter()
                .map(|event| E::run(world.store.insert(event.clone())))
                .collect()
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(offer)).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer"))
            .collect()
    });
    for n in 0..events.len() {
        let count = |wanted| outcomes.iter().filter(|outcomes| outcomes[n] == wanted).count();
        assert_eq!(
            (count(Outcome::Stored), count(Outcome::Duplicate)),
            (1, WRITERS - 1),
            "event {n}"
        );
    }
    world.holds(events.iter().rev()).await;
}

pub async fn store_w09_a_closed_store_fails_and_does_not_reject<E: Engine>() {
    let world = World::<E>::open().await;
    let kept = note(ALICE, 1, "");
    world.put([&kept]).await;
    world.store.close().await;
    let outcomes = world.store.insert_batch(vec![note(ALICE, 2, ""), kept]).await;
    assert!(
        matches!(outcomes[..], [Outcome::Failed(_), Outcome::Failed(_)]),
        "{outcomes:?}"
    );
    let closed = |result: Result<(), esker_events_api::Error>| {
        assert!(
            matches!(result, Err(esker_events_api::Error::Closed)),
            "{result:?}"
        );
    };
    closed(world.store.query(parse(&["{}"])).await.map(drop));
    closed(world.store.count(parse(&["{}"])).await.map(drop));
    closed(world.store.snapshot(parse(&["{}"]), 1).await.map(drop));
    closed(world.store.contains(Vec::new()).await.map(drop));
    closed(world.store.delete(parse(&[r#"{"kinds":[1]}"#])).await.map(drop));
    closed(
        world
            .store
            .delete_id(esker_nostr::EventId([0; 32]))
            .await
            .map(drop),
    );
    closed(world.store.delete_expired().await.map(drop));
    closed(world.store.stats().await.map(drop));
    closed(world.store.authors_missing_outbox().await.map(drop));
    world.store.close().await;
}

pub async fn store_w10_reading_gives_the_canonical_bytes<E: Engine>() {
    let world = World::<E>::open().await;
    let contents = [
        "",
        "plain",
        "\0 \u{1} \u{1f} \u{7f} \u{80} \u{2028} \u{fdd1} \u{ffff}",
        "\" \\ / \n \r \t \u{8} \u{c}",
        "😀 👨‍👩‍👧 é e\u{301} \u{202e}rtl",
        "{\"id\":\"x\",\"content\":\"nested\"}",
        &"line ".repeat(13_108),
    ];
    let all: Vec<_> = (0..)
        .zip(contents)
        .map(|(at, content)| event(ALICE, 1, 100 - at, &[["t", content], ["x", "plain"]], content))
        .collect();
    world.put(&all).await;
    world.holds(&all).await;
    for event in &all {
        world
            .finds(&[&format!(r#"{{"ids":["{}"]}}"#, id(event))], [event])
            .await;
        let read = world
            .store
            .query(parse(&[&format!(r#"{{"ids":["{}"]}}"#, id(event))]))
            .await
            .expect("query");
        let again = Event::parse(&read[0]).expect("what is read is an event");
        assert_eq!(again.content(), event.content());
    }
    let world = world.reopen().await;
    world.holds(&all).await;
}

pub async fn store_w10_however_an_event_was_written_it_is_stored_canonical<E: Engine>() {
    let world = World::<E>::open().await;
    let note = event(ALICE, 1, 5, &[["t", "a/b"], ["e", ""]], "é \"x\" 😀\n");
    let canonical = std::str::from_utf8(note.json()).expect("JSON").to_owned();
    let loose = canonical
        .replace("\",\"", "\" ,\n\t\"")
        .replace("é", "\\u00e9")
        .replace("😀", "\\ud83d\\uDE00")
        .replace("a/b", "a\\/b");
    assert_ne!(loose, canonical);
    let parsed = Arc::new(Event::parse(loose.as_bytes()).expect("the same event"));
    world.put([&parsed]).await;
    let stored = world.store.query(parse(&["{}"])).await.expect("query");
    assert_eq!(stored, [note.json().clone()]);
}

pub async fn store_w11_stored_means_told_and_there_after_reopening<E: Engine>() {
    let world = World::<E>::open().await;
    let gone = note(ALICE, 1, "gone");
    let all = [
        deletion(ALICE, 9, &[&gone]),
        untagged(BOB, 0, 8, ""),
        tagged(BOB, 7, &[["t", "x"]]),
    ];
    world.put([&gone]).await;
    world.put(&all).await;
    let seen = world.log.wait(5);
    let accepted: Vec<_> = seen
        .iter()
        .filter(|seen| matches!(seen, Seen::Accepted(_, Some(_))))
        .collect();
    assert_eq!(accepted.len(), 4, "{seen:?}");
    let world = world.reopen().await;
    world.holds(&all).await;
    world.finds(&[r##"{"#t":["x"]}"##], [&all[2]]).await;
    assert_eq!(
        world.offer(&gone).await,
        DELETED,
        "what was blocked stays blocked"
    );
    assert_eq!(world.offer(&all[1]).await, Outcome::Duplicate);
    assert_eq!(world.offer(&untagged(BOB, 0, 7, "")).await, Outcome::Replaced);
}

pub async fn store_w11_a_dropped_future_undoes_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let (dropped, after) = (note(ALICE, 2, "dropped"), note(ALICE, 1, "after"));
    let mut insert = world.store.insert(dropped.clone());
    // One poll submits it; whether it is ready already makes no difference.
    let _ = insert.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(insert);
    world.put([&after]).await;
    world.holds([&dropped, &after]).await;
}

pub async fn store_w12_any_valid_event_can_be_stored_and_found<E: Engine>() {
    let world = World::<E>::open().await;
    let huge = "h".repeat(60 * 1024);
    let huge_nul = "\0".repeat(10_000);
    let many: Vec<[String; 2]> = (0..2_000).map(|n| ["t".into(), format!("many{n}")]).collect();
    let all = [
        event(ALICE, 1, i64::MAX, &[["t", "newest"]], ""),
        event(ALICE, u16::MAX, 12, &[["t", "kind"]], ""),
        event(ALICE, 1, 11, &many, ""),
        event(ALICE, 1, 10, &[["t", &huge], ["r", "short"]], ""),
        event(ALICE, 1, 9, &[["t", &huge_nul]], "\0"),
        event(ALICE, 1, 8, &[vec![], vec![""], vec!["t"], vec!["", "", ""]], ""),
        event(ALICE, 30_000, 7, &[["d", &huge]], ""),
        event(ALICE, 1, 6, &[["t", "😀"], ["😀", "t"]], "😀"),
        event(ALICE, 1, -5, &[["t", "before 1970"]], ""),
        event(ALICE, 2, i64::MIN, &[["t", "oldest"]], ""),
    ];
    world.put(&all).await;
    world.holds(&all).await;
    for (filter, expected) in [
        (r##"{"#t":["newest"]}"##.to_owned(), 0),
        (format!(r#"{{"since":{}}}"#, i64::MAX), 0),
        (r#"{"kinds":[65535]}"#.into(), 1),
        (r##"{"#t":["many1999"]}"##.into(), 2),
        (r#"{"&t":["many0","many1000","many1999"]}"#.into(), 2),
        (format!(r##"{{"#t":["{huge}"]}}"##), 3),
        (r##"{"#r":["short"]}"##.into(), 3),
        (format!(r##"{{"#t":["{}"]}}"##, "\\u0000".repeat(10_000)), 4),
        (format!(r##"{{"#d":["{huge}"],"kinds":[30000]}}"##), 6),
        (r##"{"#😀":["t"]}"##.into(), 7),
        (r#"{"since":-5,"until":5}"#.into(), 8),
        (format!(r#"{{"until":{}}}"#, i64::MIN), 9),
        (r#"{"kinds":[2]}"#.into(), 9),
    ] {
        world.finds(&[&filter], [&all[expected]]).await;
    }
    let longer = version(ALICE, 30_000, &format!("{huge}x"), 7, "");
    world.put([&version(ALICE, 30_000, &huge, 20, ""), &longer]).await;
    assert!(!world.contains(&all[6]).await && world.contains(&longer).await);
    let address = format!("30000:{}:{huge}", key(ALICE));
    world.put([&address_deletion(ALICE, 30, &[&address])]).await;
    world.finds(&[r#"{"kinds":[30000]}"#], [&longer]).await;
    assert_eq!(world.offer(&all[6]).await, DELETED);
}
