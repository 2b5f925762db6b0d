//! Tests of this backend on real etcd servers, in addition to the suite.
//!
//! `faults`, `larger` and `ensemble` need more time or more servers: `./test --faults` runs them.

mod common;

mod cell_watch;
mod cells;
mod changes;
mod claims;
mod connect;
mod credentials;
mod election;
mod ensemble;
mod faults;
mod foreign;
mod idle_cells;
mod incarnation;
mod larger;
mod lease;
mod limits;
mod mutex;
mod observed;
mod operator;
mod outages;
mod rechecks;
mod release_notice;
mod surroundings;

/// A client process of another test: this program again, with only this test.
#[test]
fn contender() {
    let connector = match larger::without_fast_path::started_this_process() {
        true => latchwork_etcd::connector_without_fast_path(),
        false => latchwork_etcd::connector(),
    };
    latchwork_conformance::contender_test(&[connector]);
}
