//! CL-01 to CL-03: exclusion for a time, and fences.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Barrier;

use crate::{World, world::NOW};

pub async fn cl_01_one_owner_holds_it_until_it_is_given_back(world: World) {
    let (store, second) = (world.store(), world.second().await);
    let lock = store.try_lock("l", "a", 60).await.unwrap().expect("a free lock");
    assert_eq!((lock.name(), lock.fence()), ("l", 1));
    assert!(second.try_lock("l", "b", 60).await.unwrap().is_none());
    // Other names are other locks.
    assert!(second.try_lock("m", "b", 60).await.unwrap().is_some());
    assert!(lock.release().await.unwrap() && !lock.release().await.unwrap());
    assert!(!lock.renew(60).await.unwrap());
    let next = second.try_lock("l", "b", 60).await.unwrap().expect("a free lock");
    assert!(!lock.release().await.unwrap() && !lock.renew(60).await.unwrap());
    assert!(next.release().await.unwrap());
}

pub async fn cl_01_a_renewal_is_a_full_new_window(world: World) {
    let lock = world
        .store()
        .try_lock("l", "a", 60)
        .await
        .unwrap()
        .expect("a free lock");
    world.advance(50).await;
    assert!(lock.renew(60).await.unwrap());
    world.advance(59).await;
    assert!(world.store().try_lock("l", "b", 60).await.unwrap().is_none());
    // It may also be shorter.
    assert!(lock.renew(5).await.unwrap());
    world.advance(5).await;
    assert!(world.store().try_lock("l", "b", 60).await.unwrap().is_some());
}

pub async fn cl_01_a_dropped_handle_gives_nothing_back(world: World) {
    drop(
        world
            .store()
            .try_lock("l", "a", 60)
            .await
            .unwrap()
            .expect("a free lock"),
    );
    assert!(world.store().try_lock("l", "b", 60).await.unwrap().is_none());
}

pub async fn cl_01_a_lost_race_is_none_and_never_an_error(world: World) {
    let stores = [world.store().clone(), world.second().await];
    for round in 0..10_i64 {
        let barrier = Arc::new(Barrier::new(8));
        let mut racers = Vec::new();
        for (n, store) in stores.iter().cycle().take(8).cloned().enumerate() {
            let barrier = barrier.clone();
            racers.push(tokio::spawn(async move {
                barrier.wait().await;
                store.try_lock("l", &n.to_string(), 60).await.unwrap()
            }));
        }
        let mut held = Vec::new();
        for racer in racers {
            held.extend(racer.await.unwrap());
        }
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].fence(), round + 1);
        if round % 2 == 0 {
            assert!(held[0].release().await.unwrap());
        } else {
            world.advance(60).await;
        }
    }
}

pub async fn cl_01_exclusion_holds_under_contention(world: World) {
    const TIMES: usize = 10;
    let stores = [world.store().clone(), world.second().await];
    let inside = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for (n, store) in stores.iter().cycle().take(6).cloned().enumerate() {
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            let mut fences = Vec::new();
            while fences.len() < TIMES {
                if let Some(lock) = store.try_lock("l", &n.to_string(), 60).await.unwrap() {
                    assert!(!inside.swap(true, Ordering::SeqCst), "two hold it");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    assert!(lock.release().await.unwrap());
                    fences.push(lock.fence());
                }
                tokio::task::yield_now().await;
            }
            fences
        }));
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        let fences = task.await.unwrap();
        assert!(fences.is_sorted());
        all.extend(fences);
    }
    assert_eq!(all.len(), 6 * TIMES);
}

pub async fn cl_02_after_the_ttl_it_can_be_taken_and_is_never_revived(world: World) {
    let store = world.store();
    let lock = store.try_lock("l", "a", 60).await.unwrap().expect("a free lock");
    world.advance(59).await;
    assert!(store.try_lock("l", "b", 60).await.unwrap().is_none());
    world.advance(1).await;
    // Nobody has taken it, and still it is lost.
    assert!(!lock.renew(60).await.unwrap() && !lock.release().await.unwrap());
    assert!(store.inspect().await.unwrap().locks.is_empty());
    let taken = store
        .try_lock("l", "b", 60)
        .await
        .unwrap()
        .expect("a lapsed lock");
    assert!(!lock.renew(60).await.unwrap() && !lock.release().await.unwrap());
    assert!(taken.renew(60).await.unwrap());
}

pub async fn cl_02_the_same_owner_gets_it_again_without_a_new_ttl(world: World) {
    let store = world.store();
    let lock = store.try_lock("l", "a", 60).await.unwrap().expect("a free lock");
    world.advance(50).await;
    let same = store
        .try_lock("l", "a", 1000)
        .await
        .unwrap()
        .expect("its own lock");
    assert_eq!(same.fence(), lock.fence());
    let seen = store.inspect().await.unwrap();
    assert_eq!(
        (seen.locks[0].expires_in_s, seen.locks[0].owner.as_str()),
        (10, "a")
    );
    // One holder: what one handle gives back, the other has lost.
    assert!(same.release().await.unwrap() && !lock.renew(60).await.unwrap());
    let lock = store.try_lock("l", "a", 60).await.unwrap().expect("a free lock");
    world.set(NOW + 200).await;
    let fresh = store
        .try_lock("l", "a", 60)
        .await
        .unwrap()
        .expect("a lapsed lock");
    assert!(fresh.fence() > lock.fence());
    assert!(!lock.renew(60).await.unwrap() && !lock.release().await.unwrap());
    assert!(fresh.release().await.unwrap());
}

pub async fn cl_03_fences_grow_with_each_fresh_acquisition(mut world: World) {
    let mut last = 0;
    for round in 0..6 {
        let owner = format!("owner {}", round % 2);
        let lock = world
            .store()
            .try_lock("l", &owner, 60)
            .await
            .unwrap()
            .expect("a free lock");
        assert!(lock.fence() > last);
        last = lock.fence();
        match round % 3 {
            0 => assert!(lock.release().await.unwrap()),
            1 => world.advance(60).await,
            _ => {
                assert!(lock.release().await.unwrap());
                drop(lock);
                world = world.reopen().await;
            }
        }
    }
}
