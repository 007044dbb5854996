//! rust-nostr's SDK, unchanged, against the running program.

use std::time::Duration;

use nostr_sdk::{
    Client, EventBuilder, Filter, JsonUtil as _, Keys, Kind, Metadata, RelayPoolNotification, Tag,
    nips::nip09::EventDeletionRequest,
};

use crate::support::{Folder, Relay};

// Far beyond what anything here takes: the SDK wants a bound.
const PATIENCE: Duration = Duration::from_mins(1);

async fn client(relay: &Relay) -> (Client, Keys) {
    let keys = Keys::generate();
    let client = Client::new(keys.clone());
    client.add_relay(&relay.url).await.unwrap();
    assert!(client.try_connect(PATIENCE).await.failed.is_empty());
    (client, keys)
}

#[tokio::test]
async fn rust_nostr_publishes_queries_counts_and_deletes() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    let (client, keys) = client(&relay).await;
    let mut ids = Vec::new();
    for content in ["one", "two \u{1F99C}", "three \"quoted\"\n"] {
        let builder = EventBuilder::text_note(content).tag(Tag::hashtag("esker"));
        let output = client.send_event_builder(builder).await.unwrap();
        assert!(output.failed.is_empty(), "{output:?}");
        ids.push(output.val);
    }
    let tagged = Filter::new()
        .author(keys.public_key())
        .kind(Kind::TextNote)
        .hashtag("esker");
    let found = client.fetch_events(tagged.clone(), PATIENCE).await.unwrap();
    assert_eq!(found.len(), 3);
    for event in found.iter() {
        event.verify().unwrap();
    }
    assert_eq!(
        client
            .fetch_events(tagged.clone().limit(1), PATIENCE)
            .await
            .unwrap()
            .len(),
        1
    );
    let connection = client.relay(&relay.url).await.unwrap();
    assert_eq!(
        connection.count_events(tagged.clone(), PATIENCE).await.unwrap(),
        3
    );

    let request = EventDeletionRequest::new().id(ids[0]).reason("test");
    assert!(
        client
            .send_event_builder(EventBuilder::delete(request))
            .await
            .unwrap()
            .failed
            .is_empty()
    );
    let left = client.fetch_events(tagged.clone(), PATIENCE).await.unwrap();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|event| event.id != ids[0]));
    assert_eq!(connection.count_events(tagged, PATIENCE).await.unwrap(), 2);
    client.shutdown().await;
}

#[tokio::test]
async fn rust_nostr_replaces_and_is_told_of_what_lost() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    let (client, keys) = client(&relay).await;
    let metadata = |name: &str| EventBuilder::metadata(&Metadata::new().name(name));
    let now = nostr_sdk::Timestamp::now();
    let newer = metadata("newer")
        .custom_created_at(now)
        .sign_with_keys(&keys)
        .unwrap();
    let older = metadata("older")
        .custom_created_at(now - 100_u64)
        .sign_with_keys(&keys)
        .unwrap();
    assert!(
        client
            .send_event(
                &metadata("first")
                    .custom_created_at(now - 200_u64)
                    .sign_with_keys(&keys)
                    .unwrap()
            )
            .await
            .unwrap()
            .failed
            .is_empty()
    );
    assert!(client.send_event(&newer).await.unwrap().failed.is_empty());
    let refused = client.send_event(&older).await;
    let told = format!("{refused:?}");
    assert!(told.contains("replaced"), "{told}");
    let profiles = client
        .fetch_events(
            Filter::new().author(keys.public_key()).kind(Kind::Metadata),
            PATIENCE,
        )
        .await
        .unwrap();
    assert_eq!(
        profiles
            .iter()
            .map(nostr_sdk::JsonUtil::as_json)
            .collect::<Vec<_>>(),
        [newer.as_json()]
    );
    let metadata = client
        .fetch_metadata(keys.public_key(), PATIENCE)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(metadata.name.as_deref(), Some("newer"));
    client.shutdown().await;
}

#[tokio::test]
async fn rust_nostr_subscribes_live() {
    let folder = Folder::new();
    let relay = Relay::start(&folder, &[]);
    let ((listener, _), (writer, keys)) = (client(&relay).await, client(&relay).await);
    let mut notifications = listener.notifications();
    let filter = Filter::new().author(keys.public_key()).kind(Kind::TextNote);
    let subscription = listener.subscribe(filter, None).await.unwrap();
    assert!(subscription.failed.is_empty());
    let sent = writer
        .send_event_builder(EventBuilder::text_note("live"))
        .await
        .unwrap()
        .val;
    loop {
        if let RelayPoolNotification::Event {
            subscription_id,
            event,
            ..
        } = notifications.recv().await.unwrap()
        {
            assert_eq!((&subscription_id, event.id), (&subscription.val, sent));
            break;
        }
    }
    listener.unsubscribe(&subscription.val).await;
    listener.shutdown().await;
    writer.shutdown().await;
}
