//! The coordination contract as tests, generic over the engine: every rule by its id, and the comparison with memory.
//!
//! An engine's tests say [`suite!`] once, with a type that implements [`Engine`]:
//!
//! ```
//! use esker_coord_api::{Clock, Store};
//! use esker_coord_memory::{MemoryEngine, Options};
//!
//! struct Memory(Store);
//!
//! impl Memory {
//!     fn another(&self) -> Store {
//!         Store::new(self.0.engine::<MemoryEngine>().expect("memory").open_again())
//!     }
//! }
//!
//! impl esker_coord_suite::Engine for Memory {
//!     type Inner = MemoryEngine;
//!     const WRITERS_WAIT: bool = false;
//!
//!     async fn open(clock: Clock) -> Self {
//!         Self(Store::new(MemoryEngine::open(Options { clock })))
//!     }
//!
//!     fn store(&self) -> Store {
//!         self.0.clone()
//!     }
//!
//!     async fn open_again(&self) -> Store {
//!         self.another()
//!     }
//!
//!     async fn reopen(self) -> Self {
//!         Self(self.another())
//!     }
//! }
//!
//! esker_coord_suite::suite!(Memory);
//! ```
//!
//! # What broke for others
//!
#![doc = include_str!("../kinds.md")]
// Tests say by their names and assertions what they are about.
#![allow(missing_docs)]
// In tests, an error that was not expected is a failure of the test.
#![allow(clippy::unwrap_used)]

pub mod basics;
pub mod claims;
pub mod clocks;
pub mod crowd;
pub mod dying;
pub mod engine;
pub mod inspecting;
pub mod locks;
pub mod model;
pub mod naming;
pub mod ordering;
pub mod queues;
pub mod schedules;
pub mod streams;
pub mod subscribing;
pub mod takeover;
pub mod transactions;
pub mod waiting;
pub mod wakes;
pub mod world;

pub use engine::{Engine, block_on, run, skip};
pub use model::{check_model, run_model};
pub use world::World;

