//! The event store contract as tests, generic over the engine: every rule by its id, and the comparison with memory.
//!
//! An engine's tests say [`suite!`] once, with a type that implements [`Engine`]:
//!
//! ```
//! use std::sync::Arc;
//!
//! use esker_events_api::{EventStore, Options};
//! use esker_events_memory::MemoryStore;
//!
//! struct Memory(Arc<MemoryStore>);
//!
//! impl esker_events_suite::Engine for Memory {
//!     const HAS_BUDGET: bool = false;
//!
//!     async fn open(options: Options) -> Self {
//!         Self(Arc::new(MemoryStore::open(options)))
//!     }
//!
//!     fn store(&self) -> Arc<dyn EventStore> {
//!         self.0.clone()
//!     }
//! }
//!
//! esker_events_suite::suite!(Memory);
//! ```

// Tests say by their names and assertions what they are about.
#![allow(missing_docs)]

pub mod counting;
pub mod deleting;
pub mod engine;
pub mod events;
pub mod expiring;
pub mod filters;
pub mod following;
pub mod keeping;
pub mod model;
mod naive;
pub mod results;
pub mod versions;
pub mod world;
pub mod writing;

pub use engine::{Engine, block_on};
pub use model::{check_model, run_model};
pub use world::World;

/// Every rule's tests and the model test, for one engine.
#[macro_export]
macro_rules! suite {
    ($engine:ty) => {
        $crate::rules! { $engine,
            filters: [
                store_f01_since_and_until_are_inclusive,
                store_f02_ids_match_whole_lowercase_hex_only,
                store_f02_authors_match_whole_lowercase_hex_only,
                store_f03_values_are_alternatives_and_names_must_all_match,
                store_f03_tags_all_needs_every_value,
                store_f04_a_filter_sees_the_first_value_of_its_own_name,
                store_f04_a_tag_needs_a_value_and_a_one_character_name,
                store_f04_values_compare_whole_and_exact,
                store_f05_an_addressable_event_has_one_d,
                store_f06_every_value_finds_exactly_its_own,
            ],
            results: [
                store_f07_several_filters_are_a_union,
                store_f07_each_filter_has_its_own_limit,
                store_f08_ties_go_by_id_on_every_path,
                store_f09_a_merge_over_authors_finds_what_a_scan_finds,
                store_f09_a_merge_over_tag_values_finds_what_a_scan_finds,
                store_f10_the_empty_filter_matches_everything_and_deletes_nothing,
                store_f11_an_empty_list_matches_nothing,
                store_f12_limits_keep_the_newest,
                store_f12_no_limit_is_no_hidden_limit,
                store_f13_store_and_matcher_agree,
                store_f14_no_filters_match_nothing,
                store_s01_a_search_made_only_of_extensions_constrains_nothing,
                store_s05_without_search_a_search_matches_nothing,
            ],
            writing: [
                store_w03_ephemeral_events_are_told_and_never_stored,
                store_w03_ephemeral_events_obey_vanish_and_deletion,
                store_w06_gift_wraps_belong_to_their_recipient,
                store_w06_gift_wraps_vanish_with_their_recipient,
                store_w06_a_wraps_owner_is_its_first_valid_p_or_its_signer,
                store_w08_a_batch_answers_in_input_order,
                store_w08_a_batch_does_what_single_inserts_do,
                store_w09_the_same_event_again_is_a_duplicate,
                store_w09_concurrent_offers_of_one_event_store_it_once,
                store_w09_a_closed_store_fails_and_does_not_reject,
                store_w10_reading_gives_the_canonical_bytes,
                store_w10_however_an_event_was_written_it_is_stored_canonical,
                store_w11_stored_means_told_and_there_after_reopening,
                store_w11_a_dropped_future_undoes_nothing,
                store_w12_any_valid_event_can_be_stored_and_found,
            ],
            versions: [
                store_w01_a_newer_version_replaces_and_an_older_one_loses,
                store_w01_at_the_same_time_the_lower_id_wins_in_any_order,
                store_w01_other_kinds_have_no_versions,
                store_w01_concurrent_writers_leave_one_version,
                store_w02_versions_share_kind_author_and_d,
                store_w02_no_d_is_the_empty_d_and_the_first_counts,
                store_w07_superseding_takes_everything_with_it,
            ],
            expiring: [
                store_w04_an_event_that_has_expired_on_arrival_is_rejected,
                store_w05_the_sweep_removes_what_has_expired_and_nothing_else,
                store_w05_expired_events_are_hidden_on_request_only,
                store_w05_an_expired_version_holds_its_address_until_the_sweep,
            ],
            deleting: [
                store_d01_named_events_go_whatever_the_times,
                store_d01_a_deletion_takes_versions_and_wraps_by_id,
                store_d02_an_address_goes_up_to_the_requests_time,
                store_d02_an_address_takes_exactly_one_d,
                store_d02_a_replaceable_address_needs_no_last_colon,
                store_d02_ids_and_addresses_go_in_one_request,
                store_d03_anothers_request_is_stored_and_does_nothing,
                store_d04_a_stored_request_blocks_by_id,
                store_d04_a_stored_request_blocks_by_address,
                store_d04_a_backdated_request_deletes_and_does_not_block,
                store_d04_a_request_blocks_as_long_as_it_is_stored,
                store_d05_a_deletion_reaches_neither_deletions_nor_vanish_requests,
                store_d05_revocable_deletions_can_be_deleted,
                store_d06_a_request_acts_for_this_relay_or_all,
                store_d07_it_takes_what_is_older_and_blocks_its_own_second_too,
                store_d07_the_newest_request_counts,
                store_d07_a_request_blocks_as_long_as_it_is_stored,
                store_d08_delete_removes_and_blocks_nothing,
                store_d08_delete_honours_limits_and_takes_the_newest,
            ],
            counting: [
                store_c01_a_count_is_the_size_of_the_result,
                store_c01_no_default_limit_applies_to_a_count,
                store_n01_a_snapshot_has_at_most_one_more_than_asked,
            ],
            keeping: [
                store_k01_stats_tell_what_is_stored,
                store_k03_authors_missing_outbox,
                store_k05_a_query_past_its_budget_ends_with_its_filter,
                store_k05_a_long_query_ends_and_the_store_goes_on,
            ],
            following: [
                store_f08_every_page_size_gives_the_same_result,
                store_f07_limits_run_across_pages,
                store_f07_what_comes_between_pages_is_left_to_the_observer,
                store_f07_what_is_removed_between_pages_is_not_returned,
                store_w11_observers_see_every_change_in_commit_order,
                store_w11_offsets_are_never_reused,
                store_w11_all_observers_see_the_same,
                store_w11_stored_and_live_parts_have_no_gap_and_no_overlap,
            ],
        }

        #[test]
        fn store_f09_generated_histories_agree_with_memory() {
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
                <$engine as $crate::Engine>::run($crate::$topic::$rule::<$engine>());
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_rule_is_left_out_of_the_suite() {
        let topics = [
            ("filters", include_str!("filters.rs")),
            ("results", include_str!("results.rs")),
            ("writing", include_str!("writing.rs")),
            ("versions", include_str!("versions.rs")),
            ("expiring", include_str!("expiring.rs")),
            ("deleting", include_str!("deleting.rs")),
            ("counting", include_str!("counting.rs")),
            ("keeping", include_str!("keeping.rs")),
            ("following", include_str!("following.rs")),
        ];
        esker_testing::rules::all_are_listed(include_str!("lib.rs"), &topics);
    }
}
