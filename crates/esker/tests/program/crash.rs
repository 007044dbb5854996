//! kill -9 at many moments under full ingest: what got `OK true` is there, the file is whole, serving goes on.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use esker_coord::sqlite::{Database, Error, Options};
use esker_events_api::{EventStore as _, Options as StoreOptions};
use esker_events_sqlite::{Settings, SqliteStore};
use esker_nostr::{Event, EventFields as _, EventId, Filter, Keys, kind};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Client, Folder, Relay};

const ROUNDS: u64 = 20;
const CONNECTIONS: usize = 4;
const SEED: u64 = 0x5EED;

/// Events of all ways of being kept: plain ones with tags, versions that replace each other, deletions.
fn events(round: u64, connection: usize) -> Vec<Event> {
    let mut deleted: Option<EventId> = None;
    (0..800_u64)
        .map(|index| {
            let keys = Keys::from_seed(connection as u64 * 7 + index % 3);
            let created_at = i64::try_from(1_700_000_000 + round * 10_000 + index).unwrap();
            let content = format!("round {round} connection {connection} event {index}");
            match index % 20 {
                7 => keys.sign::<&str>(0, created_at, &[], &content),
                13 => keys.sign(30_023, created_at, &[vec!["d", "article"]], &content),
                17 => {
                    // Of the same author: three indexes ago was index % 3 the same.
                    let target = deleted.take().map(|id| id.to_string()).unwrap_or_default();
                    keys.sign(5, created_at, &[vec!["e".to_owned(), target]], "")
                }
                _ => {
                    let event = keys.sign(
                        1,
                        created_at,
                        &[vec!["t", "crash"], vec!["r", &content]],
                        &content,
                    );
                    if index % 20 == 14 {
                        deleted = Some(event.id());
                    }
                    event
                }
            }
        })
        .collect()
}

