//! Runs the model of a barrier: it is sound without a fault, and finds every planted one.

use super::{Barrier, Fault};
use crate::explore::{Broken, assert_found_as, assert_sound};

fn rounds() -> Barrier {
    Barrier { clients: 3, rounds: 2, deaths: 0, emptied: false, fault: None }
}

fn with_deaths() -> Barrier {
    Barrier { rounds: 1, deaths: 1, ..rounds() }
}

#[test]
fn as_many_pass_together_as_the_barrier_has_parties() {
    assert_sound("barrier: rounds", rounds());
    assert_sound("barrier: deaths", with_deaths());
    assert_sound("barrier: emptied", Barrier { emptied: true, ..rounds() });
    assert_sound("barrier: emptied, deaths", Barrier { emptied: true, ..with_deaths() });
}

#[test]
fn cell_cas() {
    let model = Barrier { fault: Some(Fault::ComparesNothing), ..rounds() };
    assert_found_as("barrier: compares nothing", model, Broken::PassedAlone);
}

#[test]
fn barrier_delete_under_version() {
    let model = Barrier { fault: Some(Fault::DeletesBlindly), ..rounds() };
    assert_found_as("barrier: deletes blindly", model, Broken::PassedAlone);
}

#[test]
fn barrier_count_behind() {
    let model = Barrier { fault: Some(Fault::CountsThePassed), ..rounds() };
    assert_found_as("barrier: counts the passed", model, Broken::PassedAlone);
}

/// Larger bounds: tier 2.
mod larger {
    use super::*;

    #[test]
    fn as_many_of_four_pass_together_as_the_barrier_has_parties() {
        let four = Barrier { clients: 4, ..with_deaths() };
        assert_sound("barrier: deaths", four.clone());
        assert_sound("barrier: emptied, deaths", Barrier { emptied: true, ..four });
    }
}
