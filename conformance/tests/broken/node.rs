//! NODE-. The defects are in `order.rs`, `waits.rs`, `leaves.rs` and `listings.rs`.

use std::sync::Arc;

use latchwork_core::LostReason;
use latchwork_core::backend::EntryPage;

use super::endings::NeverDies;
use super::foreign::CountsPlants;
use super::leaves::{
    AnswersBeforeItLeaves, IgnoresAbandon, Joins, LeavesNewer, NeverLeaves, NoTombstone,
    as_another_if_repeated, as_the_first, is_admitted, is_repeated,
};
use super::listings::{Lists, Pages, foreign_labels, leases};
use super::order::{
    Admits, AnyPredecessorAdmits, Numbers, OvertakesPermits, OwnCounters, ReadersOneByOne,
    ReadersPassWriters, Restarts, for_one_permit,
};
use super::states::States;
use super::waits::{
    EndsTheLease, Herd, LooksFirst, NoRecheck, OnlyRechecks, SleepsThrough, gone_as_expired,
    gone_at_a_renewal, gone_never,
};
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("every_client_counts_its_sequence_numbers_for_itself", || Arc::new(OwnCounters::default()))
        .fails("node_order_rises_in_join_order")
        .passes("mutex_release_is_idempotent"),
    broken("sequence_numbers_begin_again_when_the_queue_is_empty", || Arc::new(Restarts::default()))
        .fails("node_order_rises_in_join_order")
        .passes("mutex_release_is_idempotent"),
    broken("the_token_is_constant", || Arc::new(Numbers(|_| 7)))
        .fails("node_token_rises_from_holder_to_holder")
        .passes("mutex_release_is_idempotent"),
    broken("the_token_goes_back", || Arc::new(Numbers(|honest| (1 << 52) - honest % (1 << 51))))
        .fails("node_token_rises_from_holder_to_holder")
        .passes("mutex_release_is_idempotent"),
    broken("everybody_is_admitted", || Arc::new(Admits(|_| true)))
        .fails("node_admit_exclusive")
        .passes("mutex_release_is_idempotent"),
    broken("readers_pass_a_waiting_writer", || Arc::new(ReadersPassWriters))
        .fails("node_admit_shared_and_exclusive")
        .passes("node_admit_permits"),
    broken("readers_are_admitted_one_by_one", || Arc::new(ReadersOneByOne))
        .fails("node_admit_shared_and_exclusive")
        .passes("node_admit_permits"),
    broken("permits_are_given_out_in_part", || Arc::new(Joins(for_one_permit)))
        .fails("node_admit_permits")
        .passes("node_admit_shared_and_exclusive"),
    broken("light_claims_overtake_a_heavy_one", || Arc::new(OvertakesPermits))
        .fails("node_admit_permits")
        .passes("node_admit_shared_and_exclusive"),
    broken("a_join_looks_before_it_joins", || Arc::new(LooksFirst))
        .fails("node_one_trip_each_way")
        .passes("mutex_is_fair"),
    broken("any_departure_of_the_predecessor_admits", || Arc::new(AnyPredecessorAdmits))
        .fails("node_wait_a_departure_admits_the_next_alone")
        .passes("mutex_is_fair"),
    broken("a_release_wakes_nobody", || Arc::new(OnlyRechecks))
        .fails("node_wait_a_handoff_is_an_event")
        .passes("mutex_release_is_idempotent"),
    broken("a_departure_wakes_every_waiter", || Arc::new(Herd::one_of(1)))
        .fails("node_wait_departure_cost_does_not_grow_with_waiters")
        .passes("mutex_is_fair"),
    broken("a_few_in_a_thousand_look_at_every_departure", || Arc::new(Herd::one_of(50)))
        .fails("node_wait_a_thousand_released_one_by_one")
        .passes("node_wait_departure_cost_does_not_grow_with_waiters"),
    broken("a_few_readers_and_writers_look_at_every_departure", || Arc::new(Herd::one_of(50)))
        .fails("node_wait_readers_and_writers_released_one_by_one")
        .passes("node_wait_departure_cost_does_not_grow_with_waiters"),
    broken("a_few_who_want_permits_look_at_every_departure", || Arc::new(Herd::one_of(50)))
        .fails("node_wait_for_permits_released_one_by_one")
        .passes("node_wait_departure_cost_does_not_grow_with_waiters"),
    broken("a_lost_wake_up_is_never_healed", || Arc::new(NoRecheck))
        .fails("node_no_lost_wake_when_it_is_dropped")
        .passes("mutex_is_fair"),
    broken("a_waiter_that_was_cut_off_looks_only_at_an_event", || Arc::new(NoRecheck))
        .fails("node_no_lost_wake")
        .passes("mutex_is_fair"),
    broken("a_retry_makes_a_second_node", || Arc::new(Joins(as_another_if_repeated)))
        .fails("node_idempotent_a_lost_reply_makes_one_node")
        .passes("mutex_is_fair"),
    broken("a_repeated_join_makes_a_second_node", || Arc::new(Joins(as_another_if_repeated)))
        .fails("node_idempotent_a_repeated_join_is_the_same_node")
        .passes("mutex_is_fair"),
    broken("an_abandoned_attempt_has_no_tombstone", || Arc::new(NoTombstone))
        .fails("node_idempotent_a_late_join_makes_no_ghost")
        .passes("mutex_is_fair"),
    broken("under_chaos_late_joins_make_ghosts", || Arc::new(NoTombstone))
        .fails("semaphore_under_chaos")
        .passes("mutex_is_fair"),
    broken("a_leave_after_a_retried_join_has_no_tombstone", || Arc::new(Joins(as_the_first)))
        .fails("node_idempotent_a_late_join_after_the_release_makes_no_ghost")
        .passes("mutex_is_fair"),
    broken("a_retried_leave_removes_a_newer_node", || Arc::new(LeavesNewer::default()))
        .fails("node_leave_own_and_nothing_newer")
        .passes("mutex_is_fair"),
    broken("a_cancelled_wait_leaves_its_node", || Arc::new(NeverLeaves(|node| !is_admitted(node))))
        .fails("node_cancel_a_dropped_wait_leaves_nothing")
        .passes("mutex_is_fair"),
    broken("a_leave_is_answered_before_it_is_carried_out", || Arc::new(AnswersBeforeItLeaves))
        .fails("node_cancel_drop_then_try_succeeds")
        .passes("mutex_is_fair"),
    broken("a_dropped_join_is_not_taken_back", || Arc::new(IgnoresAbandon))
        .fails("node_cancel_at_any_instant")
        .passes("mutex_is_fair"),
    broken("of_many_dropped_joins_none_is_taken_back", || Arc::new(IgnoresAbandon))
        .fails("node_cancel_thousands_at_random_instants")
        .passes("mutex_is_fair"),
    broken("what_is_dropped_while_it_waits_stays", || Arc::new(NeverLeaves(|node| !is_admitted(node))))
        .fails("node_cancel_thousands_at_random_instants")
        .passes("mutex_is_fair"),
    broken("no_dropped_join_of_any_recipe_is_taken_back", || Arc::new(IgnoresAbandon))
        .fails("node_cancel_every_future_of_a_mutex")
        .passes("mutex_is_fair"),
    broken("a_dropped_release_does_not_go_on", || Arc::new(NeverLeaves(is_repeated)))
        .fails("node_cancel_a_dropped_release_goes_on")
        .passes("mutex_is_fair"),
    broken("a_dead_waiter_keeps_its_place", || Arc::new(NeverDies))
        .fails("node_death_in_mid_queue")
        .passes("mutex_is_fair"),
    broken("a_holder_hears_of_no_removal", || Arc::new(States(gone_never)))
        .fails("node_gone_a_holder_hears_it")
        .passes("lease_close_gives_everything_back"),
    broken("a_removal_is_reported_as_an_expiry", || Arc::new(States(gone_as_expired)))
        .fails("node_gone_a_holder_hears_it")
        .passes("lease_deadline_loss_is_final"),
    broken("a_removal_ends_the_whole_lease", || Arc::new(EndsTheLease::default()))
        .fails("node_gone_a_holder_hears_it")
        .passes("node_gone_a_waiter_hears_it"),
    broken("a_waiter_hears_of_no_removal", || {
        Arc::new(SleepsThrough(|error| error.lost_reason() == Some(LostReason::Revoked)))
    })
    .fails("node_gone_a_waiter_hears_it")
    .passes("node_gone_a_holder_hears_it"),
    broken("a_removal_is_reported_at_the_next_renewal_only", || Arc::new(States(gone_at_a_renewal)))
        .fails("node_gone_is_reported_as_promptly_as_promised")
        .passes("node_gone_a_holder_hears_it"),
    broken("a_foreign_entry_counts_as_a_node", || Arc::new(CountsPlants::default()))
        .fails("node_foreign_entries_do_no_harm")
        .passes("mutex_is_fair"),
    broken("a_listing_is_in_no_order", || Arc::new(Lists(|entries| entries.reverse())))
        .fails("node_list_in_order_and_paged")
        .passes("mutex_is_fair"),
    broken("a_page_begins_at_the_head_again", || Arc::new(Pages(|page| EntryPage { after: 0, ..page })))
        .fails("node_list_in_order_and_paged")
        .passes("mutex_is_fair"),
    broken("a_page_has_no_end", || Arc::new(Pages(|page| EntryPage { most: 1000, ..page })))
        .fails("node_list_in_order_and_paged")
        .passes("mutex_is_fair"),
    broken("a_listing_shows_every_node_as_admitted", || {
        Arc::new(Lists(|entries| entries.iter_mut().for_each(|entry| entry.admitted = true)))
    })
    .fails("node_list_in_order_and_paged")
    .passes("mutex_is_fair"),
    broken("a_listing_shows_labels_as_they_were_written", || {
        Arc::new(Lists(|entries| foreign_labels(entries, |label| label.replace("\\u{1b}", "\u{1b}"))))
    })
    .fails("node_list_cuts_and_escapes_foreign_labels")
    .passes("node_list_shows_the_longest_label_whole"),
    broken("a_listing_shows_labels_of_any_length", || {
        Arc::new(Lists(|entries| foreign_labels(entries, |label| label.to_owned() + &"x".repeat(100_000))))
    })
    .fails("node_list_cuts_and_escapes_foreign_labels")
    .passes("node_list_shows_the_longest_label_whole"),
    broken("a_listing_tells_no_leases", || {
        Arc::new(Lists(|entries| entries.iter_mut().for_each(|entry| entry.lease_left = None)))
    })
    .fails("node_list_shows_the_remaining_lease_time")
    .passes("node_list_in_order_and_paged"),
    broken("a_listing_tells_leases_that_are_longer_than_they_are", || {
        Arc::new(Lists(|entries| leases(entries, |left| left * 2)))
    })
    .fails("node_list_shows_the_remaining_lease_time")
    .passes("node_list_in_order_and_paged"),
    broken("a_listing_tells_leases_that_are_shorter_than_they_are", || {
        Arc::new(Lists(|entries| leases(entries, |left| left / 4)))
    })
    .fails("node_list_shows_the_remaining_lease_time")
    .passes("node_list_in_order_and_paged"),
    broken("a_listing_tells_leases_unasked", || Arc::new(Pages(|page| page.with_leases())))
        .fails("node_list_shows_the_remaining_lease_time")
        .passes("node_list_in_order_and_paged"),
    broken("a_listing_has_no_labels", || {
        Arc::new(Lists(|entries| entries.iter_mut().for_each(|entry| entry.label.clear())))
    })
    .fails("node_list_in_order_and_paged")
    .passes("mutex_is_fair"),
];
