//! The runner of schedules: one leads, and another takes over.

use esker_coord::{
    CancellationToken, EnqueueOptions, Error, Outcome, QueueOptions, Result, SchedulerOptions, Store,
};
use tokio::task::JoinHandle;

use crate::{
    scripted::{Fault, Script},
    world::{World, run, settle},
};

/// Renewals come each third of a second of real time.
const BRIEF: SchedulerOptions = SchedulerOptions { ttl_s: 2 };

struct Runner {
    stop: CancellationToken,
    running: JoinHandle<Result<()>>,
}

impl Runner {
    fn start(store: &Store, options: SchedulerOptions) -> Self {
        let stop = CancellationToken::new();
        let (store, stopped) = (store.clone(), stop.clone());
        Self {
            stop,
            running: tokio::spawn(async move { store.run_schedules_with(options, stopped).await }),
        }
    }

    /// One that leads, and has fired what was due.
    async fn leading(store: &Store, script: &Script) -> Self {
        let runner = Self::start(store, SchedulerOptions::default());
        script.called("fire_schedules", 1).await;
        settle().await;
        runner
    }

    async fn end(self) -> Result<()> {
        self.running.await.unwrap()
    }

    async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.end().await
    }
}

async fn schedule(store: &Store, name: &str, spec: &str) {
    let options = EnqueueOptions::default();
    store
        .schedule(name, spec, "q", name.to_owned(), options)
        .await
        .unwrap();
}

/// Jobs that wait in the schedules' queue.
async fn fired(store: &Store) -> u64 {
    let queues = store.inspect().await.unwrap().queues;
    queues.iter().map(|queue| queue.ready).sum()
}

/// Who holds the lock of the schedules: its owner and fence.
async fn leader(store: &Store) -> Option<(String, i64)> {
    let locks = store.inspect().await.unwrap().locks;
    let lock = locks
        .into_iter()
        .find(|lock| lock.name == "__alkstore_scheduler")?;
    Some((lock.owner, lock.fence))
}

#[test]
fn cd_02_one_of_two_runners_leads_and_fires_each_boundary_once() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        schedule(&world.store, "tick", "@every 4s").await;
        let one = Runner::leading(&world.store, &world.script).await;
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("try_lock", 1).await;
        for boundary in 1..=3 {
            world.clock.advance(4);
            world.script.called("fire_schedules", boundary + 1).await;
            settle().await;
            assert_eq!(fired(&world.store).await, boundary);
        }
        assert_eq!(script.calls("fire_schedules"), 0);
        one.stop().await.unwrap();
        two.stop().await.unwrap();
        assert_eq!(leader(&world.store).await, None);
    });
}

#[test]
fn cd_02_a_leader_that_stops_gives_the_lead_to_who_waits() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        let one = Runner::leading(&world.store, &world.script).await;
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("try_lock", 1).await;
        settle().await;
        let before = leader(&world.store).await.unwrap();
        // It sleeps, with nothing to fire, and no time passes.
        one.stop().await.unwrap();
        script.called("fire_schedules", 1).await;
        let after = leader(&world.store).await.unwrap();
        assert!(after.1 > before.1 && after.0 != before.0, "{before:?}, {after:?}");
        two.stop().await.unwrap();
    });
}

#[test]
fn cd_02_another_runner_takes_over_when_the_leader_has_died() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        schedule(&world.store, "tick", "@every 10s").await;
        let one = Runner::leading(&world.store, &world.script).await;
        one.running.abort();
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("try_lock", 1).await;
        settle().await;
        world.clock.advance(14);
        settle().await;
        assert_eq!(script.calls("fire_schedules"), 0);
        world.clock.advance(1);
        script.called("fire_schedules", 1).await;
        settle().await;
        assert_eq!(fired(&world.store).await, 1);
        two.stop().await.unwrap();
    });
}

#[test]
fn cd_02_a_leader_that_has_lost_the_lock_says_so_and_fires_nothing() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        schedule(&world.store, "tick", "@every 10s").await;
        let one = Runner::leading(&world.store, &world.script).await;
        // The process halts past the ttl, and both boundaries of the time wake it.
        let halted = CancellationToken::new();
        world
            .script
            .fail("fire_schedules", [Fault::Halted(halted.clone())]);
        world.clock.advance(40);
        world.script.called("fire_schedules", 2).await;
        assert_eq!(fired(&world.store).await, 0);
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("fire_schedules", 1).await;
        settle().await;
        assert_eq!(fired(&world.store).await, 4);
        halted.cancel();
        assert!(matches!(one.end().await, Err(Error::LeadershipLost)));
        // The other leads on.
        assert!(leader(&world.store).await.is_some());
        two.stop().await.unwrap();
    });
}

