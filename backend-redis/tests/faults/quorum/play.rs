use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use latchwork_conformance::cases::is_long;
use latchwork_conformance::child::{Child, Order, Process};
use latchwork_conformance::servers::Server;
use latchwork_core::Config;
use rand::RngExt;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::clients::{Clients, Links};
use super::contender::{QuorumContender, QuorumEvent, Way};
use super::seen::Seen;
use super::{KILLED, TTL, start};
use crate::common::PATIENCE;

/// The first contender does not reach them.
const APART: [usize; 2] = [3, 4];
const CONTENDERS: [Way; 4] = [Way::HoldsLong, Way::Waits, Way::Waits, Way::Tries];
const NAP: Duration = Duration::from_millis(10);

struct Contender {
    process: Process,
    hearing: JoinHandle<()>,
}

impl Contender {
    async fn start(number: usize, links: &Links, role: &QuorumContender, seen: &Arc<Seen>) -> Self {
        let mut config = Config::new("redis");
        config.hosts = links.0.iter().map(|link| link.addr().to_string()).collect();
        let mut child = Child::start(&config, role);
        assert_eq!(child.next_within(PATIENCE).await, QuorumEvent::Connected);
        let (Child { process, mut events }, seen) = (child, Arc::clone(seen));
        let hearing = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                seen.hear(number, event);
            }
        });
        Self { process, hearing }
    }

    async fn end(mut self) {
        self.process.tell(Order::Release).await;
        self.process.ends_well(PATIENCE).await;
        self.hearing.await.expect("the process prints only events");
    }
}

/// Ends at `ends`, or when two have held at once.
async fn kill(seen: &Seen, first: &Links, servers: &[Server], ends: Instant) -> usize {
    let mut restarts = 0;
    while Instant::now() < ends && seen.overlap().is_none() {
        let time = rand::rng().random_range(500..3500);
        sleep(Duration::from_millis(time)).await;
        let killed: &[usize] = match rand::rng().random_range(0..4) {
            0 => &KILLED[..1],
            1 => &KILLED[1..],
            _ => &KILLED,
        };
        let parted = rand::rng().random_ratio(3, 4);
        if parted {
            // The first contender has just acquired, if in time.
            let patience = Instant::now() + TTL;
            for holds in [false, true] {
                while seen.holds(0) != holds && Instant::now() < patience {
                    sleep(Duration::from_millis(2)).await;
                }
            }
            first.part_from(killed);
        }
        join_all(killed.iter().map(async |server| {
            servers[*server].kill().await.expect("killed");
            servers[*server].launch().await.expect("started");
        }))
        .await;
        restarts += killed.len();
        if parted {
            sleep(TTL / 2).await;
            first.rejoin(killed);
        }
    }
    restarts
}

async fn feel_the_load(seen: Arc<Seen>) {
    loop {
        let begun = Instant::now();
        sleep(NAP).await;
        seen.overslept(begun.elapsed().saturating_sub(NAP));
    }
}

async fn play(name: &str, keeps: [bool; 2], guarded: bool, lasts: Duration) -> (Arc<Seen>, usize) {
    let servers = start(keeps).await;
    let direct: Vec<_> = servers.iter().map(|server| server.url().to_owned()).collect();
    let patient = Clients::connect_with(&direct, TTL, PATIENCE).await;
    patient.lock(guarded).initialize().await.expect("all answer");
    drop(patient);
    let (seen, mut processes, mut links) = (Arc::new(Seen::default()), Vec::new(), Vec::new());
    for (number, way) in CONTENDERS.into_iter().enumerate() {
        let its = Links::to(&servers).await;
        processes.push(Contender::start(number, &its, &QuorumContender { way, guarded }, &seen).await);
        if number == 0 {
            its.part_from(&APART);
        }
        links.push(its);
    }
    let begun = Instant::now();
    let feeling = tokio::spawn(feel_the_load(Arc::clone(&seen)));
    let restarts = kill(&seen, &links[0], &servers, begun + lasts).await;
    let took = begun.elapsed();
    join_all(processes.into_iter().map(Contender::end)).await;
    feeling.abort();
    seen.print(name, took, restarts);
    (seen, restarts)
}

pub(crate) async fn nobody_overlaps(name: &str, keeps: [bool; 2]) {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 10 });
    let (seen, restarts) = play(name, keeps, true, lasts).await;
    assert_eq!(seen.overlap(), None, "two held at once");
    assert!(restarts >= 2, "{restarts}");
    let acquired: usize = seen.acquired()[1..].iter().sum();
    assert!(acquired as u64 >= 2 * lasts.as_secs(), "{acquired}");
    // Two holds that end with their leases, and an allowance for a busy machine.
    assert!(seen.longest_gap() < 3 * TTL, "{:?}", seen.longest_gap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hold_at_once_where_servers_that_came_back_empty_count_at_once() {
    let (seen, _) = play("the control", [false, false], false, Duration::from_secs(60)).await;
    assert!(seen.overlap().is_some(), "no event was recorded");
}
