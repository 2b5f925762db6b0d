//! LEASE-: leases that go wrong. The table; what is broken stands in `states.rs` and `endings.rs`.

use latchwork_conformance::testbed::Testbed;
use latchwork_core::LostReason;
use latchwork_core::backend::LeaseWriter;

use super::endings::{
    Believes, ClosesHere, ClosesOnce, EndsInOneStall, ForgetsThatItAsked, IgnoresFixedEnd, LeavesWhenLost,
    NeverDies, NeverReopens, RefusesWhileSuspended, WaitsBehindItself,
};
use super::states::{
    DiesWhenAdmitted, NeverSuspended, Reports, Revives, States, lost_by_a_task, lost_never, too_long,
    unproven, without_margin,
};
use super::{Control, on_memory};

/// A lease that reports half of the TTL that the server keeps it for.
fn half_of_its_ttl(name: &'static str) -> Box<dyn Testbed> {
    on_memory(
        name,
        Reports(|honest| {
            LeaseWriter::new(honest.clock().clone(), honest.ttl() / 2, honest.clock().now()).into()
        }),
    )
}

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "the_client_does_not_count_its_renewals",
        case: "lease_alive_is_renewed_in_the_background",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(unproven)),
    },
    Control {
        name: "the_server_gets_no_renewals",
        case: "lease_alive_is_renewed_in_the_background",
        beside: "key_opaque_bad_keys_are_refused",
        testbed: |name| on_memory(name, DiesWhenAdmitted),
    },
    Control {
        name: "a_fixed_end_gives_the_node_back_at_once",
        case: "lease_fixed_end_has_a_margin",
        beside: "lease_fixed_end_is_kept",
        testbed: |name| on_memory(name, LeavesWhenLost(LostReason::MaxHold)),
    },
    Control {
        name: "a_close_gives_back_what_is_held_at_once",
        case: "lease_close_has_a_margin",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, LeavesWhenLost(LostReason::Closed)),
    },
    Control {
        name: "a_release_answers_what_the_client_believes",
        case: "node_leave_own_reports_a_removal",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, Believes { asks: 1 }),
    },
    Control {
        name: "a_repeated_release_takes_what_it_finds_for_its_own_doing",
        case: "node_leave_own_never_guesses",
        beside: "node_leave_own_reports_a_removal",
        testbed: |name| on_memory(name, Believes { asks: 2 }),
    },
    Control {
        name: "a_repeated_release_takes_its_own_doing_for_anothers",
        case: "node_leave_own_and_nothing_newer",
        beside: "node_leave_own_reports_a_removal",
        testbed: |name| on_memory(name, ForgetsThatItAsked),
    },
    Control {
        name: "a_lease_is_never_suspended",
        case: "lease_state_suspended_and_live_again",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(lost_by_a_task)),
    },
    Control {
        name: "a_client_never_says_that_nobody_answers",
        case: "lease_state_fail_fast_does_not_wait",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NeverSuspended),
    },
    Control {
        name: "waiters_never_hear_that_nobody_answers",
        case: "mutex_within_distinguishes_an_outage_from_contention",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(lost_by_a_task)),
    },
    Control {
        name: "a_loss_is_reported_by_a_task_and_not_by_the_clock",
        case: "lease_state_is_a_function_of_the_clock",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(lost_by_a_task)),
    },
    Control {
        name: "a_join_fails_while_suspended",
        case: "lease_state_acquire_waits_while_suspended",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, RefusesWhileSuspended),
    },
    Control {
        name: "the_deadline_is_counted_to_the_ttl_and_more",
        case: "lease_deadline_is_known_before_another_is_admitted",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(too_long)),
    },
    Control {
        name: "under_chaos_holders_believe_too_long",
        case: "mutex_under_chaos",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(too_long)),
    },
    Control {
        name: "under_chaos_lost_holds_live_again",
        case: "rwlock_under_chaos",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Revives),
    },
    Control {
        name: "a_late_reply_revives_a_lost_hold",
        case: "lease_deadline_loss_is_final",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Revives),
    },
    Control {
        name: "the_ttl_is_reported_as_half_of_what_was_asked",
        case: "lease_ttl_granted_is_readable",
        beside: "mutex_is_fair",
        testbed: half_of_its_ttl,
    },
    Control {
        name: "the_deadline_forgets_the_margin",
        case: "lease_ttl_granted_is_readable",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Reports(without_margin)),
    },
    Control {
        name: "the_server_hears_of_no_fixed_end",
        case: "lease_fixed_end_is_kept",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, IgnoresFixedEnd),
    },
    Control {
        name: "a_hold_with_a_fixed_end_is_not_renewed",
        case: "lease_fixed_end_is_kept",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(unproven)),
    },
    Control {
        name: "a_close_leaves_the_nodes_to_the_lease",
        case: "lease_close_gives_everything_back",
        beside: "client_gone_within_its_lease_after_a_death",
        testbed: |name| on_memory(name, ClosesHere),
    },
    Control {
        name: "a_close_ends_all_nodes_in_one_stall",
        case: "lease_close_of_many_stalls_nobody",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, EndsInOneStall::default()),
    },
    Control {
        name: "a_close_says_it_once",
        case: "lease_close_outlasts_a_break",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, ClosesOnce),
    },
    Control {
        name: "a_drop_leaves_the_nodes_to_the_lease",
        case: "lease_close_by_dropping",
        beside: "client_gone_within_its_lease_after_a_death",
        testbed: |name| on_memory(name, ClosesHere),
    },
    Control {
        name: "no_new_lease_after_a_loss",
        case: "lease_reopen_after_loss",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NeverReopens),
    },
    Control {
        name: "a_new_lease_waits_until_the_server_has_forgotten_the_old_one",
        case: "lease_reopen_does_not_wait_behind_our_own_old_node",
        beside: "lease_reopen_after_loss",
        testbed: |name| on_memory(name, WaitsBehindItself),
    },
    Control {
        name: "a_dead_client_is_renewed_for_ever",
        case: "lease_expiry_frees_what_a_dead_client_held",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NeverDies),
    },
    Control {
        name: "the_server_keeps_a_dead_client_for_longer_than_it_granted",
        // With a plain mutex the lease runs out by itself, and the case does not end it.
        case: "lease_expiry_frees_what_a_dead_client_held@semaphore-1",
        beside: "mutex_is_fair",
        testbed: half_of_its_ttl,
    },
    Control {
        name: "the_silence_of_a_dead_renewal_counts_as_life",
        case: "lease_renewal_death_is_a_loss",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(lost_never)),
    },
];
