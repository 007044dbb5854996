//! CX-06: names are checked at every entry point, before any round trip, and nothing is done.

use std::future::Future;

use esker_coord_api::{EnqueueOptions, Error, QueueOptions, Store, Transaction};

use crate::{
    World,
    world::{events, queue, stream, texts},
};

fn bad_names() -> Vec<String> {
    let (long, wide) = ("x".repeat(201), "é".repeat(101));
    let bad = [
        "",
        " ",
        " \t",
        "a\nb",
        "a\u{0}b",
        "\u{7f}",
        "\u{85}x",
        "__alkstore_",
        "__alkstore_q",
    ];
    bad.into_iter().map(str::to_owned).chain([long, wide]).collect()
}

async fn refused<T>(what: &str, name: &str, call: impl Future<Output = Result<T, Error>>) {
    match call.await {
        Err(Error::ReservedName { .. }) if name.starts_with("__alkstore_") => {}
        Err(Error::InvalidName { .. }) if !name.starts_with("__alkstore_") => {}
        Err(other) => panic!("{what} of {name:?}: {other:?}"),
        Ok(_) => panic!("{what} of {name:?} was done"),
    }
}

/// Every way in that takes a name which processes share.
async fn shared_names(store: &Store, name: &str) {
    let plain = EnqueueOptions::default();
    refused("stream", name, async { store.stream(name) }).await;
    refused("queue", name, async {
        store.queue(name, QueueOptions::default())
    })
    .await;
    refused("outbox", name, async { store.outbox(name) }).await;
    refused("notify", name, store.notify(name, "x")).await;
    refused("listen", name, store.listen(name)).await;
    refused("try_lock", name, store.try_lock(name, "me", 9)).await;
    refused(
        "schedule",
        name,
        store.schedule(name, "@every 1s", "q", "x", plain),
    )
    .await;
    refused(
        "schedule's queue",
        name,
        store.schedule("s", "@every 1s", name, "x", plain),
    )
    .await;
    refused("unschedule", name, store.unschedule(name)).await;
}

async fn shared_names_inside(transaction: &mut Transaction, name: &str) {
    let plain = EnqueueOptions::default();
    refused("enqueue", name, transaction.enqueue(name, "x")).await;
    refused("enqueue_with", name, transaction.enqueue_with(name, "x", plain)).await;
    refused("outbox_enqueue", name, transaction.outbox_enqueue(name, "x")).await;
    refused("publish", name, transaction.publish(name, "x")).await;
    refused(
        "publish_with_key",
        name,
        transaction.publish_with_key(name, Some("k"), "x"),
    )
    .await;
    refused("notify", name, transaction.notify(name, "x")).await;
    refused("save_offset", name, transaction.save_offset(name, "c", 1)).await;
    refused("get_offset", name, transaction.get_offset(name, "c")).await;
    refused("get_job", name, transaction.get_job(name, 1)).await;
    refused("read_since", name, transaction.read_since(name, 0, 9)).await;
    refused(
        "read_from_consumer",
        name,
        transaction.read_from_consumer(name, "c", 9),
    )
    .await;
}

/// Every way in that takes a name of the caller's own.
async fn local_names(store: &Store) {
    let (stream, queue) = (stream(store, "s"), queue(store, "q"));
    let outbox = store.outbox("o").unwrap();
    for name in ["", " ", "\n\t"] {
        refused("save_offset", name, stream.save_offset(name, 1)).await;
        refused("get_offset", name, stream.get_offset(name)).await;
        refused("read_from_consumer", name, stream.read_from_consumer(name, 9)).await;
        refused("subscribe", name, stream.subscribe(name)).await;
        refused("try_lock's owner", name, store.try_lock("l", name, 9)).await;
        refused("claim_one", name, queue.claim_one(name)).await;
        refused("claim_batch", name, queue.claim_batch(name, 9)).await;
        let delivery = outbox.run_once(name, async |_| Err("delivered".into()));
        refused("run_once", name, delivery).await;
    }
}

async fn nothing_was_done(store: &Store) {
    let seen = store.inspect().await.unwrap();
    assert_eq!(
        (seen.queues, seen.streams, seen.locks, seen.schedules),
        Default::default()
    );
}

