//! Locks move while processes contend for them: there and back on pairs of servers, and between two
//! namespaces of one; while processes are killed, while servers fail, and while operators are killed at each
//! of their requests. Planted faults show that the verdict would find them; histories in
//! `conformance/src/moves/histories.rs` show it for each of its rules.
//!
//! Tier 2, in `faults`: runs with processes or operators that die, with servers that fail, the planted
//! faults, and moves between two servers of one kind.

mod plants;

use std::process::ExitCode;
use std::time::Duration;

use latchwork_conformance::cases::is_long;
use latchwork_conformance::moves::{
    Extent, MovingSide, NOTHING_ADDED, Plants, Points, there_and_back, with_operators_killed,
    with_processes_killed, with_servers_failing,
};
use latchwork_conformance::testbeds::{etcd_testbed, redis_testbed, zookeeper_testbed};
use latchwork_servers::{Kind, Options, Server};
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

use self::plants::Plant;

const PAIRS: [(Kind, Kind); 9] = [
    (Kind::Redis, Kind::Redis),
    (Kind::Redis, Kind::Zookeeper),
    (Kind::Zookeeper, Kind::Redis),
    (Kind::Etcd, Kind::Redis),
    (Kind::Zookeeper, Kind::Etcd),
    (Kind::Zookeeper, Kind::Zookeeper),
    (Kind::Etcd, Kind::Etcd),
    (Kind::Redis, Kind::Etcd),
    (Kind::Etcd, Kind::Zookeeper),
];

/// The pairs of each run outside of the long tier, which plays all runs on all pairs. There and back is
/// played on pairs that no other run has, and between two namespaces of one Redis, the most common move, in
/// which a failure affects both sides.
const THERE_AND_BACK: [(Kind, Kind); 4] = [
    (Kind::Zookeeper, Kind::Redis),
    (Kind::Etcd, Kind::Redis),
    (Kind::Zookeeper, Kind::Zookeeper),
    (Kind::Etcd, Kind::Etcd),
];
const KILLED: [(Kind, Kind); 1] = [(Kind::Redis, Kind::Zookeeper)];
const FAILING: [(Kind, Kind); 1] = [(Kind::Zookeeper, Kind::Etcd)];
const OPERATED: [(Kind, Kind); 1] = [(Kind::Redis, Kind::Redis)];
/// The distance between the requests at which operators of the other pairs are killed, because each request
/// of a long pair would take two hours. Each run begins at a different request.
const APART: usize = 4;
/// Short plays, one of which must find a planted fault.
const PLAYS: usize = 5;

fn main() -> ExitCode {
    let connectors = plants::planted(vec![
        latchwork_redis::connector(),
        latchwork_zookeeper::connector(),
        latchwork_etcd::connector(),
    ]);
    if let Some(code) = latchwork_conformance::contender_main(&connectors) {
        return code;
    }
    let mut trials = Vec::new();
    // One way there and back, or a little more.
    let lasts = Duration::from_secs(if is_long() { 300 } else { 1 });
    for &(old, new) in chosen(&THERE_AND_BACK) {
        let tier = if old == new { "faults::" } else { "" };
        trials.push(Trial::test(format!("{tier}{old}_to_{new}"), move || {
            on((old, new), async |[old, new]| there_and_back(old, new, lasts, Plants::NONE).await)
        }));
    }
    trials.push(Trial::test("redis_to_another_namespace_of_it", move || {
        let played = Runtime::new()?.block_on(async {
            let old = side(Kind::Redis).await?;
            let new = old.beside();
            there_and_back(old, new, lasts, Plants::NONE).await
        });
        played.map_err(Into::into)
    }));
    let (many, turns) = if is_long() { (20, true) } else { (2, false) };
    for &(old, new) in chosen(&KILLED) {
        trials.push(Trial::test(format!("faults::{old}_to_{new}_with_processes_killed"), move || {
            on((old, new), async |[old, new]| with_processes_killed(old, new, many, turns).await)
        }));
    }
    let extent = if is_long() { Extent::All } else { Extent::OneInEachPhase };
    for &(old, new) in chosen(&FAILING) {
        trials.push(Trial::test(format!("faults::{old}_to_{new}_with_servers_failing"), move || {
            on((old, new), async |[old, new]| with_servers_failing(old, new, extent).await)
        }));
    }
    for &(old, new) in chosen(&OPERATED) {
        let apart = if OPERATED.contains(&(old, new)) { 1 } else { APART };
        let points = if is_long() { Points::Each { apart } } else { Points::Some(1) };
        trials.push(Trial::test(format!("faults::{old}_to_{new}_with_operators_killed"), move || {
            on((old, new), async |[old, new]| with_operators_killed(old, new, points).await)
        }));
    }
    for plant in plants::ALL.into_iter().filter(|plant| is_long() || !plant.long) {
        trials.push(Trial::test(format!("faults::planted_{}_is_found", plant.name), move || is_found(plant)));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn chosen(short: &'static [(Kind, Kind)]) -> &'static [(Kind, Kind)] {
    if is_long() { &PAIRS } else { short }
}

/// The verdict must find a planted fault. On a slow machine a short play may end before the fault or any add
/// shows.
fn is_found(plant: &Plant) -> Result<(), libtest_mimic::Failed> {
    let mut not_found = String::new();
    for _ in 0..PLAYS {
        let plays = async |[old, new]: [MovingSide; 2]| {
            Ok(there_and_back(old, new, Duration::from_secs(3), plant.plants()).await.err())
        };
        match on((Kind::Redis, Kind::Redis), plays)? {
            Some(why) if plant.found_as.iter().any(|words| why.contains(words)) => {
                println!("found: {}", why.lines().next().unwrap_or_default());
                return Ok(());
            }
            Some(why) if why != NOTHING_ADDED => {
                return Err(format!("the fault was reported as another fault: {why}").into());
            }
            why => not_found = why.unwrap_or_default(),
        }
    }
    Err(format!("the fault was not found in {PLAYS} runs: {not_found}").into())
}

/// Two servers, which keep their data when they are started again.
fn on<T>(
    (old, new): (Kind, Kind),
    plays: impl AsyncFnOnce([MovingSide; 2]) -> Result<T, String>,
) -> Result<T, libtest_mimic::Failed> {
    let played = Runtime::new()?.block_on(async {
        let (old, new) = tokio::join!(side(old), side(new));
        plays([old?, new?]).await
    });
    played.map_err(Into::into)
}

async fn side(kind: Kind) -> Result<MovingSide, String> {
    let options = Options::new().own();
    let options = match kind {
        // Only the server is killed, so data of the operating system is kept.
        Kind::Redis => options.args(["--appendonly", "yes", "--appendfsync", "no"]),
        Kind::Zookeeper | Kind::Etcd => options,
    };
    let server = Server::start(kind, options).await.map_err(|error| error.to_string())?;
    let at = Server::at(kind, server.url(), server.clocks());
    let testbed = match kind {
        Kind::Redis => redis_testbed(at),
        Kind::Zookeeper => zookeeper_testbed(at),
        Kind::Etcd => etcd_testbed(at),
    };
    Ok(MovingSide::new(server, testbed.map_err(|error| error.to_string())?))
}
