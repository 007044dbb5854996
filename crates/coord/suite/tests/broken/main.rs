//! Engines with one fault each: the model test finds every one of them, and shows it in a few steps.

mod faulty;

use std::{
    sync::{Arc, Mutex},
    thread,
};

use esker_coord_api::{
    Claim, Claimed, Clock, Cursor, DeadPage, Engine as _, Firing, LocalName, LockAttempt, Name, NewEvent,
    NewJob, NewSchedule, NextTime, Result,
};
use esker_coord_memory::MemoryEngine;
use esker_coord_suite::{block_on, run, run_model};
use faulty::{Fault, Faulty};

/// The model test finds the fault, in so many steps, and tells of it in these words.
fn found<F: Fault>(words: &'static str) {
    block_on(Box::pin(async move {
        let failure = run_model::<Faulty<F>>(0..200, 80)
            .await
            .expect_err("a fault that is found");
        let text = failure.to_string();
        assert!(failure.steps() <= 8, "{text}");
        assert!(text.contains(words), "{text}");
        assert!(text.contains(&format!("seed {}", failure.seed())), "{text}");
    }));
}

/// The rule's own test fails on the fault too.
macro_rules! breaks {
    ($fault:ty, $topic:ident::$rule:ident) => {
        let test = || run::<Faulty<$fault>>(|world| Box::pin(esker_coord_suite::$topic::$rule(world)));
        assert!(
            thread::spawn(test).join().is_err(),
            "{} passes",
            stringify!($rule)
        );
    };
}

struct Faultless;
impl Fault for Faultless {}

#[test]
fn an_engine_without_a_fault_passes() {
    block_on(Box::pin(async {
        run_model::<Faulty<Faultless>>(0..20, 60)
            .await
            .expect("the wrapper itself is sound");
    }));
}

struct ForgottenToken;
impl Fault for ForgottenToken {
    /// Any claim of the same worker is as good as the present one.
    async fn held(memory: &MemoryEngine, queue: &Name, mut claim: Claim, tokens: &Tokens) -> Claim {
        let job = memory
            .get_job(queue.clone(), claim.id)
            .await
            .expect("an open store");
        if job.is_some_and(|job| job.worker.as_ref() == Some(&claim.worker)) {
            claim.token = tokens
                .lock()
                .expect("no panic")
                .iter()
                .rev()
                .find(|(id, _)| *id == claim.id)
                .map_or(0, |(_, token)| *token);
        }
        claim
    }
}

/// Ids and tokens of all claims.
type Tokens = Arc<Mutex<Vec<(i64, i64)>>>;

#[test]
fn a_claim_that_is_known_by_its_worker_alone_is_found() {
    found::<ForgottenToken>("held: the engine gives true, memory false");
    breaks!(
        ForgottenToken,
        claims::cq_03_a_stale_claim_of_the_same_worker_can_do_nothing
    );
}

struct ForgottenError;
impl Fault for ForgottenError {
    fn error(_error: Option<String>) -> Option<String> {
        None
    }
}

#[test]
fn a_retry_that_forgets_the_error_is_found() {
    found::<ForgottenError>("last_error: None");
    breaks!(ForgottenError, claims::cq_03_retry_puts_back_and_keeps_the_error);
}

struct ReleaseCounts;
impl Fault for ReleaseCounts {
    async fn release(memory: &MemoryEngine, queue: Name, claim: Claim) -> Result<bool> {
        memory.retry(queue, claim, None, 0).await
    }
}

#[test]
fn a_release_that_counts_is_found() {
    found::<ReleaseCounts>("Release");
    breaks!(ReleaseCounts, claims::cq_03_release_gives_the_attempt_back);
}

struct AdditiveHeartbeat;
impl Fault for AdditiveHeartbeat {
    async fn heartbeat(
        memory: &MemoryEngine,
        clock: &Clock,
        queue: Name,
        claim: Claim,
        extend: i64,
    ) -> Result<bool> {
        let job = memory.get_job(queue.clone(), claim.id).await?;
        let left = job
            .and_then(|job| job.claim_expires_at)
            .map_or(0, |until| until.saturating_sub(clock.now()));
        memory
            .heartbeat(queue, claim, extend.saturating_add(left.max(0)))
            .await
    }
}

