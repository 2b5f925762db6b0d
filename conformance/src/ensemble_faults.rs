//! What the servers of an ensemble suffer: cut off from each other, and killed.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::cases::chaos::pause;
use crate::failover::{Failover, Plan, TTL, now, under_load};
use crate::testbeds::ServerTestbed;
use latchwork_servers::{Ensemble, ServerError};

const SECOND: Duration = Duration::from_secs(1);

/// So many plays on new servers, where servers have diverged.
const PLAYS: usize = 3;

/// How long a majority is lost.
const OUTAGE: Duration = Duration::from_secs(2);

/// What two servers may need to start: those of ZooKeeper, which are the slowest, took 10.6 s at a load of 27.
const START: Duration = Duration::from_secs(15);

/// What servers may need to elect a leader, or to notice that they are cut off, by a silence of three seconds at
/// most: 3.7 s was the longest at a load of 27.
const ELECTION: Duration = Duration::from_secs(5);

/// How the servers fail, one after the other: the long tier has 24 leaders killed in 10 minutes.
#[derive(Clone, Copy, Debug)]
enum Failure {
    LeaderKilled,
    FollowerCutOff,
    MinorityLost,
    MajorityLost,
}

/// As often as this each in turns, in the long tier.
const TURNS: [Failure; 9] = [
    Failure::LeaderKilled,
    Failure::LeaderKilled,
    Failure::FollowerCutOff,
    Failure::LeaderKilled,
    Failure::LeaderKilled,
    Failure::MinorityLost,
    Failure::LeaderKilled,
    Failure::LeaderKilled,
    Failure::MajorityLost,
];

/// The short tier has one of each; the one that is over fastest comes last.
const EACH: [Failure; 4] =
    [Failure::MajorityLost, Failure::FollowerCutOff, Failure::MinorityLost, Failure::LeaderKilled];

/// Cuts and kills of single servers, one thing after the other, at random, for so long; then they
/// are well.
///
/// # Panics
/// When that cannot be done.
pub async fn cuts_and_kills(ensemble: &Ensemble, lasts: Duration) {
    let mut chance = StdRng::seed_from_u64(rand::random());
    let ends = Instant::now() + lasts;
    let (mut cuts, mut kills) = (0, 0);
    while Instant::now() < ends {
        let leader = ensemble.leader().await.expect("one leads");
        let others: Vec<_> = (0..ensemble.size()).filter(|server| *server != leader).collect();
        let other = others[chance.random_range(0..others.len())];
        let left = ends.saturating_duration_since(Instant::now()).clamp(SECOND, SECOND * 6);
        let time = chance.random_range(SECOND / 2..left);
        match chance.random_range(0..4) {
            0 => ensemble.cut(leader),
            1 => ensemble.cut(other),
            2 => ensemble.cut_between(leader, other),
            _ => {
                let server = if chance.random() { leader } else { other };
                ensemble.kill(server).await.expect("killed");
                sleep(time / 3).await;
                ensemble.launch(server).await.expect("launched");
                kills += 1;
                continue;
            }
        }
        sleep(time).await;
        ensemble.heal();
        cuts += 1;
        // Some time to serve in.
        pause(&mut chance, SECOND / 2..SECOND * 2).await;
    }
    ensemble.leader().await.expect("one leads again");
    eprintln!("{cuts} cuts, {kills} kills");
}

/// As [`failover::play`](crate::failover::play), on an ensemble of three: leaders are killed, followers cut off or
/// killed, and the majority is lost and comes back. These servers forget nothing, so no two may hold at once.
///
/// ZooKeeper before 3.9.3 can keep a node on one server alone, for good, after its leader was lost under
/// load (ZOOKEEPER-4712: a server that lives on writes old transactions behind newer ones, and believes
/// them when it is started again). Clients of that server wait behind that node for ever, or, where its
/// session lives on, as long as that does; the server logs then that its data is not the leader's. So a play
/// that fails where the servers [have diverged](Ensemble::divergence) when all sessions are over says nothing
/// of the client: it is played again on new servers. A play that ends is judged in any case.
///
/// # Errors
/// The verdict.
pub fn failover(
    start: impl AsyncFn() -> Result<Ensemble, ServerError>,
    testbed_of: impl Fn(Arc<Ensemble>) -> latchwork_core::Result<ServerTestbed>,
    runtime: &Runtime,
) -> Result<(), String> {
    let plan = Plan::new(&TURNS, &EACH, SECOND * 28);
    for play in 1..=PLAYS {
        let ensemble = Arc::new(runtime.block_on(start()).expect("servers start"));
        let testbed = testbed_of(Arc::clone(&ensemble)).expect("its URL");
        let befall = || plan.carry_out(async |_, failure| failure.befall(&ensemble).await);
        let why = match under_load(testbed, runtime, plan.lasts, false, befall) {
            Ok(judged) => return judged,
            Err(why) => why,
        };
        let divergence = runtime.block_on(async {
            println!("{}", ensemble.report().await);
            // Beyond the end of all sessions: what is left is of none.
            sleep(TTL * 3).await;
            ensemble.divergence().await
        });
        if divergence.is_empty() || play == PLAYS {
            return Err(why);
        }
        println!("{why}\nthe servers have diverged, so this play is not judged: {divergence:#?}");
    }
    unreachable!("the last play has a verdict")
}

impl Failure {
    async fn befall(self, ensemble: &Ensemble) -> Failover {
        let leader = ensemble.leader().await.expect("one leads");
        let follower = (leader + 1) % ensemble.size();
        let killed = now();
        let within = Some(match self {
            Self::MajorityLost => OUTAGE + START + ELECTION,
            _ => ELECTION,
        });
        let failover = |what| Failover { what, killed, replaced: now(), within };
        let failover = match self {
            Self::LeaderKilled => {
                ensemble.kill(leader).await.expect("killed");
                ensemble.leader().await.expect("another leads");
                let failover = failover("leader killed");
                ensemble.launch(leader).await.expect("started again");
                failover
            }
            Self::FollowerCutOff => {
                ensemble.cut(follower);
                ensemble.wait_until_not_serving(follower).await.expect("it gives up");
                let failover = failover("follower cut off");
                // Longer than any of its clients holds without it.
                sleep(TTL).await;
                ensemble.heal();
                failover
            }
            Self::MinorityLost => {
                ensemble.kill(follower).await.expect("killed");
                ensemble.leader().await.expect("the others are a majority");
                let failover = failover("minority lost");
                sleep(TTL).await;
                ensemble.launch(follower).await.expect("started again");
                failover
            }
            Self::MajorityLost => {
                tokio::try_join!(ensemble.kill(leader), ensemble.kill(follower)).expect("killed");
                sleep(OUTAGE).await;
                tokio::try_join!(ensemble.launch(leader), ensemble.launch(follower)).expect("started again");
                ensemble.leader().await.expect("one leads again");
                failover("majority lost and back")
            }
        };
        for server in 0..ensemble.size() {
            ensemble.wait_until_serving(server).await.expect("all are well again");
        }
        failover
    }
}
