use super::{Barrier, Fault};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn rounds() -> Barrier {
    Barrier { clients: 3, rounds: 2, deaths: 0, losses: 0, emptied: false, mixed: false, fault: None }
}

fn with_deaths() -> Barrier {
    Barrier { rounds: 1, deaths: 1, ..rounds() }
}

fn mixed() -> Barrier {
    Barrier { mixed: true, ..rounds() }
}

fn with_losses() -> Barrier {
    Barrier { rounds: 1, losses: 1, ..rounds() }
}

fn emptied(of: Barrier) -> Barrier {
    Barrier { emptied: true, ..of }
}

fn planted(name: &str, fault: Fault) {
    assert_found_as(name, Barrier { fault: Some(fault), ..rounds() }, Broken::PassedAlone);
}

fn faulty(fault: Fault) -> Barrier {
    Barrier { fault: Some(fault), ..with_losses() }
}

tests! {
    as_many_pass_together_as_the_barrier_has_parties:
        assert_sound(rounds()),
        assert_sound(with_deaths()),
        assert_sound(emptied(rounds())),
        assert_sound(emptied(with_deaths())),
        assert_sound(with_losses()),
        assert_sound(emptied(with_losses())),
        assert_sound(mixed()),
        assert_sound(emptied(mixed()));
    cell_cas: planted(Fault::ComparesNothing);
    barrier_delete_under_version: planted(Fault::DeletesBlindly);
    barrier_count_behind: planted(Fault::CountsThePassed);
    barrier_count_members:
        assert_found_as(faulty(Fault::CountsNodes), Broken::PassedAlone);
    barrier_gone_before_again:
        assert_found_as(faulty(Fault::JoinsAtOnce), Broken::LeftBehind),
        assert_found_as(faulty(Fault::WritesNothing), Broken::LeftBehind);
    barrier_one_number:
        assert_found_as(Barrier { fault: Some(Fault::CountsOthers), ..mixed() }, Broken::PassedAlone),
        assert_found_as(Barrier { fault: Some(Fault::ReplacesAtOnce), ..mixed() }, Broken::LeftBehind);
    barrier_last_looks:
        assert_found_as(Barrier { fault: Some(Fault::LooksLate), ..rounds() }, Broken::Stuck),
        assert_found_as(emptied(Barrier { fault: Some(Fault::LeavesSilently), ..rounds() }), Broken::Stuck);
}

mod larger {
    use super::*;

    fn four() -> Barrier {
        Barrier { clients: 4, ..with_deaths() }
    }

    tests! {
        as_many_of_four_pass_together_as_the_barrier_has_parties:
            assert_sound(four()), assert_sound(emptied(four()));
        a_barrier_of_members_that_lose_several_leases_is_sound:
            assert_sound(Barrier { losses: 2, ..with_losses() }),
            assert_sound(emptied(Barrier { losses: 2, ..with_losses() }));
    }
}
