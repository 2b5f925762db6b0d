//! Runs the model of an owner: it is sound without a fault, and finds every planted one.

use super::{Fault, Owners};
use crate::explore::{assert_found, assert_sound};

#[test]
fn every_order_of_an_owners_tasks_is_sound() {
    assert_sound("owner", Owners { fault: None });
}

fn found(fault: Fault) {
    assert_found(&format!("owner: {fault:?}"), Owners { fault: Some(fault) });
}

#[test]
fn a_guard_of_an_old_generation_releases_nothing() {
    found(Fault::NoGeneration);
}

#[test]
fn the_last_release_removes_the_entry_at_once() {
    found(Fault::LateRemoval);
}

#[test]
fn an_owner_has_one_acquisition_at_a_time() {
    found(Fault::TwoAcquisitions);
}

#[test]
fn a_dropped_waiter_is_no_longer_counted() {
    found(Fault::SilentDrop);
}

#[test]
fn an_acquisition_goes_on_when_its_first_task_is_not_polled() {
    found(Fault::NotInTheBackground);
}

#[test]
fn an_acquisition_without_waiters_ends() {
    found(Fault::Unstopped);
}

#[test]
fn an_ended_acquisition_is_cleaned_up_before_another_begins() {
    found(Fault::GoneAtOnce);
}

#[test]
fn readers_alone_keep_no_writing_acquisition_alive() {
    found(Fault::WritesForReaders);
}

#[test]
fn a_loss_clears_the_entry() {
    found(Fault::LossUnseen);
}

#[test]
fn the_node_is_downgraded_when_its_last_writer_goes() {
    found(Fault::NoDowngrade);
}
