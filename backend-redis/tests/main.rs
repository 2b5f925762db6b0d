//! [`cluster`], [`sentinel`] and [`faults`] belong to tier 2, all others to tier 1.

mod cells;
mod cluster;
mod common;
mod connect;
mod credentials;
mod faults;
mod outages;
mod reconnect;
mod replication;
mod sentinel;
mod server;
mod surroundings;

/// A client process: this program again, with only this test.
#[test]
fn contender() {
    let connectors = [latchwork_redis::connector()];
    latchwork_conformance::contender_test_in::<faults::quorum::QuorumContender>(&connectors);
    latchwork_conformance::contender_test(&connectors);
}
