//! [`ensemble`], [`faults`] and modules `larger` belong to tier 2, all others to tier 1.

mod cells;
mod changes;
mod common;
mod connect;
mod credentials;
mod curator;
mod ensemble;
mod faults;
mod foreign;
mod forgotten;
mod history;
mod holder_watch;
mod idle_removal;
mod larger;
mod limits;
mod long_queue;
mod observed;
mod outages;
mod queue;
mod rechecks;
mod release;
mod restart;
mod sasl;
mod session;
mod surroundings;
mod trust;
mod watches;

use latchwork_zookeeper::{connector, connector_without_fast_path};

/// A client process: this program again, with only this test.
#[test]
fn contender() {
    let connector = if larger::without_fast_path::started_this_process() {
        connector_without_fast_path()
    } else {
        connector()
    };
    latchwork_conformance::contender_test(&[connector]);
}
