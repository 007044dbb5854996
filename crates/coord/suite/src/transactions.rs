//! CT-01 to CT-04: side effects that commit together, or not at all.

use esker_coord_api::{EnqueueOptions, Error, Payload, QueueOptions, Store, Transaction};

use crate::{
    World,
    world::{claim, event, events, ids, job, queue, stream, texts},
};

/// Does one of everything, and gives the ids of the jobs: of the queue, and of the outbox.
async fn everything(transaction: &mut Transaction) -> (i64, i64) {
    let id = transaction.enqueue("q", "job").await.unwrap();
    let delivery = transaction.outbox_enqueue("o", "delivery").await.unwrap();
    transaction.publish("s", "plain").await.unwrap();
    transaction
        .publish_with_key("s", Some("k"), "keyed")
        .await
        .unwrap();
    transaction.save_offset("s", "c", 5).await.unwrap();
    transaction.notify("n", "hint").await.unwrap();
    (id, delivery)
}

/// Nothing of it is there.
async fn nothing_is_seen(store: &Store, (id, delivery): (i64, i64)) {
    assert_eq!(queue(store, "q").get_job(id).await.unwrap(), None);
    assert_eq!(queue(store, "q").next_ready_at().await.unwrap(), None);
    let outbox = store.outbox("o").unwrap();
    assert_eq!(outbox.queue().get_job(delivery).await.unwrap(), None);
    assert!(events(&stream(store, "s")).await.is_empty());
    assert_eq!(stream(store, "s").get_offset("c").await.unwrap(), 0);
    let seen = store.inspect().await.unwrap();
    let jobs = seen
        .queues
        .iter()
        .map(|queue| queue.ready + queue.scheduled + queue.running + queue.dead);
    assert_eq!(jobs.sum::<u64>(), 0);
    assert!(seen.streams.iter().all(|stream| stream.last == 0));
}

pub async fn ct_01_a_transaction_reads_its_own_writes(world: World) {
    world.stream("s").publish("before").await.unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    let (id, _) = everything(&mut transaction).await;
    let own = transaction.get_job("q", id).await.unwrap().expect("its own job");
    assert_eq!(own.payload.as_bytes(), b"job");
    assert!(transaction.get_job("other", id).await.unwrap().is_none());
    assert_eq!(transaction.get_offset("s", "c").await.unwrap(), 5);
    assert_eq!(transaction.get_offset("s", "d").await.unwrap(), 0);
    let read = transaction.read_since("s", 0, 9).await.unwrap();
    let expected = [(1, "before"), (2, "plain"), (3, "keyed")].map(|(n, text)| (n, text.to_owned()));
    assert_eq!(texts(&read), expected);
    assert_eq!(read[2].key.as_deref(), Some("k"));
    assert_eq!(
        texts(&transaction.read_since("s", 1, 1).await.unwrap()),
        expected[1..2]
    );
    assert_eq!(
        transaction.read_from_consumer("s", "d", 9).await.unwrap().len(),
        3
    );
    assert!(
        transaction
            .read_from_consumer("s", "c", 9)
            .await
            .unwrap()
            .is_empty()
    );
    for limit in [0, -1] {
        assert!(transaction.read_since("s", 0, limit).await.unwrap().is_empty());
    }
    // More after a read, seen by the next.
    transaction.publish("s", "more").await.unwrap();
    assert_eq!(transaction.read_since("s", 3, 9).await.unwrap().len(), 1);
    transaction.commit().await.unwrap();
    assert_eq!(events(&world.stream("s")).await.len(), 4);
}

pub async fn ct_02_nothing_is_visible_before_the_commit_and_all_after(world: World) {
    let second = world.second().await;
    let mut transaction = world.store().begin().await.unwrap();
    let (id, delivery) = everything(&mut transaction).await;
    nothing_is_seen(world.store(), (id, delivery)).await;
    nothing_is_seen(&second, (id, delivery)).await;
    transaction.commit().await.unwrap();
    for store in [world.store(), &second] {
        assert_eq!(job(&queue(store, "q"), id).await.payload.as_bytes(), b"job");
        assert_eq!(
            job(store.outbox("o").unwrap().queue(), delivery)
                .await
                .payload
                .as_bytes(),
            b"delivery"
        );
        assert_eq!(
            texts(&events(&stream(store, "s")).await),
            [(1, "plain".into()), (2, "keyed".into())]
        );
        assert_eq!(stream(store, "s").get_offset("c").await.unwrap(), 5);
    }
    assert_eq!(claim(&queue(&second, "q"), "w").await.job().id, id);
}

