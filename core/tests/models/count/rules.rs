use super::asked::{self, Asking};
use super::{Counting, Fault};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn bounds() -> Counting {
    Counting { unknown: 2, given_up: 1, deletions: 0, fault: None }
}

fn deleted() -> Counting {
    Counting { unknown: 1, given_up: 0, deletions: 1, fault: None }
}

fn asking() -> Asking {
    Asking { unknown: 2, given_up: 1, fault: None }
}

fn planted(name: &str, fault: Fault) {
    assert_found_as(name, Counting { fault: Some(fault), ..bounds() }, Broken::Miscounted);
}

fn asked(name: &str, fault: asked::Fault) {
    assert_found_as(name, Asking { fault: Some(fault), ..asking() }, Broken::Miscounted);
}

tests! {
    every_operation_is_applied_once_at_most: assert_sound(bounds()), assert_sound(deleted());
    count_ask_the_record: planted(Fault::ForgetsItsDoubt);
    count_one_number: planted(Fault::CountsAgain);
    cell_cas: planted(Fault::ComparesNothing);
    count_keeps_records: planted(Fault::KeepsOwnRecord);
    every_operation_is_applied_once_at_most_by_the_server: assert_sound(asking());
    count_one_number_for_the_server: asked(asked::Fault::CountsAgain);
    count_ended_stays_ended: asked(asked::Fault::TakesTheEnded);
    count_refused_for_good: asked(asked::Fault::RefusesForNow);
}
