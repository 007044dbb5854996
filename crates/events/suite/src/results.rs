//! What a query gives: the union, the order, limits and what matches nothing: STORE-F07 to F14, S01, S05.

use std::{collections::BTreeSet, sync::Arc};

use esker_nostr::{Event, EventFields, Filter};

use crate::{
    Engine,
    events::{ALICE, BOB, CAROL, event, id, key, note, tagged, ties, untagged, version},
    world::{World, parse},
};

pub async fn store_f07_several_filters_are_a_union<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        tagged(ALICE, 5, &[["t", "x"]]),
        tagged(BOB, 4, &[["t", "x"]]),
        tagged(ALICE, 3, &[["t", "y"]]),
        untagged(BOB, 7, 2, ""),
        note(CAROL, 1, ""),
    ];
    world.put(&all).await;
    let alice = format!(r#"{{"authors":["{}"]}}"#, key(ALICE));
    world.finds(&[&alice, r##"{"#t":["x"]}"##], &all[..3]).await;
    world.finds(&[r##"{"#t":["x"]}"##, &alice], &all[..3]).await;
    world.finds(&[&alice, &alice], [&all[0], &all[2]]).await;
    world
        .finds(
            &[r#"{"kinds":[7]}"#, r##"{"#t":["y"]}"##, r#"{"until":1}"#],
            &all[2..],
        )
        .await;
    world
        .finds(&[r#"{"kinds":[7]}"#, r#"{"kinds":[8]}"#], [&all[3]])
        .await;
}

pub async fn store_f07_each_filter_has_its_own_limit<E: Engine>() {
    let world = World::<E>::open().await;
    let ones: Vec<_> = [9, 7, 5, 3].map(|at| untagged(ALICE, 1, at, "")).to_vec();
    let sevens: Vec<_> = [8, 6, 4, 2].map(|at| untagged(ALICE, 7, at, "")).to_vec();
    world.put(&ones).await;
    world.put(&sevens).await;
    let (one, seven) = (|n: usize| &ones[n], |n: usize| &sevens[n]);
    world
        .finds(
            &[r#"{"kinds":[1],"limit":2}"#, r#"{"kinds":[7],"limit":1}"#],
            [one(0), seven(0), one(1)],
        )
        .await;
    world
        .finds(
            &[r#"{"kinds":[1],"limit":1}"#, r#"{"kinds":[7]}"#],
            [one(0), seven(0), seven(1), seven(2), seven(3)],
        )
        .await;
    // An event that both match is one of each one's limit, not an extra.
    world
        .finds(
            &[r#"{"limit":2}"#, r#"{"kinds":[1],"limit":2}"#],
            [one(0), seven(0), one(1)],
        )
        .await;
    world
        .finds(
            &[r#"{"limit":3}"#, r#"{"kinds":[7],"limit":1}"#],
            [one(0), seven(0), one(1)],
        )
        .await;
    world
        .finds(
            &[r#"{"kinds":[1],"limit":0}"#, r#"{"kinds":[7],"limit":1}"#],
            [seven(0)],
        )
        .await;
}

pub async fn store_f08_ties_go_by_id_on_every_path<E: Engine>() {
    let world = World::<E>::open().await;
    let notes = ties(6, |n| {
        event(
            n.parse::<usize>().expect("a digit") % 3,
            1,
            100,
            &[["t", "x"], ["r", n]],
            n,
        )
    });
    let newer = tagged(ALICE, 101, &[["t", "x"]]);
    let older = tagged(BOB, 99, &[["t", "x"]]);
    let mut all = vec![newer];
    all.extend(notes);
    all.push(older);
    // Stored in no order.
    for n in [3, 0, 6, 1, 7, 5, 2, 4] {
        world.put([&all[n]]).await;
    }
    let authors = [ALICE, BOB, CAROL]
        .map(|who| format!("\"{}\"", key(who)))
        .join(",");
    let ids = all
        .iter()
        .map(|event| format!("\"{}\"", id(event)))
        .collect::<Vec<_>>()
        .join(",");
    for filter in [
        String::new(),
        r#""kinds":[1],"#.into(),
        r#""kinds":[1,2,7],"#.into(),
        format!(r#""authors":[{authors}],"#),
        format!(r#""authors":[{authors}],"kinds":[1],"#),
        format!(r#""authors":[{authors}],"kinds":[0,1,3],"#),
        format!(r#""ids":[{ids}],"#),
        r##""#t":["x"],"##.into(),
        r##""#t":["x","y"],"##.into(),
        r##""#t":["x","y"],"kinds":[1,7],"##.into(),
        r#""&t":["x"],"#.into(),
        r#""since":99,"until":101,"#.into(),
    ] {
        for limit in 0..=9 {
            world
                .finds(
                    &[&format!(r#"{{{filter}"limit":{limit}}}"#)],
                    all.iter().take(limit),
                )
                .await;
        }
        world
            .finds(
                &[&format!(r#"{{{filter}"limit":4}}"#), r#"{"kinds":[2]}"#],
                all.iter().take(4),
            )
            .await;
    }
}

pub async fn store_f09_a_merge_over_authors_finds_what_a_scan_finds<E: Engine>() {
    let world = World::<E>::open().await;
    // Ties across authors and kinds, some authors with many events and some with one.
    let mut all: Vec<Arc<Event>> = Vec::new();
    for author in 0..20 {
        for n in 0..=(author % 5) {
            let at = i64::try_from((author * 7 + n * 3) % 11).expect("small");
            all.push(untagged(author, [1, 6, 7][(author + n) % 3], at, &n.to_string()));
        }
    }
    world.store.insert_batch(all.clone()).await;
    all.sort_by_key(|event| esker_events_api::admission::position(&**event));
    for (authors, kinds) in [
        (0..20, vec![1, 6]),
        (3..15, vec![7]),
        (0..2, vec![1, 6, 7]),
        (0..20, vec![]),
    ] {
        // Each author twice: a list has no say in how often an event is found.
        let keys = authors
            .clone()
            .chain(authors.clone())
            .map(|n| format!("\"{}\"", key(n)));
        let keys = keys.collect::<Vec<_>>().join(",");
        let kinds_json = if kinds.is_empty() {
            String::new()
        } else {
            format!(r#""kinds":{kinds:?},"#)
        };
        let wanted: BTreeSet<_> = authors.map(crate::events::pubkey).collect();
        let plain = all.iter().filter(|event| {
            wanted.contains(&event.pubkey()) && (kinds.is_empty() || kinds.contains(&event.kind()))
        });
        for limit in [1, 2, 5, 13, 1000] {
            let filter = format!(r#"{{"authors":[{keys}],{kinds_json}"limit":{limit}}}"#);
            world.finds(&[&filter], plain.clone().take(limit)).await;
        }
        let window = format!(r#"{{"authors":[{keys}],{kinds_json}"since":3,"until":7,"limit":6}}"#);
        world
            .finds(
                &[&window],
                plain
                    .clone()
                    .filter(|event| (3..=7).contains(&event.created_at()))
                    .take(6),
            )
            .await;
        world
            .finds(&[&format!(r#"{{"authors":[{keys}],{kinds_json}"since":2}}"#)], {
                plain.clone().filter(|event| event.created_at() >= 2)
            })
            .await;
    }
}

pub async fn store_f09_a_merge_over_tag_values_finds_what_a_scan_finds<E: Engine>() {
    let world = World::<E>::open().await;
    let mut all: Vec<Arc<Event>> = (0..60)
        .map(|n: usize| {
            let tags = [["t", &format!("v{}", n % 8)], ["t", &format!("v{}", n % 5)]];
            event(
                n % 4,
                [1, 7][n % 2],
                i64::try_from(n % 9).expect("small"),
                &tags,
                &n.to_string(),
            )
        })
        .collect();
    world.store.insert_batch(all.clone()).await;
    all.sort_by_key(|event| esker_events_api::admission::position(&**event));
    for (values, rest) in [
        (vec!["v0", "v1"], ""),
        (vec!["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v0"], ""),
        (vec!["v3", "none"], r#""kinds":[1],"#),
        (vec!["v4", "v2"], r#""kinds":[7,1],"since":2,"#),
    ] {
        let matching = parse(&[&format!(r##"{{{rest}"#t":{values:?}}}"##)]);
        let plain = all
            .iter()
            .filter(|event| crate::naive::matches(&matching[0], event));
        for limit in [1, 3, 10, 1000] {
            let filter = format!(r##"{{{rest}"#t":{values:?},"limit":{limit}}}"##);
            world.finds(&[&filter], plain.clone().take(limit)).await;
        }
        world
            .finds_by(&matching, &plain.cloned().collect::<Vec<_>>())
            .await;
    }
}

pub async fn store_f10_the_empty_filter_matches_everything_and_deletes_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    world.finds(&["{}"], []).await;
    let all = [
        untagged(ALICE, 40_000, 3, ""),
        untagged(BOB, 0, 2, ""),
        version(CAROL, 30_000, "d", 1, ""),
    ];
    world.put(&all).await;
    world.matches("{}", &all, &all).await;
    world.finds(&["{}", "{}"], &all).await;
    for none in [
        &["{}"][..],
        &["{}", "{}"],
        &[r#"{"limit":2}"#],
        &[r#"{"search":""}"#],
        &[r#"{"search":"a:b"}"#],
    ] {
        assert_eq!(world.delete(none).await, 0, "{none:?}");
    }
    assert_eq!(
        world.delete(&["{}", r#"{"kinds":[0]}"#]).await,
        1,
        "the others still act"
    );
    world.holds([&all[0], &all[2]]).await;
}

pub async fn store_f11_an_empty_list_matches_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [tagged(ALICE, 2, &[["t", "x"]]), untagged(BOB, 7, 1, "")];
    world.put(&all).await;
    for empty in [
        r#"{"ids":[]}"#,
        r#"{"authors":[]}"#,
        r#"{"kinds":[]}"#,
        r##"{"#t":[]}"##,
        r#"{"&t":[]}"#,
        r##"{"#t":["x"],"#r":[]}"##,
        r##"{"#t":["x"],"&t":[]}"##,
        r#"{"kinds":[1],"authors":[]}"#,
        r#"{"ids":[],"limit":5}"#,
        r#"{"authors":[],"since":0}"#,
        // What no event can have leaves an empty list, not none.
        r#"{"kinds":[65536]}"#,
        r#"{"ids":["abc"]}"#,
    ] {
        world.matches(empty, &all, []).await;
        world.finds(&[empty, empty], []).await;
        world.finds(&[empty, r#"{"kinds":[7]}"#], [&all[1]]).await;
        world.finds(&["{}", empty], &all).await;
        assert_eq!(world.delete(&[empty]).await, 0, "{empty}");
    }
    assert_eq!(world.delete(&[r#"{"ids":[]}"#, r#"{"kinds":[7]}"#]).await, 1);
    world.holds([&all[0]]).await;
}

pub async fn store_f12_limits_keep_the_newest<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..5).map(|n| tagged(ALICE, 100 - n, &[["t", "x"]])).collect();
    world.put(&all).await;
    let author = key(ALICE);
    for rest in [
        "",
        r#","kinds":[1]"#,
        r##","#t":["x"]"##,
        &format!(r#","authors":["{author}"]"#),
    ] {
        for limit in [0, 1, 4, 5, 6, 500] {
            world
                .finds(
                    &[&format!(r#"{{"limit":{limit}{rest}}}"#)],
                    all.iter().take(limit),
                )
                .await;
        }
        world
            .finds(&[&format!(r#"{{"limit":{}{rest}}}"#, u64::MAX)], &all)
            .await;
    }
    world.finds(&[r#"{"limit":0}"#, r#"{"limit":0}"#], []).await;
    for refused in [
        r#"{"limit":-1}"#,
        r#"{"limit":1.5}"#,
        r#"{"limit":"1"}"#,
        r#"{"limit":null}"#,
    ] {
        assert!(Filter::parse(refused.as_bytes()).is_err(), "{refused}");
    }
}

pub async fn store_f12_no_limit_is_no_hidden_limit<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..1_500).map(|n| untagged(ALICE, 1, 10_000 - n, "")).collect();
    world.store.insert_batch(all.clone()).await;
    world.holds(&all).await;
    world.finds(&[r#"{"kinds":[1]}"#], &all).await;
}

pub async fn store_f13_store_and_matcher_agree<E: Engine>() {
    let mut random = esker_testing::random::Random::new(13);
    for _ in 0..4 {
        let world = World::<E>::open().await;
        let mut scene = crate::model::Scene::new(crate::model::Profile::Wide, &mut random);
        let offered: Vec<_> = (0..120).map(|_| scene.event(&mut random)).collect();
        world.store.insert_batch(offered).await;
        let ids = world.store.query(parse(&["{}"])).await.expect("query");
        let stored: Vec<_> = ids
            .into_iter()
            .map(|json| Arc::new(Event::from_canonical(json).expect("canonical JSON")))
            .collect();
        for _ in 0..60 {
            let filter = Filter {
                limit: None,
                search: None,
                ..scene.filter(&mut random)
            };
            let expected: Vec<_> = stored
                .iter()
                .filter(|event| crate::naive::matches(&filter, event))
                .collect();
            world.matches(&filter.to_string(), &stored, expected).await;
        }
    }
}

pub async fn store_f14_no_filters_match_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [note(ALICE, 2, ""), untagged(BOB, 7, 1, "")];
    world.put(&all).await;
    world.finds(&[], []).await;
    assert_eq!(world.delete(&[]).await, 0);
    world.finds(&["{}", r#"{"kinds":[7]}"#], &all).await;
    world.finds(&[r#"{"kinds":[7]}"#, "{}"], &all).await;
}

pub async fn store_s01_a_search_made_only_of_extensions_constrains_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [note(ALICE, 2, "spam"), untagged(BOB, 7, 1, "language")];
    world.put(&all).await;
    world
        .finds(&[r#"{"search":"include:spam language:en"}"#], &all)
        .await;
    world
        .finds(&[r#"{"search":"include:spam","kinds":[7]}"#], [&all[1]])
        .await;
    assert_eq!(world.delete(&[r#"{"search":"include:spam"}"#]).await, 0);
}

pub async fn store_s05_without_search_a_search_matches_nothing<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [note(ALICE, 2, "word"), untagged(BOB, 7, 1, "word")];
    world.put(&all).await;
    world.finds(&[r#"{"search":"word"}"#], []).await;
    world.finds(&[r#"{"search":"word","kinds":[1]}"#], []).await;
    world
        .finds(&[r#"{"search":"word"}"#, r#"{"kinds":[7]}"#], [&all[1]])
        .await;
    world.finds(&[r#"{"search":""}"#], &all).await;
    world.finds(&[r#"{"search":"  ","kinds":[1]}"#], [&all[0]]).await;
    assert_eq!(world.delete(&[r#"{"search":"word","kinds":[1]}"#]).await, 0);
    world.holds(&all).await;
}
