//! Faults of an ensemble.

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

/// A play is repeated on new servers if servers have diverged.
const PLAYS: usize = 3;

const OUTAGE: Duration = Duration::from_secs(2);

/// ZooKeeper is the slowest: two servers took 10.6 s at a load of 27.
const START: Duration = Duration::from_secs(15);

/// Also until cut-off servers notice it (at most three seconds without a message). The longest was 3.7 s at a
/// load of 27.
const ELECTION: Duration = Duration::from_secs(5);

/// The long tier kills 24 leaders in 10 minutes.
#[derive(Clone, Copy, Debug)]
enum Failure {
    LeaderKilled,
    FollowerCutOff,
    MinorityLost,
    MajorityLost,
}

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

const EACH: [Failure; 4] =
    [Failure::MajorityLost, Failure::FollowerCutOff, Failure::MinorityLost, Failure::LeaderKilled];

/// Cuts off or kills single servers at random for `lasts`, and then heals all.
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
        pause(&mut chance, SECOND / 2..SECOND * 2).await;
    }
    ensemble.leader().await.expect("a server leads again");
    eprintln!("{cuts} cuts, {kills} kills");
}

/// Plays like [`failover::play`](crate::failover::play) on an ensemble of three, with losses of leaders,
/// followers and the majority. Holds must not overlap.
///
/// Under load, ZooKeeper before 3.9.3 can keep a node on only one server after a loss of the leader
/// (ZOOKEEPER-4712: a survivor writes old transactions after newer ones, and uses them at its next start).
/// Clients of that server wait for that node. So a failed play is repeated if the servers [have
/// diverged](Ensemble::divergence).
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
            // Then remaining nodes belong to no session.
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
                ensemble.wait_until_not_serving(follower).await.expect("the follower stops serving");
                let failover = failover("follower cut off");
                // Longer than any client can hold without an answer.
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
                ensemble.leader().await.expect("a server leads again");
                failover("majority lost and back")
            }
        };
        for server in 0..ensemble.size() {
            ensemble.wait_until_serving(server).await.expect("the server serves again");
        }
        failover
    }
}
