//! What a lookup and a delivery allocate, counted.

use std::sync::Arc;

use esker_events_api::Accepted;
use esker_live::{FilterIndex, Outbound, OutboundLimits, Sink, Subscription};
use esker_nostr::{EventFields, Filter, Keys, TagCondition};

fn allocations(what: impl FnOnce()) -> u64 {
    allocation_counter::measure(what).count_total
}

#[test]
fn live_04_a_lookup_allocates_nothing() {
    let keys = Keys::from_seed(1);
    let tags = [vec!["t", "x"], vec!["t", "y"], vec!["p", "z"]];
    let event = keys.sign(1, 1, &tags, "");
    let by_tag = |value: &str| Filter {
        tags: vec![TagCondition {
            name: 't',
            values: [value.into()].into_iter().collect(),
        }],
        ..Filter::default()
    };
    let filters = [
        Filter {
            ids: Some([event.id()].into_iter().collect()),
            ..Filter::default()
        },
        Filter {
            authors: Some([keys.public()].into_iter().collect()),
            ..Filter::default()
        },
        Filter {
            kinds: Some([1].into_iter().collect()),
            ..Filter::default()
        },
        by_tag("x"),
        by_tag("y"),
        Filter::default(),
    ];
    let mut index = FilterIndex::new();
    for subscriber in 0..6000 {
        index.register(&filters[subscriber % 6..=subscriber % 6], subscriber);
    }
    let mut found = 0;
    assert_eq!(
        allocations(|| index.for_each_candidate(&event, |_| found += 1)),
        0
    );
    assert_eq!(found, 6000);
}

#[test]
fn live_11_a_delivery_copies_neither_body_nor_head() {
    let event = Arc::new(Keys::from_seed(1).sign(1, 1, &[] as &[Vec<String>], &"long ".repeat(1000)));
    let outbound = Arc::new(Outbound::new(OutboundLimits {
        bytes: 10 << 20,
        frames: 2000,
    }));
    let subscription = Subscription::new("s", Arc::clone(&outbound));
    subscription.stored([]);
    subscription.stored_done();
    let accepted = Accepted {
        offset: Some(1),
        event,
    };
    // The queue grows by doubling; nothing else allocates.
    let info = allocation_counter::measure(|| (0..1000).for_each(|_| subscription.deliver(&accepted)));
    assert_eq!(outbound.len(), 1001);
    assert!(info.count_total <= 10, "{info:?}");
}
