use super::{Fault, Hold};
use crate::explore::{Broken, assert_found_as, assert_sound, long, tests};

fn bounds() -> Hold {
    let requests = if long() { 6 } else { 5 };
    Hold { requests, failures: 3, operator: true, lease_ends: true, fault: None }
}

fn planted(name: &str, fault: Fault, found_as: Broken) {
    assert_found_as(name, Hold { fault: Some(fault), ..bounds() }, found_as);
}

tests! {
    every_state_of_a_hold_is_sound: assert_sound(bounds());
    a_dropped_attempt_without_an_answer_is_abandoned: planted(Fault::UnknownForgotten, Broken::Ghost);
    a_dropped_attempt_with_a_node_leaves: planted(Fault::NodeForgotten, Broken::Ghost);
    a_dropped_release_goes_on_in_the_background: planted(Fault::ReleaseForgotten, Broken::Ghost);
    a_clean_up_that_failed_is_tried_again: planted(Fault::TriedOnce, Broken::Ghost);
    a_try_without_an_answer_may_have_removed_the_node: planted(Fault::TryUncounted, Broken::Believes);
    a_join_without_an_answer_meets_a_tombstone: planted(Fault::NoTombstone, Broken::Ghost);
    the_end_of_the_lease_is_a_loss: planted(Fault::LossUnseen, Broken::Believes);
}
