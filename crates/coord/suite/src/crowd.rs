//! CS-04 with processes: in each of several, many publish while many read, and no reader passes an event.
//!
//! For an engine on which processes share a store. Its test starts itself again [so many times](PROCESSES): the children
//! [publish and read](publish_and_read), and the test [looks at the end](is_whole).

use std::collections::BTreeMap;

use esker_coord_api::{EventReceiver, Store, StreamEvent};
use esker_testing::processes::line_up;

use crate::world::{events, stream};

pub const PROCESSES: usize = 2;

const PUBLISHERS: usize = 8;
const READERS: usize = 4;
/// What each publisher commits.
const EVENTS: usize = 25;
const ALL: usize = PROCESSES * PUBLISHERS * EVENTS;

/// In a child, with its number.
///
/// # Panics
///
/// When a reader passes an event, or sees one that was rolled back.
pub async fn publish_and_read(store: &Store, process: usize) {
    let mut tasks = Vec::new();
    for reader in 0..READERS {
        let consumer = format!("{process}/{reader}");
        let receiver = stream(store, "s").subscribe(&consumer).await.unwrap();
        tasks.push(tokio::spawn(read(receiver)));
    }
    // From here on all are at it together.
    line_up();
    for publisher in 0..PUBLISHERS {
        let publisher = format!("{process}.{publisher}");
        tasks.push(tokio::spawn(publish(store.clone(), publisher)));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// In the test: what all of them have published.
///
/// # Panics
///
/// When an event is missing, or one is there that was rolled back.
pub async fn is_whole(store: &Store) {
    let mut seen = Seen::default();
    events(&stream(store, "s"))
        .await
        .iter()
        .for_each(|event| seen.take(event));
    assert_eq!(seen.count, ALL);
}

async fn publish(store: Store, publisher: String) {
    for n in 0..EVENTS {
        let text = format!("{publisher} {n}");
        if n % 5 == 0 {
            let mut ghost = store.begin().await.unwrap();
            ghost.publish("s", "ghost").await.unwrap();
            tokio::task::yield_now().await;
        }
        if n % 3 == 0 {
            stream(&store, "s").publish(text).await.unwrap();
            continue;
        }
        let mut transaction = store.begin().await.unwrap();
        transaction.publish("s", text).await.unwrap();
        // It commits late, so that others come between where they can.
        for _ in 0..n {
            tokio::task::yield_now().await;
        }
        transaction.commit().await.unwrap();
    }
}

async fn read(mut receiver: EventReceiver) {
    let mut seen = Seen::default();
    while seen.count < ALL {
        let event = receiver.recv().await.expect("the store lives").unwrap();
        seen.take(&event);
    }
}

/// Offsets come one after the other, and each publisher's events in its order.
#[derive(Default)]
struct Seen {
    count: usize,
    next: BTreeMap<String, usize>,
}

impl Seen {
    fn take(&mut self, event: &StreamEvent) {
        self.count += 1;
        assert_eq!(usize::try_from(event.offset).unwrap(), self.count);
        let text = String::from_utf8(event.payload.as_bytes().to_vec()).unwrap();
        let (publisher, n) = text.split_once(' ').expect("no ghost");
        let next = self.next.entry(publisher.to_owned()).or_default();
        assert_eq!(n.parse(), Ok(*next), "{publisher}");
        *next += 1;
    }
}