#[test]
fn a_heartbeat_that_adds_is_found() {
    found::<AdditiveHeartbeat>("Heartbeat");
    breaks!(AdditiveHeartbeat, claims::cq_03_a_heartbeat_counts_from_now);
}

struct OrderById;
impl Fault for OrderById {
    fn claimed(mut claimed: Vec<Claimed>) -> Vec<Claimed> {
        claimed.sort_by_key(|claimed| claimed.job.id);
        claimed
    }
}

#[test]
fn a_batch_in_the_order_of_ids_is_found() {
    found::<OrderById>("claimed");
    breaks!(
        OrderById,
        queues::cq_02_the_order_of_choice_and_batch_is_the_contracts
    );
}

struct CancelsAnywhere;
impl Fault for CancelsAnywhere {
    async fn cancel(memory: &MemoryEngine, queue: Name, id: i64) -> Result<bool> {
        let mut cancelled = memory.cancel(queue, id).await?;
        for queue in ["q", "Q", "other"] {
            cancelled |= memory.cancel(Name::new(queue)?, id).await?;
        }
        Ok(cancelled)
    }
}

#[test]
fn a_cancel_of_another_queues_job_is_found() {
    found::<CancelsAnywhere>("cancelled: the engine gives true, memory false");
    breaks!(
        CancelsAnywhere,
        dying::cq_06_cancel_deletes_a_live_job_whoever_holds_it
    );
}