pub async fn ct_03_a_dropped_transaction_leaves_nothing(world: World) {
    let second = world.second().await;
    let mut listener = world.store().listen("n").await.unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    let done = everything(&mut transaction).await;
    drop(transaction);
    // The next one waits for the roll-back, wherever it is needed.
    world.store().begin().await.unwrap().commit().await.unwrap();
    nothing_is_seen(world.store(), done).await;
    nothing_is_seen(&second, done).await;
    assert!(world.queue("q").claim_one("w").await.unwrap().is_none());
    assert_eq!(listener.try_recv().unwrap(), None);
}

pub async fn ct_03_an_error_inside_rolls_back(world: World) {
    let mut done = (0, 0);
    let failed: Result<(), Error> = world
        .store()
        .with_transaction(async |transaction| {
            done = everything(transaction).await;
            Err(Error::Closed)
        })
        .await;
    assert!(matches!(failed, Err(Error::Closed)));
    nothing_is_seen(world.store(), done).await;
    let id = world
        .store()
        .with_transaction(async |transaction| transaction.enqueue("q", "kept").await)
        .await
        .unwrap();
    assert_eq!(ids(&world.queue("q").claim_batch("w", 9).await.unwrap()), [id]);
}

pub async fn ct_03_a_panic_inside_rolls_back(world: World) {
    let store = world.store().clone();
    let panicked = tokio::spawn(async move {
        store
            .with_transaction(async |transaction| {
                everything(transaction).await;
                panic!("on purpose")
            })
            .await
            .map(|(): ()| ())
            .map_err(|error: Error| error)
    });
    assert!(panicked.await.unwrap_err().is_panic());
    // The store goes on, and nothing is there.
    let id = world.queue("q").enqueue("after").await.unwrap();
    assert_eq!(ids(&world.queue("q").claim_batch("w", 9).await.unwrap()), [id]);
    assert!(events(&world.stream("s")).await.is_empty());
}

pub async fn ct_03_a_refused_call_inside_leaves_the_transaction_whole(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    transaction.publish("s", "one").await.unwrap();
    assert!(transaction.publish(" ", "refused").await.is_err());
    assert!(transaction.enqueue("__alkstore_x", "refused").await.is_err());
    transaction.publish("s", "two").await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(
        texts(&events(&world.stream("s")).await),
        [(1, "one".into()), (2, "two".into())]
    );
}

pub async fn ct_04_jobs_of_a_transaction_carry_the_default_options(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    let (id, delivery) = everything(&mut transaction).await;
    transaction.commit().await.unwrap();
    // A handle with other options stamps what comes through it, and nothing else.
    let queue = world.queue_with(
        "q",
        QueueOptions {
            visibility_timeout_s: 1,
            ..QueueOptions::default()
        },
    );
    assert_eq!(job(&queue, id).await.stamps, QueueOptions::default());
    let outbox = world.store().outbox("o").unwrap();
    assert_eq!(job(outbox.queue(), delivery).await.stamps, QueueOptions::OUTBOX);
}

pub async fn ct_04_a_queue_stamps_what_it_enqueues_in_a_transaction(world: World) {
    let stamps = QueueOptions {
        visibility_timeout_s: 7,
        max_attempts: 9,
        backoff_base_s: 2,
        dead_letter_retention_s: Some(11),
    };
    let queue = world.queue_with("q", stamps);
    let outbox = world.store().outbox("o").unwrap();
    let later = EnqueueOptions {
        delay: Some(5),
        max_attempts: Some(1),
        ..EnqueueOptions::default()
    };
    let mut transaction = world.store().begin().await.unwrap();
    let plain = queue.enqueue_in(&mut transaction, "plain").await.unwrap();
    let own = queue
        .enqueue_in_with(&mut transaction, "own", later)
        .await
        .unwrap();
    let delivery = outbox
        .enqueue_in_with(&mut transaction, "delivery", later)
        .await
        .unwrap();
    let at_once = outbox.enqueue_in(&mut transaction, "at once").await.unwrap();
    assert!(transaction.get_job("q", plain).await.unwrap().is_some());
    transaction.commit().await.unwrap();
    assert_eq!(job(outbox.queue(), at_once).await.stamps, QueueOptions::OUTBOX);
    assert_eq!(job(&queue, plain).await.stamps, stamps);
    let own = job(&queue, own).await;
    assert_eq!((own.stamps.max_attempts, own.run_at), (1, world.now() + 5));
    let delivery = job(outbox.queue(), delivery).await;
    assert_eq!(
        (delivery.stamps.visibility_timeout_s, delivery.stamps.max_attempts),
        (QueueOptions::OUTBOX.visibility_timeout_s, 1)
    );
}

