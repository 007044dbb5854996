//! CD-01 to CD-03: what fires, once, while a lock is held.

use std::{collections::BTreeMap, sync::Arc};

use esker_coord_api::{
    Channel, EnqueueOptions, Error, Firing, Lock, LockAttempt, MOST_REPLAYED, Name, QueueOptions,
};
use tokio::sync::Barrier;

use crate::{
    World,
    world::{NOW, local, name},
};

impl World {
    /// Takes a lock, to fire under it.
    async fn leads(&self, name: &str, ttl: i64) -> Lock {
        let lock = self.store().try_lock(name, "runner", ttl).await.unwrap();
        lock.expect("a free lock")
    }

    async fn fire(&self, lock: &Lock) -> Firing {
        self.inner()
            .fire_schedules(name(lock.name()), lock.fence())
            .await
            .unwrap()
    }

    /// How many jobs were enqueued, and the next boundary.
    async fn fires(&self, lock: &Lock) -> (u64, Option<i64>) {
        match self.fire(lock).await {
            Firing::Fired { jobs, next } => (jobs, next.map(|next| next.at)),
            Firing::Lost => panic!("the lock is held"),
        }
    }

    async fn schedule(&self, name: &str, spec: &str) {
        let plain = EnqueueOptions::default();
        self.store()
            .schedule(name, spec, "q", name.to_owned(), plain)
            .await
            .unwrap();
    }

    /// The next boundary of each schedule, by name.
    async fn boundaries(&self) -> Vec<(String, i64)> {
        let seen = self.store().inspect().await.unwrap().schedules;
        seen.into_iter()
            .map(|schedule| (schedule.name, schedule.next))
            .collect()
    }
}

const LONG: i64 = 10_000_000;

pub async fn cd_01_what_is_not_of_the_grammar_is_refused_before_storage(world: World) {
    let plain = EnqueueOptions::default();
    for spec in [
        "",
        "@every 0s",
        "@every -1s",
        "@every 1w",
        "@every5s",
        "* * * * *",
        "@daily",
        "@every 1s 2s",
    ] {
        let refused = world.store().schedule("s", spec, "q", "x", plain).await;
        assert!(matches!(refused, Err(Error::InvalidSpec { .. })), "{spec:?}");
    }
    let none = EnqueueOptions {
        max_attempts: Some(0),
        ..plain
    };
    let refused = world.store().schedule("s", "@every 1s", "q", "x", none).await;
    assert!(matches!(
        refused,
        Err(Error::InvalidOption {
            option: "max_attempts",
            ..
        })
    ));
    assert!(world.boundaries().await.is_empty());
}

pub async fn cd_01_schedules_are_added_changed_and_removed_by_name(world: World) {
    world.schedule("b", "@every 10s").await;
    world.schedule("a", "@every 36h").await;
    let seen = world.store().inspect().await.unwrap().schedules;
    let specs: Vec<_> = seen
        .iter()
        .map(|one| (one.name.as_str(), one.spec.as_str(), one.queue.as_str()))
        .collect();
    assert_eq!(specs, [("a", "@every 36h", "q"), ("b", "@every 10s", "q")]);
    let plain = EnqueueOptions::default();
    world
        .store()
        .schedule("b", "@every 10s", "other", "new", plain)
        .await
        .unwrap();
    let seen = world.store().inspect().await.unwrap().schedules;
    assert_eq!((seen.len(), seen[1].queue.as_str()), (2, "other"));
    assert!(world.store().unschedule("b").await.unwrap());
    assert!(!world.store().unschedule("b").await.unwrap());
    assert_eq!(world.boundaries().await.len(), 1);
    // The change is what fires.
    world
        .store()
        .schedule("b", "@every 10s", "other", "new", plain)
        .await
        .unwrap();
    let lock = world.leads("l", LONG).await;
    world.advance(10).await;
    assert_eq!(world.fires(&lock).await.0, 1);
    let claimed = world.queue("other").claim_batch("w", 9).await.unwrap();
    assert_eq!(
        (claimed.len(), claimed[0].job().payload.as_bytes()),
        (1, &b"new"[..])
    );
}

