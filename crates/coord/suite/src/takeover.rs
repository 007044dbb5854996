//! CD-02 with processes: whoever leads the schedules is killed in mid-work, and another leads and fires what is due.
//!
//! For an engine on which processes share a store. Its test starts itself again: the children [run](run_schedules) the
//! schedules, and the test [kills](another_leads_after_a_kill) who leads.

use std::{collections::BTreeMap, thread, time::Duration};

use esker_coord_api::{
    CancellationToken, EnqueueOptions, Error, QueueOptions, SchedulerOptions, Store, WakeReceiver,
};
use esker_testing::processes::{Process, until_finished};

/// For how long a killed leader keeps others from leading, in seconds. Time is whole seconds, so that it may be nearly
/// one less; one alone would not outlast the time between two renewals.
const TTL: i64 = 2;

const KILLS: usize = 3;

/// So many, that firing them takes its time.
const SCHEDULES: usize = 20;

/// Who leads the schedules, as the store has it: the row of the lock.
#[derive(Debug)]
pub struct Lead {
    /// A name that tells the process.
    pub owner: String,
    pub fence: i64,
    pub expires_at: i64,
}

impl Lead {
    fn is_of(&self, process: &Process) -> bool {
        self.owner
            .strip_prefix("scheduler-")
            .is_some_and(|owner| owner.starts_with(&format!("{}-", process.id())))
    }
}

/// In a child: runs the schedules until it is told to finish.
pub async fn run_schedules(store: &Store) {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    thread::spawn(move || {
        until_finished();
        stopping.cancel();
    });
    let options = SchedulerOptions { ttl_s: TTL };
    loop {
        match store.run_schedules_with(options, stop.clone()).await {
            // The machine was too busy to renew in time.
            Err(Error::LeadershipLost) => {}
            ended => return ended.unwrap(),
        }
    }
}

/// Kills who leads, again and again, when it is caught in mid-work. What the catch gives is held until it is dead.
pub async fn another_leads_after_a_kill<Hold>(
    store: &Store,
    start: impl Fn() -> Process,
    lead: impl AsyncFn() -> Lead,
    catch: impl AsyncFn() -> Hold,
) {
    for n in 0..SCHEDULES {
        let plain = EnqueueOptions::default();
        let name = format!("s{n}");
        store
            .schedule(&name, "@every 1s", "q", name.clone(), plain)
            .await
            .unwrap();
    }
    let first = boundaries(store).await;
    let queue = store.queue("q", QueueOptions::default()).unwrap();
    let mut fired = queue.listen().await.unwrap();
    let mut runners = [start(), start()];
    wait(&mut fired).await;
    for _ in 0..KILLS {
        let hold = catch().await;
        let mut killed = lead().await;
        let runner = runners.iter_mut().find(|runner| killed.is_of(runner));
        let runner = runner.expect("one of the two leads");
        runner.kill();
        drop(hold);
        let next = loop {
            let leads = lead().await;
            if !leads.is_of(runner) {
                break leads;
            }
            // Until it lapsed, as it was when it was renewed last.
            killed = leads;
            wait(&mut fired).await;
        };
        assert!(next.fence > killed.fence, "{next:?} after {killed:?}");
        // It took the lead a ttl before its own lapses, or later where it has renewed since.
        assert!(
            next.expires_at - TTL >= killed.expires_at,
            "{next:?} while {killed:?} held"
        );
        *runner = start();
    }
    for runner in runners {
        runner.finish();
    }
    let seen = store.inspect().await.unwrap();
    assert_eq!(seen.locks, [], "the last leader gave it back");
    let mut elapsed: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, next) in boundaries(store).await {
        elapsed.insert(name.clone(), (first[&name]..next).collect());
    }
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    loop {
        let claimed = queue.claim_batch("w", 100).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        for handle in &claimed {
            let name = String::from_utf8(handle.job().payload.as_bytes().to_vec()).unwrap();
            found
                .entry(name)
                .or_default()
                .push(handle.job().boundary.unwrap());
        }
    }
    // In the order of their times: each once, and none left out.
    assert_eq!(found, elapsed);
}

/// Waits for a wake; the bound is there only so that a test that fails ends.
async fn wait(wakes: &mut WakeReceiver) {
    let woken = tokio::time::timeout(Duration::from_mins(1), wakes.recv()).await;
    woken.expect("somebody leads and fires").unwrap();
}

/// The next boundary of each schedule.
async fn boundaries(store: &Store) -> BTreeMap<String, i64> {
    let seen = store.inspect().await.unwrap().schedules;
    seen.into_iter()
        .map(|schedule| (schedule.name, schedule.next))
        .collect()
}
