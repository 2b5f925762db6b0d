//! A storm over three servers that are cut off from each other, and killed, at random: two must never hold.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::beds::zookeeper_ensemble_bed;
use latchwork_conformance::cases::{is_long, storm};
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::soak::SoakKind;
use latchwork_core::contracts::Backend;
use latchwork_core::{Config, Connector, Result};
use latchwork_zookeeper::{ZooKeeperBackend, connector};
use libtest_mimic::{Arguments, Failed, Trial};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// How long the storm goes on when the servers are well again.
const AFTERMATH: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each has three servers of its own.
    arguments.test_threads = Some(1);
    let weather = Duration::from_secs(if is_long() { 60 } else { 12 });
    let mut trials =
        vec![Trial::test("nobody_holds_beside_another_while_servers_are_cut_off_and_killed", move || {
            in_bad_weather(connector(), weather).map_err(Failed::from)
        })];
    if is_long() {
        // It takes its time to be found; `ensemble.rs` has the way in which it goes wrong, always.
        trials.push(Trial::test("who_believes_a_follower_that_is_cut_off_is_found_out", || {
            (0..5)
                .find_map(|_| found_out().err())
                .map_or_else(|| Err(Failed::from("never found")), |_| Ok(()))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn in_bad_weather(connector: Arc<dyn Connector>, lasts: Duration) -> std::result::Result<(), String> {
    let runtime = Runtime::new().expect("a runtime");
    let ensemble = runtime.block_on(Ensemble::zookeeper(3)).expect("it starts");
    let mut bed = zookeeper_ensemble_bed(&ensemble).expect("its URL is ours");
    bed.connector = connector;
    let weather = weather(&ensemble, lasts);
    storm::play_beside(bed, SoakKind::Exclusive, lasts + AFTERMATH, &runtime, weather)
}

/// What the servers suffer, one thing after the other, for so long; then they are well.
async fn weather(ensemble: &Ensemble, lasts: Duration) {
    let mut chance = StdRng::seed_from_u64(rand::random());
    let ends = Instant::now() + lasts;
    let (mut cuts, mut kills) = (0, 0);
    while Instant::now() < ends {
        let leader = ensemble.leader().await.expect("one leads");
        let others: Vec<_> = (0..ensemble.size()).filter(|server| *server != leader).collect();
        let other = others[chance.random_range(0..others.len())];
        let time = Duration::from_millis(chance.random_range(500..6_000));
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
    }
    ensemble.leader().await.expect("one leads again");
    eprintln!("{cuts} cuts, {kills} kills");
}

/// Who believes the reads of a follower that is cut off.
#[derive(Debug)]
struct Believing;

#[async_trait]
impl Connector for Believing {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn validate(&self, config: &Config) -> Result<()> {
        connector().validate(config)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(ZooKeeperBackend::connect_believing_reads(config).await?))
    }
}

/// Nothing, where the storm did not see it, or ended otherwise.
fn found_out() -> std::result::Result<(), String> {
    match in_bad_weather(Arc::new(Believing), Duration::from_secs(60)) {
        Err(found) if found.contains("out of order") || found.contains("inside at once") => Err(found),
        Ok(()) => Ok(()),
        Err(other) => panic!("{other}"),
    }
}
