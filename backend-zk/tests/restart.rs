//! Many clients reconnect to a server that restarts. `LATCHWORK_CLIENTS` sets their number. Prints the
//! figures.

use std::time::{Duration, Instant};

use crate::common::{backend, config, soon, started, try_count};
use futures_util::StreamExt;
use futures_util::stream;
use latchwork_conformance::servers::Options;
use latchwork_core::LeaseState;

const CLIENTS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_costs_a_server_few_requests_for_each_client_and_no_lease() {
    let clients = std::env::var("LATCHWORK_CLIENTS").map_or(CLIENTS, |count| count.parse().unwrap());
    let options = Options::new().own().args(["maxClientCnxns=0"]);
    let server = started(options).await;
    let mut config = config(server.addr());
    // Only a client that hangs reaches these.
    (config.ttl, config.connect_timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    let all: Vec<_> = stream::iter(0..clients).map(|_| backend(&config)).buffer_unordered(32).collect().await;
    server.stop().await.unwrap();
    soon(async {
        for client in &all {
            let lease = client.lease();
            while lease.state() == LeaseState::Live {
                lease.changed(LeaseState::Live).await;
            }
        }
    })
    .await;
    let (begun, mut curve) = (Instant::now(), Vec::new());
    server.launch().await.unwrap();
    let live = soon(async {
        loop {
            let back = all.iter().filter(|client| client.lease().state() == LeaseState::Live).count();
            let connections = try_count(&server, "zk_num_alive_connections").await;
            let waiting = try_count(&server, "zk_outstanding_requests").await;
            curve.push((begun.elapsed().as_millis(), connections, waiting, back));
            if back == clients {
                return begun.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let asked = u64::try_from(2 * curve.len()).unwrap();
    let packets = try_count(&server, "zk_packets_received").await.unwrap().saturating_sub(asked);
    println!(
        "{clients} clients live again after {live:?}, {packets} packets; (ms, connections, outstanding, live):"
    );
    println!("{curve:?}");
    assert!(all.iter().all(|client| client.lease().lost().is_none()));
    // A connect, a ping and a proof for each client, another proof and ping every few seconds, and a question
    // each second while disconnected.
    let reached = curve.iter().find(|(_, connections, ..)| connections.is_some());
    let asking = live.as_secs() - u64::try_from(reached.expect("it serves").0).unwrap() / 1_000;
    let each = 5 + 2 * (live.as_secs() / 4 + 1) + asking;
    let most = u64::try_from(clients).unwrap() * each;
    assert!(packets <= most, "{packets} for {clients} clients, {each} for each");
}