/// Every rule's tests and the model test, for one engine.
#[macro_export]
macro_rules! suite {
    ($engine:ty) => {
        $crate::rules! { $engine,
            basics: [
                cx_01_handles_are_shared_and_sent_and_name_no_engine,
                cx_03_payloads_are_kept_byte_for_byte,
                cx_03_payloads_of_transactions_are_kept_byte_for_byte,
                cx_05_ttls_that_do_not_last_are_refused,
                cx_07_a_closed_store_says_so_and_does_nothing,
                cx_08_what_was_answered_is_there_after_reopening,
                cx_08_a_transaction_that_was_open_at_the_end_is_gone,
                cx_10_a_dropped_future_undoes_nothing,
                cx_10_a_dropped_claim_or_ack_goes_on,
                cx_10_a_dropped_begin_holds_nothing,
            ],
            clocks: [
                cx_04_one_clock_rules_everything,
                cx_04_one_operation_goes_by_one_reading_of_the_clock,
                cx_04_a_clock_that_is_set_back_spoils_nothing,
                cx_04_a_clock_that_jumps_forward_lapses_all_at_once_and_spoils_nothing,
                cq_02_a_lapsed_claim_is_given_again_though_the_clock_was_set_back,
            ],
            naming: [
                cx_06_bad_names_are_refused_everywhere_and_nothing_is_done,
                cx_06_bad_names_are_refused_inside_a_transaction,
                cx_06_names_are_checked_before_any_round_trip,
                cx_06_every_good_name_works_everywhere,
                cx_06_local_names_are_only_not_blank,
            ],
            transactions: [
                ct_01_a_transaction_reads_its_own_writes,
                ct_02_nothing_is_visible_before_the_commit_and_all_after,
                ct_03_a_dropped_transaction_leaves_nothing,
                ct_03_an_error_inside_rolls_back,
                ct_03_a_panic_inside_rolls_back,
                ct_03_a_refused_call_inside_leaves_the_transaction_whole,
                ct_04_jobs_of_a_transaction_carry_the_default_options,
                ct_04_a_queue_stamps_what_it_enqueues_in_a_transaction,
                ct_01_batches_keep_their_order_and_leave_with_a_rollback,
                ct_02_an_empty_transaction_commits,
                ct_05_a_held_transaction_and_other_writers,
                ct_05_transactions_on_two_handles_take_turns_or_pass,
            ],
            wakes: [
                cw_01_a_notification_wakes_who_listens_to_its_channel,
                cw_01_listening_begins_now,
                cw_01_nothing_is_lost_from_the_moment_that_listening_resolves,
                cw_01_notifications_of_a_transaction_come_after_its_commit,
                cw_01_a_roll_back_wakes_nobody,
                cw_02_a_wake_names_its_channel_and_carries_nothing,
                cw_03_silence_the_time_and_the_end_are_told_apart,
                cw_03_the_end_comes_to_who_waits,
                cw_03_after_a_lost_connection_everybody_looks_again,
                cw_04_a_payload_that_does_not_fit_is_refused_before_it_is_sent,
                cw_05_each_publish_wakes_its_streams_channel,
                cw_05_each_enqueue_wakes_its_queues_channel,
                cw_05_a_job_that_is_ready_sooner_than_known_wakes_its_queue,
                cw_05_a_fired_schedule_wakes_its_queue,
                cw_05_what_makes_no_job_ready_sooner_wakes_nobody,
                cw_06_others_commits_wake_nobody,
                cw_06_many_come_and_go_and_all_who_stay_are_woken,
            ],
            streams: [
                cs_01_a_key_is_carried_and_orders_nothing,
                cs_01_an_empty_key_is_refused,
                cs_02_an_event_is_read_as_it_was_published,
                cs_03_offsets_count_from_one_in_each_stream,
                cs_03_a_rolled_back_publish_leaves_no_gap,
                cs_03_no_offset_is_used_twice,
                cs_05_reads_are_beyond_the_cursor_ascending_and_bounded,
                cs_05_a_consumer_reads_from_its_saved_offset,
                cs_06_saved_offsets_only_grow,
                cs_06_concurrent_saves_leave_the_highest,
                cs_08_trimming_keeps_offsets,
            ],
            ordering: [
                cs_04_every_reader_sees_each_committed_event_once_in_order,
                cs_04_a_late_commit_is_not_lost_to_who_reads_ahead,
                cs_04_a_rolled_back_publisher_holds_nobody_up,
                cs_04_transactions_over_several_streams_commit_in_any_order,
            ],
            subscribing: [
                cs_07_a_consumer_reads_from_its_saved_offset_and_follows,
                cs_07_nothing_is_saved_unasked,
                cs_07_reading_aside_moves_nothing,
                cs_07_pages_follow_without_a_gap,
                cs_07_nothing_is_missed_at_the_attach,
                cs_07_consumers_are_independent,
                cs_07_trimmed_events_are_passed_over,
                cs_07_a_saved_offset_beyond_the_end_waits_for_what_comes_after,
                cs_07_the_end_of_the_store_is_the_end,
                cs_06_of_two_that_do_the_work_of_one_consumer_each_goes_on_after_the_other,
                cs_06_transactions_that_ask_for_two_consumers_crosswise_do_not_wait_for_ever,
                cs_06_an_offset_that_commits_with_the_work_is_exactly_once,
            ],
            queues: [
                cq_01_a_job_begins_pending_with_the_stamps_of_its_queue,
                cq_01_changed_options_touch_later_jobs_only,
                cq_01_a_jobs_own_options_are_stored,
                cq_01_a_delay_longer_than_the_expiry_works,
                cx_05_times_of_jobs_saturate,
                cx_05_a_claim_of_nothing_is_empty,
                cx_05_options_that_cannot_work_are_refused_and_nothing_is_done,
                cq_02_a_job_is_claimed_from_its_second_on,
                cq_02_a_claim_shows_the_job_as_it_is_now,
                cq_02_the_order_of_choice_and_batch_is_the_contracts,
                cq_02_lapsed_claims_take_their_place_in_the_order,
                cq_02_a_claim_lapses_after_its_last_second_and_each_counts,
                cq_02_an_expired_job_is_not_claimed,
                cq_02_queues_share_nothing,
                cq_02_each_job_goes_to_exactly_one_claimer,
                cq_02_jobs_that_come_while_others_claim_are_claimed_once,
            ],
            claims: [
                cq_03_ack_deletes,
                cq_03_retry_puts_back_and_keeps_the_error,
                cq_03_a_retry_with_attempts_spent_is_death,
                cq_03_fail_is_death_at_once,
                cq_03_a_heartbeat_counts_from_now,
                cq_03_a_heartbeat_that_does_not_extend_is_refused,
                cq_03_a_lapsed_claim_can_do_nothing,
                cq_03_a_stale_claim_of_the_same_worker_can_do_nothing,
                cq_03_a_stale_claim_cannot_touch_a_redriven_job,
                cq_03_release_gives_the_attempt_back,
                cq_03_concurrent_ends_of_one_claim_succeed_once,
                cq_03_a_late_worker_and_a_reclaim_never_both_hold,
                cq_04_a_retry_without_a_delay_is_on_the_curve,
                cq_03_any_error_text_is_kept,
            ],
            dying: [
                cq_05_a_lapsed_job_without_attempts_dies_at_the_next_claim,
                cq_05_a_lapsed_job_without_attempts_dies_in_a_sweep,
                cq_05_a_spent_job_keeps_the_error_that_a_worker_gave,
                cq_05_a_dead_job_keeps_what_it_was,
                cq_05_an_expired_job_dies_at_the_next_claim_unless_it_is_held,
                cq_05_an_expired_job_that_is_put_back_expires,
                cq_05_one_claim_settles_a_bounded_number,
                cq_06_a_sweep_moves_what_has_expired_in_any_state,
                cq_06_a_sweep_deletes_the_dead_past_their_retention,
                cq_06_ack_batch_counts_the_claims_that_held,
                cq_06_cancel_deletes_a_live_job_whoever_holds_it,
                ci_02_dead_jobs_are_listed_in_pages_by_id,
                ci_02_a_redriven_job_begins_anew,
                ci_02_all_of_a_queue_are_redriven_or_purged,
            ],
            waiting: [
                cq_07_the_next_time_is_when_a_claim_will_find_something,
                cq_07_what_will_never_be_claimed_is_not_waited_for,
                cq_07_a_held_job_that_expires_first_is_not_waited_for,
                cq_07_a_claim_that_will_lapse_sooner_wakes_who_waits,
                cq_09_a_batch_is_stored_whole_and_its_ids_are_in_order,
                cq_09_concurrent_batches_are_whole,
                cq_10_what_cannot_be_decoded_is_the_workers_to_fail,
            ],
            locks: [
                cl_01_one_owner_holds_it_until_it_is_given_back,
                cl_01_a_renewal_is_a_full_new_window,
                cl_01_a_dropped_handle_gives_nothing_back,
                cl_01_a_lost_race_is_none_and_never_an_error,
                cl_01_exclusion_holds_under_contention,
                cl_02_after_the_ttl_it_can_be_taken_and_is_never_revived,
                cl_02_the_same_owner_gets_it_again_without_a_new_ttl,
                cl_03_fences_grow_with_each_fresh_acquisition,
            ],
            schedules: [
                cd_01_what_is_not_of_the_grammar_is_refused_before_storage,
                cd_01_schedules_are_added_changed_and_removed_by_name,
                cd_02_nothing_fires_unasked,
                cd_02_a_lost_lock_fires_nothing,
                cd_03_each_boundary_fires_once,
                cd_03_what_is_fired_in_parts_leaves_no_boundary_out,
                cd_03_a_fired_job_carries_its_boundary_and_its_options,
                cd_03_the_newest_64_are_replayed_oldest_first,
                cd_03_an_unchanged_schedule_keeps_its_boundary,
                cd_03_several_schedules_fire_together,
                cd_03_concurrent_runners_never_fire_twice,
                cd_03_schedules_go_on_after_reopening,
                cd_02_who_waits_for_schedules_is_woken_by_changes,
                cd_02_who_waits_to_lead_is_woken_when_the_leader_gives_way,
            ],
            inspecting: [
                ci_01_an_empty_store_holds_nothing,
                ci_01_queues_are_counted_by_state,
                ci_01_queues_are_counted_right_after_the_clock_was_set_back,
                ci_01_streams_have_ends_and_consumers_lag,
                ci_01_locks_are_those_that_are_held,
                ci_01_schedules_show_their_next_boundary,
                co_01_an_outbox_is_a_queue_out_of_reach,
                co_01_a_delivery_is_acknowledged_or_tried_again,
                co_01_a_delivery_that_takes_too_long_is_anothers,
                co_01_a_delivery_can_expire,
            ],
        }

        #[test]
        fn cx_04_generated_histories_agree_with_memory() {
            $crate::check_model::<$engine>();
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! rules {
    ($engine:ty, $($topic:ident: [$($rule:ident,)*],)*) => {
        $($(
            #[test]
            fn $rule() {
                $crate::run::<$engine>(|world| Box::pin($crate::$topic::$rule(world)));
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The rows of the list of kinds: what broke, and the tests.
    fn kinds() -> Vec<[&'static str; 2]> {
        let rows = include_str!("../kinds.md").lines();
        let rows = rows.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        rows.skip(1)
            .map(|row| row.split(" | ").collect::<Vec<_>>().try_into().unwrap())
            .collect()
    }

    /// The Rust files below a folder.
    fn sources(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
        found
    }

    #[test]
    fn every_kind_of_fault_names_tests_that_there_are() {
        let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        for [kind, named] in kinds() {
            let tests: Vec<_> = named.split('`').skip(1).step_by(2).collect();
            assert!(!tests.is_empty(), "{kind}");
            for test in tests {
                let function = format!("fn {test}(");
                assert!(sources.iter().any(|source| source.contains(&function)), "{test}");
            }
        }
    }

    #[test]
    fn no_rule_is_left_out_of_the_suite() {
        let topics = [
            ("basics", include_str!("basics.rs")),
            ("clocks", include_str!("clocks.rs")),
            ("naming", include_str!("naming.rs")),
            ("transactions", include_str!("transactions.rs")),
            ("wakes", include_str!("wakes.rs")),
            ("streams", include_str!("streams.rs")),
            ("ordering", include_str!("ordering.rs")),
            ("subscribing", include_str!("subscribing.rs")),
            ("queues", include_str!("queues.rs")),
            ("claims", include_str!("claims.rs")),
            ("dying", include_str!("dying.rs")),
            ("waiting", include_str!("waiting.rs")),
            ("locks", include_str!("locks.rs")),
            ("schedules", include_str!("schedules.rs")),
            ("inspecting", include_str!("inspecting.rs")),
        ];
        esker_testing::rules::all_are_listed(include_str!("lib.rs"), &topics);
    }
}