pub async fn cd_02_nothing_fires_unasked(world: World) {
    world.schedule("s", "@every 10s").await;
    world.advance(100).await;
    assert!(world.queue("q").claim_one("w").await.unwrap().is_none());
    assert_eq!(world.boundaries().await, [("s".to_owned(), NOW + 10)]);
}

pub async fn cd_02_a_lost_lock_fires_nothing(world: World) {
    world.schedule("s", "@every 10s").await;
    let released = world.leads("l", 60).await;
    assert!(released.release().await.unwrap());
    let lapsed = world.leads("l", 60).await;
    world.advance(60).await;
    for lost in [&released, &lapsed] {
        assert_eq!(world.fire(lost).await, Firing::Lost);
    }
    let holds = world.leads("l", 60).await;
    for lost in [&released, &lapsed] {
        assert_eq!(world.fire(lost).await, Firing::Lost);
    }
    // Another lock's fence is not this one's, and a name that nobody locked has none.
    let unknown = world
        .inner()
        .fire_schedules(name("nobody"), holds.fence())
        .await
        .unwrap();
    let none = world.inner().fire_schedules(name("l"), 0).await.unwrap();
    assert_eq!((unknown, none), (Firing::Lost, Firing::Lost));
    assert!(world.queue("q").claim_one("w").await.unwrap().is_none());
    assert_eq!(world.boundaries().await, [("s".to_owned(), NOW + 10)]);
    assert_eq!(world.fires(&holds).await, (6, Some(NOW + 70)));
    world.advance(59).await;
    assert_eq!(world.fires(&holds).await.0, 5);
    world.advance(1).await;
    assert_eq!(world.fire(&holds).await, Firing::Lost);
}

pub async fn cd_03_each_boundary_fires_once(world: World) {
    let lock = world.leads("l", LONG).await;
    assert_eq!(world.fires(&lock).await, (0, None));
    world.schedule("s", "@every 10s").await;
    assert_eq!(world.fires(&lock).await, (0, Some(NOW + 10)));
    world.advance(9).await;
    assert_eq!(world.fires(&lock).await, (0, Some(NOW + 10)));
    world.advance(1).await;
    assert_eq!(world.fires(&lock).await, (1, Some(NOW + 20)));
    assert_eq!(world.fires(&lock).await, (0, Some(NOW + 20)));
    world.advance(35).await;
    // Off the grid, and the grid stays.
    assert_eq!(world.fires(&lock).await, (3, Some(NOW + 50)));
    let claimed = world.queue("q").claim_batch("w", 99).await.unwrap();
    let boundaries: Vec<_> = claimed.iter().map(|handle| handle.job().boundary).collect();
    assert_eq!(boundaries, [10, 20, 30, 40].map(|after| Some(NOW + after)));
}

pub async fn cd_03_what_is_fired_in_parts_leaves_no_boundary_out(world: World) {
    const SCHEDULES: i64 = 40;
    let lock = world.leads("l", LONG).await;
    for number in 0..SCHEDULES {
        world.schedule(&format!("s{number}"), "@every 1s").await;
    }
    // Each has more than can be made up for, and all together more than one transaction may fire.
    world.advance(1000).await;
    let mut fired = 0;
    loop {
        let Firing::Fired { jobs, next } = world.fire(&lock).await else {
            panic!("the lock is held")
        };
        fired += jobs;
        // Time passes, and boundaries with it, while there is something left.
        if !next.expect("there are schedules").wait.is_zero() {
            break;
        }
        assert!(jobs > 0);
        if fired < 2000 {
            world.advance(50).await;
        }
    }
    let mut boundaries: BTreeMap<Vec<u8>, Vec<i64>> = BTreeMap::new();
    loop {
        let claimed = world.queue("q").claim_batch("w", 1000).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        for handle in &claimed {
            let job = handle.job();
            let of = boundaries.entry(job.payload.as_bytes().to_vec()).or_default();
            of.push(job.boundary.expect("a schedule's job"));
        }
    }
    assert_eq!(boundaries.len(), usize::try_from(SCHEDULES).unwrap());
    for of in boundaries.values() {
        let whole: Vec<i64> = (of[0]..=world.now()).collect();
        assert_eq!(*of, whole);
        assert!(of.len() >= 64, "{of:?}");
    }
}

