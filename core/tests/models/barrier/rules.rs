//! Runs the model of a barrier: it is sound without a fault, and finds every planted one.

use super::{Barrier, Fault};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn rounds() -> Barrier {
    Barrier { clients: 3, rounds: 2, deaths: 0, emptied: false, fault: None }
}

fn with_deaths() -> Barrier {
    Barrier { rounds: 1, deaths: 1, ..rounds() }
}

fn emptied(of: Barrier) -> Barrier {
    Barrier { emptied: true, ..of }
}

fn planted(name: &str, fault: Fault) {
    assert_found_as(name, Barrier { fault: Some(fault), ..rounds() }, Broken::PassedAlone);
}

tests! {
    as_many_pass_together_as_the_barrier_has_parties:
        assert_sound(rounds()),
        assert_sound(with_deaths()),
        assert_sound(emptied(rounds())),
        assert_sound(emptied(with_deaths()));
    cell_cas: planted(Fault::ComparesNothing);
    barrier_delete_under_version: planted(Fault::DeletesBlindly);
    barrier_count_behind: planted(Fault::CountsThePassed);
}

/// Larger bounds: tier 2.
mod larger {
    use super::*;

    fn four() -> Barrier {
        Barrier { clients: 4, ..with_deaths() }
    }

    tests! {
        as_many_of_four_pass_together_as_the_barrier_has_parties:
            assert_sound(four()), assert_sound(emptied(four()));
    }
}
