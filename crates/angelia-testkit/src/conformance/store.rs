//! The checks that every store must pass. [`store_conformance!`](crate::store_conformance) turns
//! each check into a test; the modules group them by subject.

#![expect(clippy::unwrap_used, reason = "a check fails by panicking")]

mod approvals;
mod audit;
mod callers;
mod claims;
mod events;
mod leases;
mod reports;
mod rules;
mod samples;
mod schedules;
mod sessions;
mod turns;

use std::sync::Arc;

use angelia_core::ports::Store;

pub use self::{
    approvals::*, audit::*, callers::*, claims::*, events::*, leases::*, reports::*, rules::*,
    samples::*, schedules::*, sessions::*, turns::*,
};

/// Opens the store under test on one storage, which is initially empty.
pub trait StoreFixture: Send + Sync {
    /// Opens a store on this fixture's storage, as another process would. Dropping the store
    /// without closing it simulates the death of that process.
    fn open(&self) -> Arc<dyn Store>;

    /// Returns whether several stores can be open at once. If not, the checks about several owners
    /// do nothing.
    fn is_shared(&self) -> bool;
}

/// Expands to one `#[tokio::test]` per check; the argument creates a fresh [`StoreFixture`].
#[macro_export]
macro_rules! store_conformance {
    ($fixture:expr) => {
        $crate::store_conformance! { $fixture =>
            a_session_comes_back_as_it_was,
            a_plain_session_comes_back_as_it_was,
            a_session_is_created_once,
            a_change_based_on_an_old_revision_is_refused,
            sessions_are_paged_newest_first,
            a_review_is_in_no_list,
            the_first_who_gives_a_name_keeps_it_and_names_are_scoped,
            a_deleted_session_takes_everything_along,
            retention_sees_only_what_is_old_and_done,
            a_turn_comes_back_as_it_was,
            a_turn_is_created_once,
            turns_are_paged_newest_first,
            turns_keep_their_order_when_the_clock_is_set_back,
            a_page_goes_on_when_its_turn_is_gone,
            a_session_is_updated_by_its_turns,
            sessions_are_listed_by_use_with_what_people_know,
            sessions_are_found_by_what_people_know,
            a_page_by_use_starts_behind_its_session,
            ids_are_found_by_their_start,
            a_turn_changes_its_state_until_it_has_finished,
            the_finished_event_finishes_the_turn,
            every_outcome_comes_back_as_it_was,
            every_event_comes_back_as_it_was,
            json_of_the_agent_is_kept_to_the_byte,
            events_are_replayed_from_any_number,
            deltas_are_passed_over,
            text_of_an_open_block_is_kept_until_the_turn_ends,
            text_of_an_open_block_needs_the_lease,
            a_number_is_recorded_once,
            a_turn_finishes_once,
            a_refused_append_leaves_nothing,
            events_need_their_turn,
            appends_are_committed_in_order,
            an_append_can_require_earlier_events,
            a_lost_lease_cannot_write,
            a_released_lease_cannot_write,
            the_same_process_may_acquire_again,
            a_living_owner_keeps_its_session,
            a_dead_owner_loses_its_session,
            turns_of_the_living_are_not_lost,
            turns_of_the_dead_are_lost,
            a_turn_without_an_owner_is_lost,
            a_repeated_request_is_its_first_turn,
            the_audit_is_kept_in_order,
            callers_never_share_a_key,
            a_claim_is_forgotten_after_its_time,
            windows_do_not_shorten_each_other,
            a_refused_turn_leaves_no_claim,
            a_new_turn_is_found_by_its_history,
            of_many_equal_requests_one_creates_the_turn,
            of_many_processes_one_creates_the_turn,
            claims_survive_the_process,
            claims_go_with_their_session,
            approvals_are_listed_until_they_are_decided,
            the_first_decision_stays,
            a_refused_append_asks_nothing,
            approvals_are_paged_newest_first,
            approvals_of_a_deleted_session_vanish,
            approvals_survive_the_process,
            rules_are_kept_until_they_are_removed,
            a_conversation_is_found_by_what_it_looks_like,
            a_history_belongs_to_a_turn,
            what_callers_have_spent_adds_up,
            a_tool_choice_is_kept,
            parked_turns_are_kept_and_not_lost,
            turns_that_were_handed_over_are_kept_and_not_lost,
            what_turns_used_adds_up,
            parts_of_an_hour_add_up_to_the_turn,
            a_cold_cache_has_a_reason,
            browsers_are_kept_until_they_are_removed,
            the_newest_report_of_a_quota_is_kept,
            turns_are_found_by_status_and_time,
            what_was_said_is_found,
            what_is_deleted_is_not_found,
            a_schedule_comes_back_as_it_was,
            an_occurrence_is_claimed_once,
            skipped_occurrences_are_counted,
            a_paused_schedule_does_not_advance,
            old_occurrences_are_forgotten,
            schedules_survive_the_process,
            a_store_says_whether_it_can_be_written,
            a_closed_store_says_so,
        }
    };
    ($fixture:expr => $($check:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $check() {
                $crate::conformance::store::$check(&$fixture).await;
            }
        )*
    };
}
