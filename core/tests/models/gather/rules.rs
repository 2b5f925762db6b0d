use super::{Fault, Locks};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn in_a_circle() -> Locks {
    Locks { given: [&[0, 1], &[1, 2], &[2, 0]], losses: 1, fault: None }
}

fn all_of_them() -> Locks {
    Locks { given: [&[0, 1, 2], &[2, 1, 0], &[1]], losses: 1, fault: None }
}

fn planted(name: &str, fault: Fault, model: Locks) {
    assert_found_as(name, Locks { fault: Some(fault), ..model }, Broken::Stuck);
}

tests! {
    no_clients_wait_for_each_other_for_ever: assert_sound(in_a_circle()), assert_sound(all_of_them());
    gather_canonical_order: planted(Fault::GivenOrder, in_a_circle());
    gather_try_whole: planted(Fault::KeepsTried, in_a_circle());
    gather_loss_begins_again: planted(Fault::KeepsAfterLoss, all_of_them());
}
