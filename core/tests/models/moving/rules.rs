use super::{Fault, Moving};
use crate::explore::{
    Broken, assert_found_as, assert_found_up_to_symmetry, assert_sound, assert_sound_up_to_symmetry, long,
    walk,
};

/// Two participants that acquire once, and one operator.
fn two() -> Moving {
    Moving {
        participants: 2,
        registered: true,
        rounds: 1,
        losses: 0,
        repeats: 0,
        operators: 1,
        writes: 6,
        fault: None,
    }
}

fn coming() -> Moving {
    Moving { registered: false, ..two() }
}

fn three() -> Moving {
    Moving { participants: 3, ..two() }
}

fn planted(name: &str, bounds: Moving, fault: Fault, expected: Broken) {
    assert_found_as(name, Moving { fault: Some(fault), ..bounds }, expected);
}

#[test]
fn two_participants_hold_one_by_one_while_a_move_goes_there_and_back() {
    assert_sound("moving: there and back", two());
    if long() {
        assert_sound("moving: they register", Moving { registered: false, losses: 1, ..two() });
        assert_sound("moving: two leases are lost", Moving { losses: 2, ..two() });
    }
}

#[test]
fn three_participants_hold_one_by_one_while_a_move_goes_on() {
    assert_sound_up_to_symmetry("moving: three participants, half the way", Moving { writes: 3, ..three() });
    if long() {
        assert_sound_up_to_symmetry("moving: three participants", Moving { writes: 4, ..three() });
        assert_sound_up_to_symmetry("moving: three, there and back", Moving { writes: 6, ..three() });
        let bounds = Moving { writes: 5, losses: 1, ..three() };
        assert_sound_up_to_symmetry("moving: three, a lease is lost", bounds);
    }
}

/// Only the long tier explores these bounds to their end. A fault is found early.
#[test]
fn planted_faults_are_found_up_to_symmetry() {
    for (fault, expected) in
        [(Fault::AcknowledgesAtOnce, Broken::TwoHolders), (Fault::TrustsWhatItRead, Broken::TokenBack)]
    {
        let faulty = Moving { fault: Some(fault), writes: 4, ..three() };
        assert_found_up_to_symmetry("moving: three participants", faulty, expected);
    }
}

#[test]
fn random_walks_of_three_participants_and_two_operators_find_nothing() {
    let model = Moving { rounds: 8, losses: 6, repeats: 4, operators: 2, writes: 24, ..three() };
    walk("moving", &model, 400, 400_000);
}

#[test]
fn migrate_shared_coordinator() {
    planted("moving: asks nobody", two(), Fault::AsksNobody, Broken::TwoHolders);
    planted("moving: skips phases", two(), Fault::SkipsPhases, Broken::TwoHolders);
}

#[test]
fn migrate_register_then_read() {
    planted("moving: reads first", coming(), Fault::ReadsFirst, Broken::TwoHolders);
}

#[test]
fn migrate_ack_covers_holds() {
    let bounds = two();
    planted("moving: acknowledges at once", bounds, Fault::AcknowledgesAtOnce, Broken::TwoHolders);
}

#[test]
fn migrate_decide_at_end() {
    planted("moving: decides at the start", coming(), Fault::DecidesAtStart, Broken::TwoHolders);
}

#[test]
fn migrate_membership_lives() {
    let bounds = Moving { losses: 1, ..coming() };
    planted("moving: needs no membership", bounds, Fault::NeedsNoMembership, Broken::TwoHolders);
}

#[test]
fn migrate_final_phase() {
    let bounds = Moving { writes: 8, ..coming() };
    planted("moving: takes done back", bounds, Fault::TakesDoneBack, Broken::TwoHolders);
}

#[test]
fn migrate_either_lost_is_lost() {
    let bounds = Moving { losses: 1, ..two() };
    planted("moving: kept while one lives", bounds, Fault::KeptWhileOneLives, Broken::TwoHolders);
}

#[test]
fn migrate_token_switch_phase() {
    let bounds = two();
    planted("moving: one phase on both", bounds.clone(), Fault::SwitchesWithTheNewSide, Broken::TokenBack);
    planted("moving: trusts an earlier read", bounds, Fault::TrustsWhatItRead, Broken::TokenBack);
}

#[test]
fn migrate_epoch_rises() {
    let bounds = two();
    planted("moving: keeps the epoch", bounds, Fault::KeepsTheEpoch, Broken::TokenBack);
}

#[test]
fn migrate_canonical_order() {
    let bounds = two();
    planted("moving: keeps the new side", bounds, Fault::KeepsTheNewSide, Broken::Stuck);
}

mod larger {
    use super::*;

    #[test]
    fn migrate_compare_and_set() {
        let bounds = Moving { operators: 2, writes: 4, ..coming() };
        planted("moving: compares nothing", bounds.clone(), Fault::ComparesNothing, Broken::TwoHolders);
        if long() {
            assert_sound("moving: two operators", bounds);
        }
    }

    #[test]
    fn migrate_ack_names_version() {
        let bounds = Moving { repeats: 1, writes: 4, ..two() };
        planted("moving: names the phase", bounds.clone(), Fault::NamesThePhase, Broken::TokenBack);
        assert_sound("moving: acknowledgements come late", bounds);
    }

    #[test]
    fn a_lease_is_lost_while_a_move_goes_there_and_back() {
        assert_sound("moving: a lease is lost", Moving { losses: 1, writes: 4, ..two() });
    }
}