#[test]
fn cd_02_the_lock_is_renewed_while_the_leader_sleeps() {
    run(async {
        let world = World::new();
        let leader_runs = Runner::start(&world.store, BRIEF);
        world.script.called("renew_lock", 2).await;
        assert_eq!(world.script.calls("fire_schedules"), 1);
        let (_, fence) = leader(&world.store).await.unwrap();
        assert_eq!(fence, 1);
        // A renewal that finds it lost ends the runner, though it sleeps.
        world.clock.advance(100);
        assert!(matches!(leader_runs.end().await, Err(Error::LeadershipLost)));
        assert_eq!(world.script.calls("fire_schedules"), 1);
    });
}

#[test]
fn cd_02_a_new_schedule_wakes_a_leader_that_sleeps_for_a_later_one() {
    run(async {
        let world = World::new();
        schedule(&world.store, "hourly", "@every 1h").await;
        let runner = Runner::leading(&world.store, &world.script).await;
        let (second, _) = world.another();
        schedule(&second, "soon", "@every 5s").await;
        world.script.called("fire_schedules", 2).await;
        settle().await;
        world.clock.advance(5);
        world.script.called("fire_schedules", 3).await;
        settle().await;
        assert_eq!(fired(&world.store).await, 1);
        runner.stop().await.unwrap();
    });
}

#[test]
fn cd_02_a_failing_storage_is_told_and_the_lead_is_given_back() {
    run(async {
        for operation in ["listen", "try_lock", "fire_schedules"] {
            let world = World::new();
            world.script.fail(operation, [Fault::Aborted]);
            let error = Runner::start(&world.store, SchedulerOptions::default())
                .end()
                .await
                .unwrap_err();
            assert!(matches!(error, Error::Database { .. }), "{operation}: {error}");
            assert_eq!(error.outcome(), Outcome::Aborted);
            assert_eq!(leader(&world.store).await, None, "{operation}");
        }
        let world = World::new();
        world.script.fail("renew_lock", vec![Fault::Aborted; 1000]);
        let error = Runner::start(&world.store, BRIEF).end().await.unwrap_err();
        assert!(matches!(error, Error::Database { .. }), "{error}");
    });
}

#[test]
fn cd_02_a_leader_outlasts_a_renewal_that_fails() {
    run(async {
        let world = World::new();
        world.script.fail("renew_lock", [Fault::Aborted, Fault::Unknown]);
        let runner = Runner::start(&world.store, BRIEF);
        world.script.called("renew_lock", 4).await;
        assert_eq!(leader(&world.store).await.map(|(_, fence)| fence), Some(1));
        runner.stop().await.unwrap();
    });
}

#[test]
fn cd_02_the_lock_that_the_stop_meets_is_given_back() {
    run(async {
        let world = World::new();
        let answered = CancellationToken::new();
        world.script.fail("try_lock", [Fault::Halted(answered.clone())]);
        let runner = Runner::start(&world.store, SchedulerOptions::default());
        world.script.called("try_lock", 1).await;
        settle().await;
        runner.stop.cancel();
        settle().await;
        answered.cancel();
        runner.end().await.unwrap();
        assert_eq!(leader(&world.store).await, None);
    });
}

#[test]
fn cd_02_a_runner_that_waits_for_the_lead_stops_and_leaves_it_where_it_is() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        let one = Runner::leading(&world.store, &world.script).await;
        let leads = leader(&world.store).await;
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("try_lock", 1).await;
        settle().await;
        two.stop().await.unwrap();
        assert_eq!((script.calls("try_lock"), script.calls("release_lock")), (1, 0));
        assert_eq!(leader(&world.store).await, leads);
        one.stop().await.unwrap();
        // One that is stopped before it begins does not even ask.
        let stopped = CancellationToken::new();
        stopped.cancel();
        second.run_schedules(stopped).await.unwrap();
        assert_eq!(script.calls("try_lock"), 1);
    });
}

#[test]
fn cd_02_a_runner_ends_with_its_store() {
    run(async {
        let world = World::new();
        let (second, script) = world.another();
        let one = Runner::leading(&world.store, &world.script).await;
        let two = Runner::start(&second, SchedulerOptions::default());
        script.called("try_lock", 1).await;
        settle().await;
        world.store.close().await;
        second.close().await;
        assert!(matches!(one.end().await, Err(Error::Closed)));
        assert!(matches!(two.end().await, Err(Error::Closed)));
    });
}

#[test]
fn cx_05_a_ttl_that_is_not_positive_is_refused() {
    run(async {
        let world = World::new();
        for ttl_s in [1, 0, -1] {
            let options = SchedulerOptions { ttl_s };
            let refused = world
                .store
                .run_schedules_with(options, CancellationToken::new())
                .await;
            assert!(matches!(
                refused,
                Err(Error::InvalidOption { option: "ttl_s", .. })
            ));
        }
        assert_eq!(world.script.calls("listen"), 0);
        let queue = world.store.queue("q", QueueOptions::default()).unwrap();
        assert_eq!(queue.next_ready_at().await.unwrap(), None);
    });
}
