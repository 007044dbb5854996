//! Transactions that wait for each other's consumers, and whose handles close.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are told by their names, and fail by panicking"
)]

use esker_coord_api::{Error, Outcome, Store};
use esker_coord_memory::{MemoryEngine, Options};

fn two_handles() -> (Store, Store) {
    let engine = MemoryEngine::open(Options::default());
    let again = engine.open_again();
    (Store::new(engine), Store::new(again))
}

#[tokio::test]
async fn ct_03_closing_a_handle_ends_who_waits_through_it() {
    let (here, there) = two_handles();
    let mut keeps = here.begin().await.unwrap();
    keeps.get_offset("s", "c").await.unwrap();
    let mut waits = there.begin().await.unwrap();
    let (ended, ()) = tokio::join!(waits.get_offset("s", "c"), there.close());
    assert!(matches!(ended, Err(Error::Closed)));
    keeps.commit().await.unwrap();
}

#[tokio::test]
async fn ct_03_closing_a_handle_gives_back_what_its_transactions_keep() {
    let (here, there) = two_handles();
    let mut keeps = here.begin().await.unwrap();
    keeps.get_offset("s", "c").await.unwrap();
    let mut waits = there.begin().await.unwrap();
    let (got, ()) = tokio::join!(waits.get_offset("s", "c"), here.close());
    assert_eq!(got.unwrap(), 0);
    assert!(matches!(keeps.commit().await, Err(Error::Closed)));
}

#[tokio::test]
async fn cs_06_of_a_ring_of_transactions_the_last_to_ask_is_rolled_back() {
    const RING: usize = 5;
    let (store, _) = two_handles();
    let name = |n: usize| format!("c{}", n % RING);
    let mut ring = Vec::new();
    for n in 0..RING {
        let mut transaction = store.begin().await.unwrap();
        transaction.publish("s", n.to_string()).await.unwrap();
        transaction.get_offset("s", &name(n)).await.unwrap();
        ring.push(transaction);
    }
    let mut last = ring.pop().unwrap();
    let asks = ring.into_iter().enumerate().map(|(n, mut transaction)| {
        let next = name(n + 1);
        async move {
            transaction.get_offset("s", &next).await.unwrap();
            transaction.commit().await.unwrap();
        }
    });
    let asks: Vec<_> = asks.map(tokio::spawn).collect();
    // On this runtime of one thread, all of the others wait by now.
    tokio::task::yield_now().await;
    let refused = last.get_offset("s", &name(0)).await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Aborted);
    assert!(matches!(refused, Error::Database { .. }));
    // It keeps nothing, and does nothing more.
    for ask in asks {
        ask.await.unwrap();
    }
    assert!(last.publish("s", "late").await.is_err());
    assert!(last.commit().await.is_err());
    let events = store.stream("s").unwrap().read_since(0, 99).await.unwrap();
    assert_eq!(events.len(), RING - 1);
}

#[tokio::test]
async fn cs_06_a_wait_that_was_given_up_closes_no_ring() {
    let (store, _) = two_handles();
    let (mut a, mut b) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    a.get_offset("s", "a").await.unwrap();
    b.get_offset("s", "b").await.unwrap();
    tokio::select! {
        biased;
        _ = a.get_offset("s", "b") => panic!("another keeps it"),
        () = std::future::ready(()) => {}
    }
    let (b, a) = tokio::join!(b.get_offset("s", "a"), a.commit());
    a.unwrap();
    assert_eq!(b.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cs_06_many_that_do_the_work_of_one_consumer_take_turns() {
    const TURNS: i64 = 50;
    let (here, there) = two_handles();
    let works = (0..8).map(|n| {
        let store = if n % 2 == 0 { here.clone() } else { there.clone() };
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let mut transaction = store.begin().await.unwrap();
                let offset = transaction.get_offset("s", "c").await.unwrap();
                transaction.save_offset("s", "c", offset + 1).await.unwrap();
                transaction.commit().await.unwrap();
            }
        })
    });
    for work in works.collect::<Vec<_>>() {
        work.await.unwrap();
    }
    let offset = here.stream("s").unwrap().get_offset("c").await.unwrap();
    assert_eq!(offset, 8 * TURNS);
}
