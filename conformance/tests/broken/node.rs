//! NODE-: queues that go wrong. The table; what is broken stands in `order.rs`, `waits.rs` and
//! `leaves.rs`.

use super::endings::NeverDies;
use super::leaves::{
    AnswersBeforeItLeaves, DropsRepeatedLeaves, ForgetsRepeated, IgnoresAbandon, LeavesNewer,
    LeavesOnlyTheAdmitted, NewIdForARetry, NoTombstone,
};
use super::order::{
    AdmitsEverybody, AnyPredecessorAdmits, Lists, Numbers, OvertakesPermits, OwnCounters, ReadersOneByOne,
    ReadersPassWriters, Restarts, TakesWhatIsThere, foreign_labels, leases,
};
use super::states::States;
use super::waits::{
    EndsTheLease, Herd, LooksFirst, NoRecheck, OnlyRechecks, SleepsThroughRevocation, gone_as_expired,
    gone_at_a_renewal, gone_never,
};
use super::{Control, PlantTestbed, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "every_client_counts_its_sequence_numbers_for_itself",
        case: "node_order_rises_in_join_order",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, OwnCounters::default()),
    },
    Control {
        name: "sequence_numbers_begin_again_when_the_queue_is_empty",
        case: "node_order_rises_in_join_order",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, Restarts::default()),
    },
    Control {
        name: "the_token_is_constant",
        case: "node_token_rises_from_holder_to_holder",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, Numbers(|_| 7)),
    },
    Control {
        name: "the_token_goes_back",
        case: "node_token_rises_from_holder_to_holder",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, Numbers(|honest| (1 << 52) - honest % (1 << 51))),
    },
    Control {
        name: "everybody_is_admitted",
        case: "node_admit_exclusive",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "readers_pass_a_waiting_writer",
        case: "node_admit_shared_and_exclusive",
        beside: "node_admit_permits",
        testbed: |name| on_memory(name, ReadersPassWriters),
    },
    Control {
        name: "readers_are_admitted_one_by_one",
        case: "node_admit_shared_and_exclusive",
        beside: "node_admit_permits",
        testbed: |name| on_memory(name, ReadersOneByOne),
    },
    Control {
        name: "permits_are_given_out_in_part",
        case: "node_admit_permits",
        beside: "node_admit_shared_and_exclusive",
        testbed: |name| on_memory(name, TakesWhatIsThere),
    },
    Control {
        name: "light_claims_overtake_a_heavy_one",
        case: "node_admit_permits",
        beside: "node_admit_shared_and_exclusive",
        testbed: |name| on_memory(name, OvertakesPermits),
    },
    Control {
        name: "a_join_looks_before_it_joins",
        case: "node_one_trip_each_way",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, LooksFirst),
    },
    Control {
        name: "any_departure_of_the_predecessor_admits",
        case: "node_wait_a_departure_admits_the_next_alone",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, AnyPredecessorAdmits),
    },
    Control {
        name: "a_release_wakes_nobody",
        case: "node_wait_a_handoff_is_an_event",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, OnlyRechecks),
    },
    Control {
        name: "a_departure_wakes_every_waiter",
        case: "node_wait_a_departure_costs_the_same_behind_few_and_many",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Herd::one_of(1)),
    },
    Control {
        name: "a_few_in_a_thousand_look_at_every_departure",
        case: "node_wait_a_thousand_released_one_by_one",
        // So few of them do not show there.
        beside: "node_wait_a_departure_costs_the_same_behind_few_and_many",
        testbed: |name| on_memory(name, Herd::one_of(50)),
    },
    Control {
        name: "a_few_readers_and_writers_look_at_every_departure",
        case: "node_wait_readers_and_writers_released_one_by_one",
        // So few of them do not show there.
        beside: "node_wait_a_departure_costs_the_same_behind_few_and_many",
        testbed: |name| on_memory(name, Herd::one_of(50)),
    },
    Control {
        name: "a_few_who_want_permits_look_at_every_departure",
        case: "node_wait_for_permits_released_one_by_one",
        // So few of them do not show there.
        beside: "node_wait_a_departure_costs_the_same_behind_few_and_many",
        testbed: |name| on_memory(name, Herd::one_of(50)),
    },
    Control {
        name: "a_lost_wake_up_is_never_healed",
        case: "node_no_lost_wake_when_it_is_dropped",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NoRecheck),
    },
    Control {
        name: "a_waiter_that_was_cut_off_looks_only_at_an_event",
        case: "node_no_lost_wake",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NoRecheck),
    },
    Control {
        name: "a_retry_makes_a_second_node",
        case: "node_idempotent_a_lost_reply_makes_one_node",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NewIdForARetry),
    },
    Control {
        name: "a_repeated_join_makes_a_second_node",
        case: "node_idempotent_a_repeated_join_is_the_same_node",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NewIdForARetry),
    },
    Control {
        name: "an_abandoned_attempt_has_no_tombstone",
        case: "node_idempotent_a_late_join_makes_no_ghost",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NoTombstone),
    },
    Control {
        name: "under_chaos_late_joins_make_ghosts",
        case: "semaphore_under_chaos",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NoTombstone),
    },
    Control {
        name: "a_leave_after_a_retried_join_has_no_tombstone",
        case: "node_idempotent_a_late_join_after_the_release_makes_no_ghost",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, ForgetsRepeated),
    },
    Control {
        name: "a_retried_leave_removes_a_newer_node",
        case: "node_leave_own_and_nothing_newer",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, LeavesNewer::default()),
    },
    Control {
        name: "a_cancelled_wait_leaves_its_node",
        case: "node_cancel_a_dropped_wait_leaves_nothing",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, LeavesOnlyTheAdmitted),
    },
    Control {
        name: "a_leave_is_answered_before_it_is_carried_out",
        case: "node_cancel_drop_then_try_succeeds",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, AnswersBeforeItLeaves),
    },
    Control {
        name: "a_dropped_join_is_not_taken_back",
        case: "node_cancel_at_any_instant",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, IgnoresAbandon),
    },
    Control {
        name: "of_many_dropped_joins_none_is_taken_back",
        case: "node_cancel_thousands_at_random_instants",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, IgnoresAbandon),
    },
    Control {
        name: "what_is_dropped_while_it_waits_stays",
        case: "node_cancel_thousands_at_random_instants",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, LeavesOnlyTheAdmitted),
    },
    Control {
        name: "no_dropped_join_of_any_recipe_is_taken_back",
        case: "node_cancel_every_future_of_a_mutex",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, IgnoresAbandon),
    },
    Control {
        name: "a_dropped_release_does_not_go_on",
        case: "node_cancel_a_dropped_release_goes_on",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, DropsRepeatedLeaves),
    },
    Control {
        name: "a_dead_waiter_keeps_its_place",
        case: "node_death_in_mid_queue",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, NeverDies),
    },
    Control {
        name: "a_holder_hears_of_no_removal",
        case: "node_gone_a_holder_hears_it",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, States(gone_never)),
    },
    Control {
        name: "a_removal_is_reported_as_an_expiry",
        case: "node_gone_a_holder_hears_it",
        beside: "lease_deadline_loss_is_final",
        testbed: |name| on_memory(name, States(gone_as_expired)),
    },
    Control {
        name: "a_removal_ends_the_whole_lease",
        case: "node_gone_a_holder_hears_it",
        beside: "node_gone_a_waiter_hears_it",
        testbed: |name| on_memory(name, EndsTheLease::default()),
    },
    Control {
        name: "a_waiter_hears_of_no_removal",
        case: "node_gone_a_waiter_hears_it",
        beside: "node_gone_a_holder_hears_it",
        testbed: |name| on_memory(name, SleepsThroughRevocation),
    },
    Control {
        name: "a_removal_is_reported_at_the_next_renewal_only",
        case: "node_gone_is_reported_as_promptly_as_promised",
        beside: "node_gone_a_holder_hears_it",
        testbed: |name| on_memory(name, States(gone_at_a_renewal)),
    },
    Control {
        name: "a_foreign_entry_counts_as_a_node",
        case: "node_foreign_entries_do_no_harm",
        beside: "mutex_is_fair",
        testbed: |name| Box::new(PlantTestbed::broken(name)),
    },
    Control {
        name: "a_listing_is_in_no_order",
        case: "node_list_in_order_and_paged",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Lists { asked: |page| page, answered: |entries| entries.reverse() }),
    },
    Control {
        name: "a_page_begins_at_the_head_again",
        case: "node_list_in_order_and_paged",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| latchwork_core::backend::EntryPage { after: 0, ..page },
                    answered: |_| (),
                },
            )
        },
    },
    Control {
        name: "a_page_has_no_end",
        case: "node_list_in_order_and_paged",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| latchwork_core::backend::EntryPage { most: 1000, ..page },
                    answered: |_| (),
                },
            )
        },
    },
    Control {
        name: "a_listing_shows_every_node_as_admitted",
        case: "node_list_in_order_and_paged",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| page,
                    answered: |entries| entries.iter_mut().for_each(|entry| entry.admitted = true),
                },
            )
        },
    },
    Control {
        name: "a_listing_shows_labels_as_they_were_written",
        case: "node_list_cuts_and_escapes_what_others_wrote",
        beside: "node_list_shows_the_longest_label_whole",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| page,
                    answered: |entries| foreign_labels(entries, |label| label.replace("\\u{1b}", "\u{1b}")),
                },
            )
        },
    },
    Control {
        name: "a_listing_shows_labels_of_any_length",
        case: "node_list_cuts_and_escapes_what_others_wrote",
        beside: "node_list_shows_the_longest_label_whole",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| page,
                    answered: |entries| {
                        foreign_labels(entries, |label| label.to_owned() + &"x".repeat(100_000))
                    },
                },
            )
        },
    },
    Control {
        name: "a_listing_tells_no_leases",
        case: "node_list_tells_how_long_a_lease_has_left",
        beside: "node_list_in_order_and_paged",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| page,
                    answered: |entries| entries.iter_mut().for_each(|entry| entry.lease_left = None),
                },
            )
        },
    },
    Control {
        name: "a_listing_tells_leases_that_are_longer_than_they_are",
        case: "node_list_tells_how_long_a_lease_has_left",
        beside: "node_list_in_order_and_paged",
        testbed: |name| {
            on_memory(
                name,
                Lists { asked: |page| page, answered: |entries| leases(entries, |left| left * 2) },
            )
        },
    },
    Control {
        name: "a_listing_tells_leases_that_are_shorter_than_they_are",
        case: "node_list_tells_how_long_a_lease_has_left",
        beside: "node_list_in_order_and_paged",
        testbed: |name| {
            on_memory(
                name,
                Lists { asked: |page| page, answered: |entries| leases(entries, |left| left / 4) },
            )
        },
    },
    Control {
        name: "a_listing_tells_leases_unasked",
        case: "node_list_tells_how_long_a_lease_has_left",
        beside: "node_list_in_order_and_paged",
        testbed: |name| on_memory(name, Lists { asked: |page| page.with_leases(), answered: |_| () }),
    },
    Control {
        name: "a_listing_has_no_labels",
        case: "node_list_in_order_and_paged",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(
                name,
                Lists {
                    asked: |page| page,
                    answered: |entries| entries.iter_mut().for_each(|entry| entry.label.clear()),
                },
            )
        },
    },
];
