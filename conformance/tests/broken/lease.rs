//! LEASE-. The defects are in `states.rs` and `endings.rs`.

use std::sync::Arc;

use latchwork_core::LostReason;

use super::endings::{
    Believes, ClosesHere, ClosesOnce, EndsInOneStall, ForgetsThatItAsked, LeavesWhenLost, NeverDies,
    NeverReopens, RefusesWhileSuspended, WaitsBehindItself,
};
use super::leaves::NeverLeaves;
use super::states::{
    DiesWhenAdmitted, NeverSuspended, Reports, Revives, States, half_of_its_ttl, lost_by_a_task, lost_never,
    too_long, unproven, without_margin,
};
use super::{Control, broken, broken_everywhere};

pub(super) const CONTROLS: &[Control] = &[
    broken("the_client_does_not_count_its_renewals", || Arc::new(States(unproven)))
        .fails("lease_alive_is_renewed_in_the_background")
        .passes("mutex_is_fair"),
    broken("the_server_gets_no_renewals", || Arc::new(DiesWhenAdmitted))
        .fails("lease_alive_is_renewed_in_the_background")
        .passes("key_opaque_bad_keys_are_refused"),
    broken("a_fixed_end_gives_the_node_back_at_once", || Arc::new(LeavesWhenLost(LostReason::MaxHold)))
        .fails("lease_fixed_end_has_a_margin")
        .passes("lease_fixed_end_is_kept"),
    broken("a_close_gives_back_what_is_held_at_once", || Arc::new(LeavesWhenLost(LostReason::Closed)))
        .fails("lease_close_has_a_margin")
        .passes("lease_close_gives_everything_back"),
    broken("a_release_answers_what_the_client_believes", || Arc::new(Believes { asks: 1 }))
        .fails("node_leave_own_reports_a_removal")
        .passes("mutex_release_is_idempotent"),
    broken("a_repeated_release_takes_what_it_finds_for_its_own_doing", || Arc::new(Believes { asks: 2 }))
        .fails("node_leave_own_never_guesses")
        .passes("node_leave_own_reports_a_removal"),
    broken("a_repeated_release_takes_its_own_doing_for_anothers", || Arc::new(ForgetsThatItAsked))
        .fails("node_leave_own_and_nothing_newer")
        .passes("node_leave_own_reports_a_removal"),
    broken("a_lease_is_never_suspended", || Arc::new(States(lost_by_a_task)))
        .fails("lease_state_suspended_and_live_again")
        .passes("mutex_is_fair"),
    broken("a_client_never_says_that_nobody_answers", || Arc::new(NeverSuspended))
        .fails("lease_state_fail_fast_does_not_wait")
        .passes("mutex_is_fair"),
    broken("waiters_never_hear_that_nobody_answers", || Arc::new(States(lost_by_a_task)))
        .fails("mutex_within_distinguishes_an_outage_from_contention")
        .passes("mutex_is_fair"),
    broken("a_loss_is_reported_by_a_task_and_not_by_the_clock", || Arc::new(States(lost_by_a_task)))
        .fails("lease_state_is_a_function_of_the_clock")
        .passes("mutex_is_fair"),
    broken("a_join_fails_while_suspended", || Arc::new(RefusesWhileSuspended))
        .fails("lease_state_acquire_waits_while_suspended")
        .passes("mutex_is_fair"),
    broken("the_deadline_is_counted_to_the_ttl_and_more", || Arc::new(States(too_long)))
        .fails("lease_deadline_is_known_before_another_is_admitted")
        .passes("mutex_is_fair"),
    broken("under_chaos_holders_believe_too_long", || Arc::new(States(too_long)))
        .fails("mutex_under_chaos")
        .passes("mutex_is_fair"),
    broken("under_chaos_lost_holds_live_again", || Arc::new(Revives))
        .fails("rwlock_under_chaos")
        .passes("mutex_is_fair"),
    broken("a_late_reply_revives_a_lost_hold", || Arc::new(Revives))
        .fails("lease_deadline_loss_is_final")
        .passes("mutex_is_fair"),
    broken("the_ttl_is_reported_as_half_of_what_was_asked", || Arc::new(Reports(half_of_its_ttl)))
        .fails("lease_ttl_granted_is_readable")
        .passes("mutex_is_fair"),
    broken("the_deadline_forgets_the_margin", || Arc::new(Reports(without_margin)))
        .fails("lease_ttl_granted_is_readable")
        .passes("mutex_is_fair"),
    broken("the_server_hears_of_no_fixed_end", || {
        Arc::new(NeverLeaves(|node| node.honest.state().lost() == Some(LostReason::MaxHold)))
    })
    .fails("lease_fixed_end_is_kept")
    .passes("mutex_is_fair"),
    broken("a_hold_with_a_fixed_end_is_not_renewed", || Arc::new(States(unproven)))
        .fails("lease_fixed_end_is_kept")
        .passes("mutex_is_fair"),
    broken("a_close_leaves_the_nodes_to_the_lease", || Arc::new(ClosesHere))
        .fails("lease_close_gives_everything_back")
        .passes("client_gone_within_its_lease_after_a_death"),
    broken("a_close_ends_all_nodes_in_one_stall", || Arc::new(EndsInOneStall::default()))
        .fails("lease_close_of_many_holds_blocks_no_client")
        .passes("mutex_is_fair"),
    broken("a_close_says_it_once", || Arc::new(ClosesOnce))
        .fails("lease_close_outlasts_a_break")
        .passes("lease_close_gives_everything_back"),
    broken("a_drop_leaves_the_nodes_to_the_lease", || Arc::new(ClosesHere))
        .fails("lease_close_by_dropping")
        .passes("client_gone_within_its_lease_after_a_death"),
    broken_everywhere("no_new_lease_after_a_loss", || Arc::new(NeverReopens))
        .fails("lease_reopen_after_loss")
        .passes("mutex_is_fair"),
    broken_everywhere("a_new_lease_waits_until_the_server_has_forgotten_the_old_one", || {
        Arc::new(WaitsBehindItself)
    })
    .fails("lease_reopen_does_not_wait_for_the_old_node")
    .passes("lease_reopen_after_loss"),
    broken("a_dead_client_is_renewed_for_ever", || Arc::new(NeverDies))
        .fails("lease_expiry_frees_the_holds_of_a_dead_client")
        .passes("mutex_is_fair"),
    broken("the_server_keeps_a_dead_client_for_longer_than_it_granted", || {
        Arc::new(Reports(half_of_its_ttl))
    })
    .fails("lease_expiry_frees_the_holds_of_a_dead_client@semaphore-1")
    .passes("mutex_is_fair"),
    broken("the_silence_of_a_dead_renewal_counts_as_life", || Arc::new(States(lost_never)))
        .fails("lease_renewal_death_is_a_loss")
        .passes("mutex_is_fair"),
];
