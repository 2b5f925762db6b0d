use super::{Fault, Owners};
use crate::explore::{Broken, assert_found_as, assert_sound, tests};

fn found(name: &str, fault: Fault, found_as: Broken) {
    assert_found_as(name, Owners { fault: Some(fault) }, found_as);
}

tests! {
    every_order_of_an_owners_tasks_is_sound: assert_sound(Owners { fault: None });
    a_guard_of_an_old_generation_releases_nothing: found(Fault::NoGeneration, Broken::Believes);
    the_last_release_removes_the_entry_at_once: found(Fault::LateRemoval, Broken::Believes);
    an_owner_has_one_acquisition_at_a_time: found(Fault::TwoAcquisitions, Broken::TwoNodes);
    a_dropped_waiter_is_no_longer_counted: found(Fault::SilentDrop, Broken::Ghost);
    an_acquisition_goes_on_when_its_first_task_is_not_polled: found(Fault::NotInTheBackground, Broken::Stuck);
    an_acquisition_without_waiters_ends: found(Fault::Unstopped, Broken::Ghost);
    an_ended_acquisition_is_cleaned_up_before_another_begins: found(Fault::GoneAtOnce, Broken::TwoNodes);
    readers_alone_keep_no_writing_acquisition_alive: found(Fault::WritesForReaders, Broken::Stuck);
    a_loss_clears_the_entry: found(Fault::LossUnseen, Broken::Revived);
    the_node_is_downgraded_when_its_last_writer_goes: found(Fault::NoDowngrade, Broken::Stuck);
}