pub async fn ct_01_batches_keep_their_order_and_leave_with_a_rollback(world: World) {
    let queue = world.queue("q");
    let jobs = || (0..5).map(|n| (Payload::from(n.to_string()), EnqueueOptions::default()));
    let news = || (0..5).map(|n| event(n.to_string())).collect();
    let mut left = world.store().begin().await.unwrap();
    queue.enqueue_batch_in(&mut left, jobs().collect()).await.unwrap();
    left.publish_batch("s", news()).await.unwrap();
    drop(left);

    let mut wakes = queue.listen().await.unwrap();
    let mut transaction = world.store().begin().await.unwrap();
    let ids = transaction.enqueue_batch("q", jobs().collect()).await.unwrap();
    transaction.publish_batch("s", news()).await.unwrap();
    let none = (
        transaction.enqueue_batch("q", Vec::new()).await.unwrap(),
        transaction.publish_batch("s", Vec::new()).await.unwrap(),
    );
    assert_eq!(none, (Vec::new(), ()));
    assert_eq!(transaction.read_since("s", 0, 9).await.unwrap().len(), 5);
    transaction.commit().await.unwrap();
    assert!(wakes.recv().await.is_some());
    let claimed = queue.claim_batch("w", 9).await.unwrap();
    let claimed: Vec<_> = claimed
        .iter()
        .map(|handle| (handle.job().id, handle.job().payload.clone()))
        .collect();
    let wanted: Vec<_> = ids.into_iter().zip(jobs().map(|(payload, _)| payload)).collect();
    assert_eq!(claimed, wanted);
    let wanted = (0..5).map(|n| (n + 1, n.to_string())).collect::<Vec<_>>();
    assert_eq!(texts(&events(&world.stream("s")).await), wanted);
}

pub async fn ct_02_an_empty_transaction_commits(world: World) {
    world.store().begin().await.unwrap().commit().await.unwrap();
    drop(world.store().begin().await.unwrap());
    world.queue("q").enqueue("after").await.unwrap();
}

pub async fn ct_05_a_held_transaction_and_other_writers(world: World) {
    let mut transaction = world.store().begin().await.unwrap();
    transaction.publish("s", "held").await.unwrap();
    let others: Vec<_> = (0..4)
        .map(|_| {
            let stream = world.stream("s");
            tokio::spawn(async move { stream.publish("other").await.unwrap() })
        })
        .collect();
    let mut offsets = Vec::new();
    if world.writers_wait() {
        // They wait, and reads do not.
        assert!(events(&world.stream("s")).await.is_empty());
        assert!(others.iter().all(|other| !other.is_finished()));
        transaction.commit().await.unwrap();
        for other in others {
            offsets.push(other.await.unwrap());
        }
        offsets.sort_unstable();
        assert_eq!(offsets, [2, 3, 4, 5]);
    } else {
        for other in others {
            offsets.push(other.await.unwrap());
        }
        transaction.commit().await.unwrap();
        offsets.sort_unstable();
        assert_eq!(offsets, [1, 2, 3, 4]);
    }
    assert_eq!(events(&world.stream("s")).await.len(), 5);
}

pub async fn ct_05_transactions_on_two_handles_take_turns_or_pass(world: World) {
    let stores = [world.store().clone(), world.second().await];
    let mut tasks = Vec::new();
    for n in 0..12_usize {
        let store = stores[n % 2].clone();
        tasks.push(tokio::spawn(async move {
            let mut transaction = store.begin().await.unwrap();
            let id = transaction.enqueue("q", n.to_string()).await.unwrap();
            tokio::task::yield_now().await;
            transaction.publish("s", n.to_string()).await.unwrap();
            if n.is_multiple_of(3) {
                return None;
            }
            transaction.commit().await.unwrap();
            Some(id)
        }));
    }
    let mut committed = Vec::new();
    for task in tasks {
        committed.extend(task.await.unwrap());
    }
    committed.sort_unstable();
    let mut claimed = ids(&world.queue("q").claim_batch("w", 99).await.unwrap());
    claimed.sort_unstable();
    assert_eq!((committed.len(), &claimed), (8, &committed));
    assert_eq!(events(&world.stream("s")).await.len(), 8);
}