/// Publishes until the relay dies; the ids that got `OK true`.
async fn publish(
    client: Client,
    events: Arc<Vec<Event>>,
    answered: Arc<AtomicUsize>,
    news: Arc<Notify>,
) -> Vec<EventId> {
    let (mut sink, mut stream) = client.stream().split();
    let outgoing = Arc::clone(&events);
    let sender = tokio::spawn(async move {
        for event in outgoing.iter() {
            let json = std::str::from_utf8(event.json()).unwrap();
            if sink
                .send(Message::text(format!("[\"EVENT\",{json}]")))
                .await
                .is_err()
            {
                break;
            }
        }
        // Kept open: the relay is to die, not to be left.
        sink
    });
    let by_id: HashMap<String, EventId> = events
        .iter()
        .map(|event| (event.id().to_string(), event.id()))
        .collect();
    let mut accepted = Vec::new();
    while let Some(Ok(message)) = stream.next().await {
        let Message::Text(text) = message else { continue };
        let reply: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(reply[0], "OK", "{reply}");
        if reply[2] == true {
            accepted.push(by_id[reply[1].as_str().unwrap()]);
        }
        answered.fetch_add(1, Ordering::SeqCst);
        news.notify_one();
    }
    sender.abort();
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_w11_twenty_kills_under_full_ingest_lose_nothing_that_was_answered() {
    let folder = Folder::new();
    // Plain notes that were answered, not deleted since: they must be there for ever.
    let mut promised: Vec<EventId> = Vec::new();
    let mut random = SEED;
    for round in 0..ROUNDS {
        // A tag index whose rows wait in memory, and one that is written all the time.
        let waiting = format!(
            "sqlite.waiting_tag_rows={}",
            if round % 2 == 0 { 200_000 } else { 50 }
        );
        let relay = Relay::start(&folder, &["--set", "log.level=warn", "--set", &waiting]);
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let moment = usize::try_from((random >> 33) % 1_700).unwrap() + 1;
        let (answered, news) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let mut all = Vec::new();
        let mut tasks = Vec::new();
        for connection in 0..CONNECTIONS {
            let events = Arc::new(events(round, connection));
            all.push(Arc::clone(&events));
            let client = Client::connect(&relay).await;
            tasks.push(tokio::spawn(publish(
                client,
                events,
                Arc::clone(&answered),
                Arc::clone(&news),
            )));
        }
        while answered.load(Ordering::SeqCst) < moment {
            news.notified().await;
        }
        relay.kill();
        let mut accepted = Vec::new();
        for task in tasks {
            accepted.extend(task.await.unwrap());
        }
        assert!(
            accepted.len() >= moment / 2,
            "round {round}: {} of {moment}",
            accepted.len()
        );
        check(
            &folder,
            round,
            &all.iter().flat_map(|events| events.iter()).collect::<Vec<_>>(),
            &accepted,
            &mut promised,
        )
        .await;
    }
    let relay = Relay::start(&folder, &[]);
    let mut client = Client::connect(&relay).await;
    let after = crate::support::note(1, 1_790_000_000, "after all that");
    client.publish(&after).await;
    assert_eq!(client.next().await.unwrap()[2], true);
    assert!(promised.len() > 1_000, "{} promised", promised.len());
}

/// Opens the dead relay's file: it is whole, every promise is kept, and every path to an event finds it.
async fn check(
    folder: &Folder,
    round: u64,
    events: &[&Event],
    accepted: &[EventId],
    promised: &mut Vec<EventId>,
) {
    let path = folder.path("esker.db");
    let database = Database::open(&path, Options::default(), &[]).unwrap();
    let integrity: String = database
        .read(std::time::Duration::from_mins(10), |snapshot| {
            snapshot
                .sql()
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .map_err(Error::from)
        })
        .await
        .unwrap();
    assert_eq!(integrity, "ok", "round {round}");
    database.close().await;

    let store = SqliteStore::open(&path, StoreOptions::default(), Settings::default()).unwrap();
    let by_id: HashMap<EventId, &Event> = events.iter().map(|event| (event.id(), *event)).collect();
    let notes: Vec<EventId> = accepted
        .iter()
        .copied()
        .filter(|id| by_id[id].kind() == kind::TEXT_NOTE)
        .collect();
    // A stored deletion may have taken some of them.
    let deletions = store
        .query(vec![Filter::parse(br#"{"kinds":[5]}"#).unwrap()].into())
        .await
        .unwrap();
    let gone: std::collections::HashSet<String> = deletions
        .iter()
        .flat_map(|json| {
            let event = Event::parse(json).unwrap();
            event
                .tags()
                .filter_map(|tag| tag.value().map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    promised.extend(notes.iter().filter(|id| !gone.contains(&id.to_string())));
    promised.retain(|id| !gone.contains(&id.to_string()));
    let there = store.contains(promised.clone()).await.unwrap();
    let lost = promised.iter().zip(there).filter(|(_, there)| !there).count();
    assert_eq!(lost, 0, "round {round}: lost of {}", promised.len());
    // Answered deletions and replacements are there or were superseded by later ones, which were answered or not:
    // a deletion never is.
    let deletions_answered: Vec<EventId> = accepted
        .iter()
        .copied()
        .filter(|id| by_id[id].kind() == kind::DELETION)
        .collect();
    assert!(
        store
            .contains(deletions_answered)
            .await
            .unwrap()
            .into_iter()
            .all(|there| there),
        "round {round}"
    );
    // By the tag that only this event has, by the author, and in the whole: nothing is half there.
    for id in notes
        .iter()
        .filter(|id| !gone.contains(&id.to_string()))
        .step_by(37)
    {
        let event = by_id[id];
        let content = event.content();
        let by_tag = Filter::parse(format!("{{\"#r\":[\"{content}\"]}}").as_bytes()).unwrap();
        assert_eq!(
            store.query(vec![by_tag].into()).await.unwrap(),
            [event.json().clone()],
            "round {round}"
        );
    }
    let all: u64 = store.count(vec![Filter::default()].into()).await.unwrap();
    assert_eq!(
        store.query(vec![Filter::default()].into()).await.unwrap().len() as u64,
        all,
        "round {round}"
    );
    let stats = store.stats().await.unwrap();
    assert_eq!(stats.events, all, "round {round}");
    for keys in (0..28).map(Keys::from_seed) {
        let author = keys.public();
        let profiles =
            Filter::parse(format!("{{\"kinds\":[0],\"authors\":[\"{author}\"]}}").as_bytes()).unwrap();
        assert!(
            store.count(vec![profiles].into()).await.unwrap() <= 1,
            "round {round}: two versions of {author}"
        );
    }
    store.close().await;
}
