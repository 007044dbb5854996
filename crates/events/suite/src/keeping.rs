//! Figures, outbox lists and budgets: STORE-K01, K03, K05.

use std::time::Duration;

use esker_events_api::{Error, KindStats, Query, Stats};
use esker_nostr::Event;

use crate::{
    Engine,
    events::{ALICE, BOB, CAROL, deletion, event, key, note, pubkey, tagged, untagged, version, wrap},
    world::{NOW, World, parse},
};

pub async fn store_k01_stats_tell_what_is_stored<E: Engine>() {
    let world = World::<E>::open_with(|options| options.hide_expired = true).await;
    let check = async |stored: &[&Event]| {
        let stats = Stats {
            disk_bytes: 0,
            ..world.store.stats().await.expect("stats")
        };
        assert_eq!(stats, stats_of(stored));
    };
    check(&[]).await;
    let all = [
        untagged(ALICE, 1, 5, "a"),
        untagged(BOB, 1, -7, "longer"),
        untagged(BOB, 7, 9, ""),
        untagged(CAROL, u16::MAX, 2, "é"),
    ];
    world.put(&all).await;
    check(&[&all[0], &all[1], &all[2], &all[3]]).await;
    // They follow supersession, deletion, refusals, expiry and the sweep.
    let soon = (NOW + 10).to_string();
    let [old, new] = [1, 2].map(|at| version(ALICE, 30_000, "d", at, "version"));
    let expiring = event(CAROL, 1, 20, &[["expiration", &soon]], "");
    world.put([&old, &new, &expiring]).await;
    world.offer(&old).await;
    world.offer(&all[0]).await;
    world.offer(&untagged(ALICE, 20_000, 99, "ephemeral")).await;
    let delete = deletion(ALICE, 8, &[&all[0]]);
    world.put([&delete]).await;
    world.delete(&[r#"{"kinds":[7]}"#]).await;
    world.clock.set(NOW + 10);
    check(&[&all[1], &all[3], &new, &expiring, &delete]).await;
    world.store.delete_expired().await.expect("a sweep");
    check(&[&all[1], &all[3], &new, &delete]).await;
    let world = world.reopen().await;
    let stats = Stats {
        disk_bytes: 0,
        ..world.store.stats().await.expect("stats")
    };
    assert_eq!(
        stats,
        stats_of(&[&all[1], &all[3], &new, &delete]),
        "after reopening"
    );
    world.delete(&[r#"{"since":-100}"#]).await;
    let stats = Stats {
        disk_bytes: 0,
        ..world.store.stats().await.expect("stats")
    };
    assert_eq!(stats, Stats::default(), "a kind without events has no share");
}

fn stats_of(stored: &[&Event]) -> Stats {
    use esker_nostr::EventFields;
    let mut kinds: Vec<KindStats> = Vec::new();
    let mut sorted = stored.to_vec();
    sorted.sort_by_key(|event| event.kind());
    for event in sorted {
        let (kind, json_bytes) = (event.kind(), event.json().len() as u64);
        match kinds.last_mut().filter(|share| share.kind == kind) {
            Some(share) => {
                share.events += 1;
                share.json_bytes += json_bytes;
            }
            None => kinds.push(KindStats {
                kind,
                events: 1,
                json_bytes,
            }),
        }
    }
    Stats {
        events: stored.len() as u64,
        json_bytes: kinds.iter().map(|share| share.json_bytes).sum(),
        disk_bytes: 0,
        kinds,
        oldest: stored.iter().map(|event| event.created_at()).min(),
        newest: stored.iter().map(|event| event.created_at()).max(),
    }
}

pub async fn store_k03_authors_missing_outbox<E: Engine>() {
    let world = World::<E>::open().await;
    let missing = async || world.store.authors_missing_outbox().await.expect("authors");
    assert_eq!(missing().await, []);
    let outbox = untagged(BOB, 10_002, 5, "");
    // A wrap's signer is nobody's identity, and its recipient wrote nothing.
    world
        .put([
            &note(ALICE, 1, "1"),
            &note(ALICE, 2, "2"),
            &note(BOB, 3, ""),
            &outbox,
            &wrap(CAROL, 9, 4, ""),
        ])
        .await;
    assert_eq!(missing().await, [pubkey(ALICE)]);
    world
        .put([
            &untagged(10, 10_002, 1, "known by its outbox alone"),
            &tagged(CAROL, 6, &[["p", &key(9)]]),
        ])
        .await;
    let mut expected = [pubkey(ALICE), pubkey(CAROL)];
    expected.sort();
    assert_eq!(missing().await, expected, "in key order");
    assert!(
        world
            .store
            .delete_id(esker_nostr::EventFields::id(&*outbox))
            .await
            .expect("an answer")
    );
    let mut expected = [pubkey(ALICE), pubkey(BOB), pubkey(CAROL)];
    expected.sort();
    assert_eq!(missing().await, expected);
    world.put([&outbox, &untagged(ALICE, 10_002, 9, "")]).await;
    assert_eq!(missing().await, [pubkey(CAROL)]);
}

pub async fn store_k05_a_query_past_its_budget_ends_with_its_filter<E: Engine>() {
    if !E::HAS_BUDGET {
        eprintln!("skipped: this engine gives queries no time budget");
        return;
    }
    let budget = Duration::from_secs(3);
    let world = World::<E>::open_with(|options| options.query_budget = budget).await;
    world
        .put([&note(ALICE, 1, ""), &note(ALICE, 2, ""), &note(ALICE, 3, "")])
        .await;
    let mut query = Query::new(parse(&[r#"{"kinds":[1],"until":12345}"#]));
    query.limits.events = 1;
    // It has used its time up, and there is more to come.
    query.spent = budget + Duration::from_millis(1);
    let result = world.store.page(query.clone()).await;
    let Err(Error::OverBudget { budget: told, filter }) = result else {
        panic!("{result:?}")
    };
    assert_eq!(told, budget);
    assert!(filter.contains("12345"), "{filter}");
    query.spent = Duration::ZERO;
    let page = world.store.page(query).await.expect("a query within its budget");
    assert_eq!(page.events.len(), 1);
}

pub async fn store_k05_a_long_query_ends_and_the_store_goes_on<E: Engine>() {
    if !E::HAS_BUDGET {
        eprintln!("skipped: this engine gives queries no time budget");
        return;
    }
    let world = World::<E>::open_with(|options| options.query_budget = Duration::from_nanos(1)).await;
    let all: Vec<_> = (0..3_000).map(|n| tagged(ALICE, n, &[["t", "x"]])).collect();
    world.store.insert_batch(all).await;
    let long = || parse(&[r##"{"#t":["x","none"],"&r":["none"]}"##, r#"{"since":1}"#]);
    assert!(matches!(
        world.store.query(long()).await,
        Err(Error::OverBudget { .. })
    ));
    assert!(matches!(
        world.store.count(long()).await,
        Err(Error::OverBudget { .. })
    ));
    assert!(matches!(
        world.store.snapshot(long(), 5_000).await,
        Err(Error::OverBudget { .. })
    ));
    world.put([&note(BOB, 1, "")]).await;
}