struct SweepsNothing;
impl Fault for SweepsNothing {
    async fn sweep_expired(_memory: &MemoryEngine, _queue: Name) -> Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_sweep_that_does_nothing_is_found() {
    found::<SweepsNothing>("swept: the engine gives 0");
    breaks!(
        SweepsNothing,
        dying::cq_06_a_sweep_moves_what_has_expired_in_any_state
    );
}

struct NextIgnoresClaims;
impl Fault for NextIgnoresClaims {
    fn next(next: Option<NextTime>, clock: &Clock) -> Option<NextTime> {
        next.filter(|next| next.at <= clock.now())
    }
}

#[test]
fn a_next_time_that_looks_at_what_is_ready_only_is_found() {
    found::<NextIgnoresClaims>("next ready: the engine gives None");
    breaks!(
        NextIgnoresClaims,
        waiting::cq_07_the_next_time_is_when_a_claim_will_find_something
    );
}

struct InclusivePage;
impl Fault for InclusivePage {
    fn page(page: DeadPage) -> DeadPage {
        DeadPage {
            after: page.after.saturating_sub(1),
            ..page
        }
    }
}

#[test]
fn a_page_that_repeats_is_found() {
    found::<InclusivePage>("dead: ");
    breaks!(InclusivePage, dying::ci_02_dead_jobs_are_listed_in_pages_by_id);
}

struct RewindingOffsets;
impl Fault for RewindingOffsets {
    /// The last offset saved counts, not the highest.
    fn offset(saved: &[(Name, LocalName, i64)], stream: &Name, consumer: &LocalName, offset: i64) -> i64 {
        let of = |(name, who, _): &&(Name, LocalName, i64)| name == stream && who == consumer;
        saved.iter().rev().find(of).map_or(offset, |(_, _, last)| *last)
    }
}

#[test]
fn an_offset_that_goes_back_is_found() {
    found::<RewindingOffsets>("SaveOffset");
    breaks!(RewindingOffsets, streams::cs_06_saved_offsets_only_grow);
}

struct InclusiveRead;
impl Fault for InclusiveRead {
    fn cursor(cursor: Cursor) -> Cursor {
        match cursor {
            Cursor::After(offset) => Cursor::After(offset.saturating_sub(1)),
            saved @ Cursor::Saved(_) => saved,
        }
    }
}

#[test]
fn a_read_that_repeats_is_found() {
    found::<InclusiveRead>("events: the engine gives");
    breaks!(
        InclusiveRead,
        streams::cs_05_reads_are_beyond_the_cursor_ascending_and_bounded
    );
}

struct ShortTrim;
impl Fault for ShortTrim {
    fn horizon(horizon: i64) -> i64 {
        horizon.saturating_sub(1)
    }
}

#[test]
fn a_trim_that_stops_short_is_found() {
    found::<ShortTrim>("trimmed");
    breaks!(ShortTrim, streams::cs_08_trimming_keeps_offsets);
}

struct LostKeys;
impl Fault for LostKeys {
    fn event(event: NewEvent) -> NewEvent {
        NewEvent::new(None, event.payload().clone()).expect("no key")
    }
}

#[test]
fn a_lost_key_is_found() {
    found::<LostKeys>("key: None");
    breaks!(LostKeys, streams::cs_01_a_key_is_carried_and_orders_nothing);
}

struct ExpiryFromNow;
impl Fault for ExpiryFromNow {
    fn job(job: NewJob, clock: &Clock) -> NewJob {
        let now = clock.now();
        let waits = job.run_at(now).saturating_sub(now);
        NewJob {
            expires: job.expires.map(|expires| expires.saturating_sub(waits)),
            ..job
        }
    }
}

#[test]
fn an_expiry_that_counts_from_the_enqueue_is_found() {
    found::<ExpiryFromNow>("expires ");
    breaks!(ExpiryFromNow, queues::cq_01_a_delay_longer_than_the_expiry_works);
}

struct ExtendingLock;
impl Fault for ExtendingLock {
    async fn try_lock(memory: &MemoryEngine, name: Name, owner: LocalName, ttl: i64) -> Result<LockAttempt> {
        let attempt = memory.try_lock(name.clone(), owner, ttl).await?;
        if let LockAttempt::Held { fence, .. } = attempt {
            memory.renew_lock(name, fence, ttl).await?;
        }
        Ok(attempt)
    }
}

#[test]
fn a_lock_that_is_extended_by_trying_is_found() {
    found::<ExtendingLock>("TryLock");
    breaks!(
        ExtendingLock,
        locks::cl_02_the_same_owner_gets_it_again_without_a_new_ttl
    );
}

struct ResetSchedule;
impl Fault for ResetSchedule {
    async fn schedule(memory: &MemoryEngine, schedule: NewSchedule) -> Result<()> {
        memory.unschedule(schedule.name.clone()).await?;
        memory.schedule(schedule).await
    }
}

#[test]
fn a_schedule_that_begins_anew_unchanged_is_found() {
    found::<ResetSchedule>("Schedule {");
    breaks!(
        ResetSchedule,
        schedules::cd_03_an_unchanged_schedule_keeps_its_boundary
    );
}

struct UnfencedFiring;
impl Fault for UnfencedFiring {
    async fn fire(memory: &MemoryEngine, lock: Name, fence: i64) -> Result<Firing> {
        let fired = memory.fire_schedules(lock, fence).await?;
        if fired != Firing::Lost {
            return Ok(fired);
        }
        // Whoever asks may fire.
        let own = Name::new("a lock of its own")?;
        let LockAttempt::Held { fence, .. } = memory
            .try_lock(own.clone(), LocalName::new("me")?, i64::MAX)
            .await?
        else {
            return Ok(Firing::Lost);
        };
        let fired = memory.fire_schedules(own.clone(), fence).await;
        memory.release_lock(own, fence).await?;
        fired
    }
}

#[test]
fn a_firing_without_the_lock_is_found() {
    found::<UnfencedFiring>("fired: the engine gives Some");
    breaks!(UnfencedFiring, schedules::cd_02_a_lost_lock_fires_nothing);
}

struct LeakyTransaction;
impl Fault for LeakyTransaction {
    const LEAKS: bool = true;
}

#[test]
fn a_transaction_that_writes_before_its_commit_is_found() {
    found::<LeakyTransaction>("Transaction {");
    breaks!(LeakyTransaction, wakes::cw_01_a_roll_back_wakes_nobody);
    breaks!(
        LeakyTransaction,
        transactions::ct_03_a_dropped_transaction_leaves_nothing
    );
    breaks!(
        LeakyTransaction,
        streams::cs_03_a_rolled_back_publish_leaves_no_gap
    );
    breaks!(
        LeakyTransaction,
        transactions::ct_02_nothing_is_visible_before_the_commit_and_all_after
    );
}

struct Forgetful;
impl Fault for Forgetful {
    const FORGETS: bool = true;
}

#[test]
fn a_store_that_forgets_at_its_end_is_found() {
    found::<Forgetful>("Reopen");
    breaks!(
        Forgetful,
        basics::cx_08_what_was_answered_is_there_after_reopening
    );
}