pub async fn cd_03_a_fired_job_carries_its_boundary_and_its_options(world: World) {
    let lock = world.leads("l", LONG).await;
    let options = EnqueueOptions {
        delay: Some(77),
        run_at: Some(5),
        priority: 4,
        max_attempts: Some(9),
        expires: Some(100),
    };
    world
        .store()
        .schedule("s", "@every 10s", "q", "payload", options)
        .await
        .unwrap();
    world.advance(13).await;
    assert_eq!(world.fires(&lock).await.0, 1);
    let fired = world
        .queue("q")
        .claim_one("w")
        .await
        .unwrap()
        .expect("a fired job");
    let job = fired.job();
    assert_eq!(
        (job.boundary, job.run_at, job.created_at),
        (Some(NOW + 10), NOW + 10, NOW + 13)
    );
    assert_eq!(
        (job.priority, job.expires_at, job.payload.as_bytes()),
        (4, Some(NOW + 110), &b"payload"[..])
    );
    let stamps = QueueOptions {
        max_attempts: 9,
        ..QueueOptions::default()
    };
    assert_eq!(job.stamps, stamps);
    // It stays what it stands for, dead and redriven too.
    assert!(fired.fail(None).await.unwrap());
    let queue = world.queue("q");
    assert_eq!(crate::world::dead(&queue).await[0].boundary, Some(NOW + 10));
    queue.redrive_all().await.unwrap();
    assert_eq!(
        crate::world::claim(&queue, "w").await.job().boundary,
        Some(NOW + 10)
    );
}

pub async fn cd_03_the_newest_64_are_replayed_oldest_first(world: World) {
    let lock = world.leads("l", LONG).await;
    world.schedule("s", "@every 10s").await;
    world.advance(10_003).await;
    let most = u64::try_from(MOST_REPLAYED).unwrap();
    assert_eq!(world.fires(&lock).await, (most, Some(NOW + 10_010)));
    let claimed = world.queue("q").claim_batch("w", 99).await.unwrap();
    let boundaries: Vec<_> = claimed.iter().map(|handle| handle.job().boundary).collect();
    let expected: Vec<_> = (937..=1000).map(|n| Some(NOW + n * 10)).collect();
    assert_eq!(boundaries, expected);
    assert!(crate::world::ids(&claimed).is_sorted());
    assert_eq!(world.fires(&lock).await, (0, Some(NOW + 10_010)));
}

pub async fn cd_03_an_unchanged_schedule_keeps_its_boundary(world: World) {
    world.schedule("s", "@every 60s").await;
    world.advance(50).await;
    // Written otherwise, it is the same.
    for spec in ["@every 60s", "@every 1m", "@every 060s"] {
        world.schedule("s", spec).await;
        assert_eq!(world.boundaries().await, [("s".to_owned(), NOW + 60)], "{spec}");
    }
    // Overdue it stays due.
    world.advance(100).await;
    world.schedule("s", "@every 1m").await;
    let lock = world.leads("l", LONG).await;
    assert_eq!(world.fires(&lock).await, (2, Some(NOW + 180)));
    world.schedule("s", "@every 2m").await;
    assert_eq!(world.boundaries().await, [("s".to_owned(), NOW + 150 + 120)]);
    assert!(world.store().unschedule("s").await.unwrap());
    world.schedule("s", "@every 2m").await;
    assert_eq!(world.boundaries().await, [("s".to_owned(), NOW + 150 + 120)]);
}

