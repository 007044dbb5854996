//! Locks that are kept for as long as their work takes.

use esker_coord::{CancellationToken, Error, Lock, Outcome};

use crate::{
    scripted::Fault,
    world::{World, run},
};

/// The shortest that can be kept: it is renewed each third of a second, and given up after two.
const BRIEF: i64 = 2;

async fn lock(world: &World) -> Lock {
    let taken = world.store.try_lock("l", "me", BRIEF).await.unwrap();
    taken.expect("a free lock")
}

#[test]
fn cl_02_a_lock_is_kept_until_it_is_lost() {
    run(async {
        let world = World::new();
        let lock = lock(&world).await;
        let losing = async {
            world.script.called("renew_lock", 3).await;
            world.clock.advance(1);
            world.script.called("renew_lock", 5).await;
            world.clock.advance(100);
        };
        let (kept, ()) = tokio::join!(lock.keep(BRIEF), losing);
        kept.unwrap();
        assert!(!lock.release().await.unwrap());
        assert!(matches!(
            lock.keep(1).await,
            Err(Error::InvalidOption { option: "ttl", .. })
        ));
    });
}

#[test]
fn cl_02_a_renewal_that_fails_is_tried_again() {
    run(async {
        let world = World::new();
        let lock = lock(&world).await;
        world
            .script
            .fail("renew_lock", [Fault::Aborted, Fault::Unknown, Fault::Aborted]);
        tokio::select! {
            kept = lock.keep(BRIEF) => panic!("{kept:?}"),
            () = world.script.called("renew_lock", 5) => {}
        }
        assert!(lock.release().await.unwrap());
    });
}

#[test]
fn cl_02_a_lock_is_given_up_before_it_lapses_when_the_store_fails_or_does_not_answer() {
    run(async {
        let world = World::new();
        let never = CancellationToken::new();
        for fault in [Fault::Aborted, Fault::Halted(never)] {
            let lock = lock(&world).await;
            world.script.fail("renew_lock", vec![fault; 1000]);
            let error = lock.keep(BRIEF).await.unwrap_err();
            assert!(matches!(error, Error::Database { .. }), "{error}");
            // By the store's clock no time has gone.
            assert!(lock.release().await.unwrap());
        }
    });
}

#[test]
fn cl_02_what_cannot_be_tried_again_ends_at_once() {
    run(async {
        let world = World::new();
        let lock = lock(&world).await;
        world.store.close().await;
        let error = lock.keep(i64::MAX).await.unwrap_err();
        assert!(matches!(error, Error::Closed) && error.outcome() == Outcome::Aborted);
    });
}

#[test]
fn cl_02_a_lock_whose_window_is_shorter_than_what_is_asked_for_is_given_up_by_that() {
    run(async {
        const LONG: i64 = 3600;
        let world = World::new();
        world.script.fail("renew_lock", vec![Fault::Aborted; 1000]);
        let brief = lock(&world).await;
        assert!(matches!(brief.keep(LONG).await, Err(Error::Database { .. })));
        // The same owner gets it again without a new ttl.
        let again = world
            .store
            .try_lock("l", "me", LONG)
            .await
            .unwrap()
            .expect("its own lock");
        assert_eq!(again.fence(), brief.fence());
        assert!(matches!(again.keep(LONG).await, Err(Error::Database { .. })));
    });
}
