//! A lock on a majority of five Redis servers, two of which are killed and started again at random: one keeps
//! its confirmed writes (`appendfsync always`), one returns empty, or both do the same. One of four
//! contenders reaches only three servers, and is mostly cut off from the killed ones, so that it does not
//! notice that they have forgotten it.

mod clients;
mod contender;
mod down;
mod play;
mod seen;
mod tombstones;

use std::time::Duration;

pub(crate) use contender::QuorumContender;
use latchwork_conformance::servers::Server;

use crate::common::own;

const SERVERS: usize = 5;
const KILLED: [usize; 2] = [0, 1];
const TTL: Duration = Duration::from_secs(2);
const KEY: &str = "quorum";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_holds_conflict_when_two_servers_return_empty() {
    play::nobody_overlaps("both empty", [false, false]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_holds_conflict_when_one_of_two_servers_returns_empty() {
    play::nobody_overlaps("one empty, one durable", [true, false]).await;
}

/// `keeps`: a killed server keeps its confirmed writes.
async fn start(keeps: [bool; 2]) -> Vec<Server> {
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let keeps = KILLED.iter().position(|killed| *killed == number).is_some_and(|at| keeps[at]);
        let durable: &[&str] = if keeps { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        servers.push(own(durable).await);
    }
    servers
}
