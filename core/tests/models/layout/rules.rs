use super::{Fault, Layouts};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn one_operator() -> Layouts {
    Layouts { clients: vec![1, 1, 2], rounds: 2, losses: 1, operators: vec![2], calls: 2, fault: None }
}

fn two_operators() -> Layouts {
    Layouts { clients: vec![1, 2], operators: vec![2, 2], ..one_operator() }
}

fn three_builds() -> Layouts {
    Layouts { losses: 0, operators: vec![2, 3], ..two_operators() }
}

fn planted(name: &str, fault: Fault, model: Layouts, expected: Broken) {
    assert_found_as(name, Layouts { fault: Some(fault), ..model }, expected);
}

tests! {
    every_client_works_with_the_stamped_layout_and_the_stamp_never_goes_back:
        assert_sound(one_operator()), assert_sound(two_operators()), assert_sound(three_builds());
    client_register_first: planted(Fault::ReadsFirst, one_operator(), Broken::TooOld);
    client_read_again: planted(Fault::TrustsWhatItRead, one_operator(), Broken::TooOld);
    layout_announce_first: planted(Fault::ListsFirst, one_operator(), Broken::TooOld);
    layout_two_steps: planted(Fault::RaisesAtOnce, one_operator(), Broken::TooOld);
    layout_under_version: planted(Fault::ComparesNothing, two_operators(), Broken::StampBack);
}
