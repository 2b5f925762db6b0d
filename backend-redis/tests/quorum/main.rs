//! A lock on a majority of five Redis servers, two of which are killed and started again at random:
//! one keeps what it has confirmed (`appendfsync always`), one comes back empty, or both do. Four
//! contenders, each a process; one of them reaches three of the servers only, and is mostly cut off
//! from those that are killed, so that it does not hear that they have forgotten it. Another tries all
//! the time.
//!
//! A contender is this program again, with an order in its environment.

mod clients;
mod contender;
mod down;
mod play;
mod seen;
mod tombstones;

use std::process::ExitCode;
use std::time::Duration;

use latchwork_conformance::servers::{Kind, Options, Server};
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

const SERVERS: usize = 5;
/// The servers that are killed.
const KILLED: [usize; 2] = [0, 1];
const TTL: Duration = Duration::from_secs(2);
const KEY: &str = "quorum";
/// Only a process or a server that has died or hangs meets this bound.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    if let Some(order) = contender::Order::given() {
        runtime.block_on(contender::contend(order));
        return ExitCode::SUCCESS;
    }
    let handle = runtime.handle();
    let trial = |name: &str, test: fn(&tokio::runtime::Handle)| {
        let handle = handle.clone();
        Trial::test(name, move || {
            test(&handle);
            Ok(())
        })
    };
    let trials = vec![
        trial("nobody_holds_beside_another_while_two_of_five_servers_come_back_empty", |on| {
            on.block_on(play::nobody_overlaps("both empty", [false, false]));
        }),
        trial("nobody_holds_beside_another_while_one_server_comes_back_empty_and_one_with_its_data", |on| {
            on.block_on(play::nobody_overlaps("one empty, one durable", [true, false]))
        }),
        trial("two_hold_at_once_where_servers_that_came_back_empty_count_at_once", |on| {
            on.block_on(play::two_overlap_without_the_rule());
        }),
        trial("with_three_of_five_servers_down_it_fails_in_time_and_holds_nothing", |on| {
            on.block_on(down::three_of_five()).expect("what it needs answers");
        }),
        trial("an_uncontended_quorum_leaves_no_tombstone_where_it_did_not_wait_for_the_answer", |on| {
            on.block_on(tombstones::none_of_late_tries()).expect("what it needs answers")
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Five servers; those that are killed keep what they confirm, or forget it.
async fn start(keeps: [bool; 2]) -> Vec<Server> {
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let keeps = KILLED.iter().position(|killed| *killed == number).is_some_and(|at| keeps[at]);
        let durable: &[&str] = if keeps { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        let options = Options::new().own().args(durable.iter().copied());
        servers.push(Server::start(Kind::Redis, options).await.expect("a server"));
    }
    servers
}