pub async fn cx_06_bad_names_are_refused_everywhere_and_nothing_is_done(world: World) {
    let store = world.store();
    for name in bad_names() {
        shared_names(store, &name).await;
    }
    local_names(store).await;
    nothing_was_done(store).await;
}

pub async fn cx_06_bad_names_are_refused_inside_a_transaction(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    for name in bad_names() {
        shared_names_inside(&mut transaction, &name).await;
    }
    for name in ["", " "] {
        refused("save_offset", name, transaction.save_offset("s", name, 1)).await;
        refused("get_offset", name, transaction.get_offset("s", name)).await;
        refused(
            "read_from_consumer",
            name,
            transaction.read_from_consumer("s", name, 9),
        )
        .await;
    }
    transaction.commit().await.unwrap();
    nothing_was_done(world.store()).await;
}

pub async fn cx_06_names_are_checked_before_any_round_trip(world: World) {
    let store = world.store();
    store.close().await;
    // What a closed store refuses by name was not sent to it.
    for name in bad_names() {
        shared_names(store, &name).await;
    }
    local_names(store).await;
}

pub async fn cx_06_every_good_name_works_everywhere(world: World) {
    let second = world.second().await;
    // The last two differ only where a shorter name would be cut.
    let names = [
        "a".to_owned(),
        "__alkstore".to_owned(),
        "A b'\"; -- %_\\$1?:x".to_owned(),
        "\u{65e5}\u{672c}\u{8a9e} \u{1f600}".to_owned(),
        format!("{}1", "n".repeat(199)),
        format!("{}2", "n".repeat(199)),
    ];
    for name in &names {
        let mut listener = second.listen(name).await.unwrap();
        world.store().notify(name, name.clone()).await.unwrap();
        assert_eq!(listener.recv().await.expect("a wake").channel, *name);
        assert_eq!(
            world.stream(name).publish(name.clone()).await.unwrap(),
            1,
            "{name:?}"
        );
        world.stream(name).save_offset(name, 1).await.unwrap();
        world.queue(name).enqueue(name.clone()).await.unwrap();
        let outbox = world.store().outbox(name).unwrap();
        outbox.enqueue(name.clone()).await.unwrap();
        let lock = world.store().try_lock(name, name, 60).await.unwrap();
        assert_eq!(lock.expect("a free lock").fence(), 1);
        let plain = EnqueueOptions::default();
        world
            .store()
            .schedule(name, "@every 1h", name, name.clone(), plain)
            .await
            .unwrap();
    }
    for name in &names {
        let own = [(1, name.clone())];
        assert_eq!(texts(&events(&stream(&second, name)).await), own);
        assert_eq!(stream(&second, name).get_offset(name).await.unwrap(), 1);
        let claimed = queue(&second, name).claim_batch(name, 9).await.unwrap();
        assert_eq!(
            (claimed.len(), claimed[0].job().payload.as_bytes()),
            (1, name.as_bytes())
        );
        assert_eq!(claimed[0].job().queue.as_str(), name);
        let outbox = second.outbox(name).unwrap();
        assert_eq!(outbox.queue().claim_batch("w", 9).await.unwrap().len(), 1);
        assert!(second.unschedule(name).await.unwrap());
    }
    let seen = second.inspect().await.unwrap();
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let locks: Vec<_> = seen.locks.into_iter().map(|lock| lock.name).collect();
    assert_eq!(locks, sorted);
}

pub async fn cx_06_local_names_are_only_not_blank(world: World) {
    let stream = world.stream("s");
    let long = "w".repeat(1000);
    for (n, name) in (1..).zip(["__alkstore_c", "a\nb", " x ", &long]) {
        stream.save_offset(name, n).await.unwrap();
        assert_eq!(stream.get_offset(name).await.unwrap(), n);
        let lock = world.store().try_lock(&format!("l{n}"), name, 60).await.unwrap();
        assert!(lock.is_some());
        world.queue("q").enqueue("x").await.unwrap();
        let claimed = world.queue("q").claim_one(name).await.unwrap().expect("a job");
        assert_eq!(claimed.job().worker.as_ref().map(AsRef::as_ref), Some(name));
        assert!(claimed.ack().await.unwrap());
    }
}