pub async fn cd_03_several_schedules_fire_together(world: World) {
    let lock = world.leads("l", LONG).await;
    for (name, spec) in [("a", "@every 10s"), ("b", "@every 15s"), ("c", "@every 1h")] {
        world.schedule(name, spec).await;
    }
    world.advance(30).await;
    assert_eq!(world.fires(&lock).await, (5, Some(NOW + 40)));
    let expected = [("a", 40), ("b", 45), ("c", 3600)].map(|(name, after)| (name.to_owned(), NOW + after));
    assert_eq!(world.boundaries().await, expected);
    let claimed = world.queue("q").claim_batch("w", 99).await.unwrap();
    let mut jobs: Vec<_> = claimed
        .iter()
        .map(|handle| {
            (
                handle.job().boundary.unwrap_or(0) - NOW,
                handle.job().payload.clone(),
            )
        })
        .collect();
    jobs.sort_by_key(|(after, payload)| (*after, payload.as_bytes().to_vec()));
    let expected = [(10, "a"), (15, "b"), (20, "a"), (30, "a"), (30, "b")];
    assert_eq!(jobs, expected.map(|(after, name)| (after, name.into())));
}

pub async fn cd_03_concurrent_runners_never_fire_twice(world: World) {
    let lock = world.leads("l", LONG).await;
    let second = world.second().await;
    for name in ["a", "b", "c"] {
        world.schedule(name, "@every 10s").await;
    }
    let world = Arc::new(world);
    for round in 1..=5 {
        world.advance(20).await;
        let barrier = Arc::new(Barrier::new(4));
        let mut runners = Vec::new();
        for n in 0..4 {
            let (world, barrier, fence) = (world.clone(), barrier.clone(), lock.fence());
            let second = second.clone();
            runners.push(tokio::spawn(async move {
                let engine = if n % 2 == 0 {
                    world.inner()
                } else {
                    world.inner_of(&second)
                };
                barrier.wait().await;
                engine.fire_schedules(name("l"), fence).await.unwrap()
            }));
        }
        let mut fired = 0;
        for runner in runners {
            match runner.await.unwrap() {
                Firing::Fired { jobs, .. } => fired += jobs,
                Firing::Lost => panic!("the lock is held"),
            }
        }
        assert_eq!(fired, 6, "round {round}");
    }
    assert_eq!(world.queue("q").claim_batch("w", 99).await.unwrap().len(), 30);
}

pub async fn cd_03_schedules_go_on_after_reopening(world: World) {
    world.schedule("s", "@every 10s").await;
    let lock = world.leads("l", 60).await;
    world.advance(15).await;
    assert_eq!(world.fires(&lock).await, (1, Some(NOW + 20)));
    world.advance(100).await;
    let world = world.reopen().await;
    let lock = world.leads("l", 60).await;
    assert_eq!(world.fires(&lock).await, (10, Some(NOW + 120)));
}

pub async fn cd_02_who_waits_for_schedules_is_woken_by_changes(world: World) {
    let second = world.second().await;
    let other = world.inner_of(&second);
    for engine in [world.inner(), other] {
        let mut wakes = engine.listen(Channel::schedules()).await.unwrap();
        world.schedule("s", "@every 10s").await;
        assert!(wakes.recv().await.is_some());
        world.schedule("s", "@every 5s").await;
        assert!(wakes.recv().await.is_some());
    }
}

pub async fn cd_02_who_waits_to_lead_is_woken_when_the_leader_gives_way(world: World) {
    let second = world.second().await;
    // The runners' own lock, which no caller can name.
    let lock = Name::trusted("__alkstore_scheduler");
    for engine in [world.inner(), world.inner_of(&second)] {
        let leader = world.inner();
        let LockAttempt::Held { fence, .. } = leader.try_lock(lock.clone(), local("a"), 60).await.unwrap()
        else {
            panic!("a free lock");
        };
        let leads = async || {
            world
                .store()
                .inspect()
                .await
                .unwrap()
                .scheduler()
                .map(|lock| lock.owner.clone())
        };
        assert_eq!(leads().await.as_deref(), Some("a"));
        let mut wakes = engine.listen(Channel::schedules()).await.unwrap();
        assert!(leader.release_lock(lock.clone(), fence).await.unwrap());
        assert!(wakes.recv().await.is_some());
        assert_eq!(leads().await, None);
        let LockAttempt::Held { fence: next, .. } =
            engine.try_lock(lock.clone(), local("b"), 60).await.unwrap()
        else {
            panic!("a lock that was given back");
        };
        assert!(next > fence);
        assert!(engine.release_lock(lock.clone(), next).await.unwrap());
    }
}
