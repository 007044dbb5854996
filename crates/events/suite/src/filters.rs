//! What one filter matches: STORE-F01 to F06.

use std::collections::BTreeSet;

use esker_nostr::Filter;

use crate::{
    Engine,
    events::{ALICE, BOB, event, id, key, note, tagged, untagged},
    world::{World, parse},
};

/// A hex value that is no event's id and nobody's key.
const X: &str = "00000000000000000000000000000000000000000000000000000000000000aa";
const Y: &str = "00000000000000000000000000000000000000000000000000000000000000bb";

pub async fn store_f01_since_and_until_are_inclusive<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (99..=101).map(|at| tagged(ALICE, at, &[["t", "x"]])).collect();
    world.put(&all).await;
    let author = key(ALICE);
    // The same bounds on each access path.
    for rest in [
        String::new(),
        r#","kinds":[1]"#.into(),
        format!(r#","authors":["{author}"]"#),
        format!(r#","authors":["{author}","{X}"],"kinds":[1,2]"#),
        r##","#t":["x"]"##.into(),
        r##","#t":["x","y"],"kinds":[1]"##.into(),
        r#","&t":["x"]"#.into(),
        format!(
            r#","ids":["{}","{}","{}"]"#,
            id(&all[0]),
            id(&all[1]),
            id(&all[2])
        ),
    ] {
        world
            .matches(&format!(r#"{{"since":100{rest}}}"#), &all, &all[1..])
            .await;
        world
            .matches(&format!(r#"{{"until":100{rest}}}"#), &all, &all[..2])
            .await;
        world
            .matches(&format!(r#"{{"since":100,"until":100{rest}}}"#), &all, [&all[1]])
            .await;
        world
            .matches(&format!(r#"{{"since":101,"until":100{rest}}}"#), &all, [])
            .await;
        world
            .matches(&format!(r#"{{"since":102{rest}}}"#), &all, [])
            .await;
        world.matches(&format!(r#"{{"until":98{rest}}}"#), &all, []).await;
    }
}

pub async fn store_f02_ids_match_whole_lowercase_hex_only<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [note(ALICE, 1, "a"), note(ALICE, 2, "b")];
    world.put(&all).await;
    let (a, b) = (id(&all[0]), id(&all[1]));
    let upper = a.to_uppercase();
    for other in [
        "",
        "ab",
        "not hex",
        &a[..63],
        &a[..8],
        &upper,
        &format!("{a}0"),
        X,
    ] {
        world
            .matches(&format!(r#"{{"ids":["{other}"]}}"#), &all, [])
            .await;
        world
            .matches(&format!(r#"{{"ids":["{other}","{b}"]}}"#), &all, [&all[1]])
            .await;
    }
    world
        .matches(&format!(r#"{{"ids":["{b}","{a}","{b}"]}}"#), &all, &all)
        .await;
}

pub async fn store_f02_authors_match_whole_lowercase_hex_only<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [note(ALICE, 1, "a"), note(BOB, 2, "b")];
    world.put(&all).await;
    let (a, b) = (key(ALICE), key(BOB));
    let upper = a.to_uppercase();
    for other in [
        "",
        "ab",
        "not hex",
        &a[..63],
        &a[..8],
        &upper,
        &format!("{a}0"),
        X,
    ] {
        for kinds in ["", r#","kinds":[1]"#] {
            world
                .matches(&format!(r#"{{"authors":["{other}"]{kinds}}}"#), &all, [])
                .await;
            world
                .matches(
                    &format!(r#"{{"authors":["{other}","{b}"]{kinds}}}"#),
                    &all,
                    [&all[1]],
                )
                .await;
        }
    }
}

pub async fn store_f03_values_are_alternatives_and_names_must_all_match<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        tagged(ALICE, 1, &[["t", "x"], ["r", "1"]]),
        tagged(ALICE, 2, &[["t", "y"], ["r", "1"]]),
        tagged(ALICE, 3, &[["t", "x"], ["r", "2"]]),
        tagged(ALICE, 4, &[["t", "x"]]),
        tagged(ALICE, 5, &[["r", "x"], ["t", "1"]]),
        note(ALICE, 6, "none"),
    ];
    world.put(&all).await;
    world
        .matches(r##"{"#t":["x"]}"##, &all, [&all[0], &all[2], &all[3]])
        .await;
    world.matches(r##"{"#t":["x","y"]}"##, &all, &all[..4]).await;
    world
        .matches(r##"{"#t":["x"],"#r":["1"]}"##, &all, [&all[0]])
        .await;
    world
        .matches(r##"{"#t":["x","y"],"#r":["1"]}"##, &all, &all[..2])
        .await;
    world
        .matches(r##"{"#t":["x"],"#r":["1","2"]}"##, &all, [&all[0], &all[2]])
        .await;
    world.matches(r##"{"#t":["x"],"#r":["3"]}"##, &all, []).await;
    world.matches(r##"{"#t":["z"]}"##, &all, []).await;
}

pub async fn store_f03_tags_all_needs_every_value<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        tagged(ALICE, 1, &[["t", "x"]]),
        tagged(ALICE, 2, &[["t", "x"], ["t", "y"]]),
        tagged(BOB, 3, &[["t", "y"], ["r", "1"], ["t", "x"], ["t", "z"]]),
        tagged(BOB, 4, &[["r", "x"], ["r", "y"], ["r", "1"], ["t", "y"]]),
    ];
    world.put(&all).await;
    let bob = key(BOB);
    world.matches(r#"{"&t":["x"]}"#, &all, &all[..3]).await;
    world.matches(r#"{"&t":["x","y"]}"#, &all, &all[1..3]).await;
    world.matches(r#"{"&t":["y","x","y"]}"#, &all, &all[1..3]).await;
    world.matches(r#"{"&t":["x","y","z"]}"#, &all, [&all[2]]).await;
    world.matches(r#"{"&t":["x","missing"]}"#, &all, []).await;
    world
        .matches(r#"{"&t":["x","y"],"&r":["1"]}"#, &all, [&all[2]])
        .await;
    world
        .matches(r#"{"&t":["y"],"&r":["1","x"]}"#, &all, [&all[3]])
        .await;
    world
        .matches(r##"{"&t":["x"],"#t":["z","w"]}"##, &all, [&all[2]])
        .await;
    world
        .matches(r##"{"&t":["y"],"#r":["1","2"]}"##, &all, &all[2..])
        .await;
    world
        .matches(r#"{"&t":["x","y"],"kinds":[1],"since":3}"#, &all, [&all[2]])
        .await;
    world
        .matches(
            &format!(r#"{{"&t":["x","y"],"authors":["{bob}"]}}"#),
            &all,
            [&all[2]],
        )
        .await;
}

pub async fn store_f04_a_filter_sees_the_first_value_of_its_own_name<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        event(ALICE, 1, 1, &[vec!["p", X]], ""),
        event(ALICE, 1, 2, &[vec!["e", X, Y]], ""),
        event(ALICE, 1, 3, &[vec!["e", Y, X], vec!["P", X]], ""),
        event(ALICE, 1, 4, &[vec!["q", X], vec!["t", "Nostr"]], ""),
        event(
            ALICE,
            1,
            5,
            &[
                vec!["t", "nostr"],
                vec!["é", "accent"],
                vec!["5", "digit"],
                vec!["🔥", "x"],
            ],
            "",
        ),
    ];
    world.put(&all).await;
    // A value under another name is another value.
    world
        .matches(&format!(r##"{{"#p":["{X}"]}}"##), &all, [&all[0]])
        .await;
    world
        .matches(&format!(r##"{{"#P":["{X}"]}}"##), &all, [&all[2]])
        .await;
    world
        .matches(&format!(r##"{{"#e":["{X}"]}}"##), &all, [&all[1]])
        .await;
    world
        .matches(&format!(r##"{{"#e":["{Y}"]}}"##), &all, [&all[2]])
        .await;
    world.matches(&format!(r##"{{"#t":["{X}"]}}"##), &all, []).await;
    world.matches(r##"{"#t":["nostr"]}"##, &all, [&all[4]]).await;
    world.matches(r##"{"#t":["Nostr"]}"##, &all, [&all[3]]).await;
    world.matches(r##"{"#é":["accent"]}"##, &all, [&all[4]]).await;
    world.matches(r##"{"#5":["digit"]}"##, &all, [&all[4]]).await;
    world.matches(r##"{"#🔥":["x"]}"##, &all, [&all[4]]).await;
}

pub async fn store_f04_a_tag_needs_a_value_and_a_one_character_name<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        event(
            ALICE,
            1,
            1,
            &[vec!["t"], vec!["title", "word"], vec![], vec!["", "word"]],
            "",
        ),
        event(ALICE, 1, 2, &[vec!["t", ""], vec!["-"]], ""),
    ];
    world.put(&all).await;
    world.matches(r##"{"#t":[""]}"##, &all, [&all[1]]).await;
    world.matches(r##"{"#title":["word"]}"##, &all, []).await;
    world
        .matches(r##"{"#title":["word"],"kinds":[1]}"##, &all, [])
        .await;
    world.matches(r##"{"#-":[""]}"##, &all, []).await;
}

pub async fn store_f04_values_compare_whole_and_exact<E: Engine>() {
    let world = World::<E>::open().await;
    let long = "v".repeat(300);
    let longer = format!("{long}w");
    // Prefixes of each other, hex of odd length and of upper case, blanks, escapes, digits that look like numbers.
    let values = [
        "", "a", "ab", "abc", "A", " a", "a ", "a\0", "0a1", "0A1", "00", "0", "1e0", "é", "e\u{301}", "\"",
        "\\", "\n", "😀", "'; --", "%", "_", &long, &longer,
    ];
    let all: Vec<_> = (0..)
        .zip(values)
        .map(|(at, value)| tagged(ALICE, at, &[["t", value]]))
        .collect();
    world.put(&all).await;
    for (value, event) in values.iter().zip(&all) {
        let mut filter = Filter::default();
        filter.tags.push(esker_nostr::TagCondition {
            name: 't',
            values: [Box::from(*value)].into_iter().collect(),
        });
        world.matches(&filter.to_string(), &all, [event]).await;
    }
}

pub async fn store_f05_an_addressable_event_has_one_d<E: Engine>() {
    let world = World::<E>::open().await;
    let all = [
        event(ALICE, 30_000, 1, &[["d", "a"], ["d", "b"]], ""),
        event(ALICE, 30_000, 2, &[["d", "b"]], ""),
        event(ALICE, 30_000, 3, &[["t", "no d"]], ""),
        event(BOB, 30_000, 4, &[["d", ""]], ""),
        event(BOB, 30_001, 5, &[vec!["d"], vec!["d", "c"]], ""),
        // Other kinds have as many as they like.
        event(BOB, 1, 6, &[["d", "a"], ["d", "b"]], ""),
        event(BOB, 10_000, 7, &[["d", "a"]], ""),
        untagged(BOB, 1, 8, "no d"),
    ];
    world.put(&all).await;
    world
        .matches(r##"{"#d":["a"]}"##, &all, [&all[0], &all[5], &all[6]])
        .await;
    world.matches(r##"{"#d":["b"]}"##, &all, [&all[1], &all[5]]).await;
    world.matches(r##"{"#d":["c"]}"##, &all, [&all[4]]).await;
    world.matches(r##"{"#d":[""]}"##, &all, [&all[2], &all[3]]).await;
    world
        .matches(r##"{"#d":["a","b",""],"kinds":[30000]}"##, &all, &all[..4])
        .await;
    world
        .matches(
            r##"{"#d":["a"],"kinds":[30000,30001,1]}"##,
            &all,
            [&all[0], &all[5]],
        )
        .await;
    world
        .matches(r#"{"&d":["a"]}"#, &all, [&all[0], &all[5], &all[6]])
        .await;
    world.matches(r#"{"&d":["a","b"]}"#, &all, [&all[5]]).await;
    world
        .matches(r#"{"&d":["a","b"],"kinds":[30000]}"#, &all, [])
        .await;
    let alice = key(ALICE);
    let address = format!(r##"{{"kinds":[30000],"authors":["{alice}"],"#d":["b"]}}"##);
    world.matches(&address, &all, [&all[1]]).await;
}

pub async fn store_f06_every_value_finds_exactly_its_own<E: Engine>() {
    let world = World::<E>::open().await;
    let all: Vec<_> = (0..500)
        .map(|n| {
            tagged(
                ALICE,
                n % 7,
                &[["t", &format!("v{n}")], ["r", &format!("v{}", n % 100)]],
            )
        })
        .collect();
    let outcomes = world.store.insert_batch(all.clone()).await;
    assert_eq!(outcomes.len(), 500);
    for (n, event) in all.iter().enumerate() {
        let found = world
            .store
            .query(parse(&[&format!(r##"{{"#t":["v{n}"]}}"##)]))
            .await
            .expect("query");
        assert_eq!(found, [event.json().clone()], "v{n}");
    }
    for n in [0, 50, 99] {
        let expected: BTreeSet<_> = all
            .iter()
            .skip(n)
            .step_by(100)
            .map(|event| event.json().clone())
            .collect();
        let found = world
            .store
            .query(parse(&[&format!(r##"{{"#r":["v{n}"]}}"##)]))
            .await
            .expect("query");
        assert_eq!(found.len(), 5, "each once");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
