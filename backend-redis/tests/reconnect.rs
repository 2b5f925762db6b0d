use std::time::{Duration, Instant};

use crate::common::{
    Operator, admitted, ask, client, close_all, connect, number_after, outlive, own, queue, served, until,
};
use latchwork_conformance::actions::in_turn;
use latchwork_core::{Claim, Kind};

const UNKNOWN: &str = "errorstat_NOSCRIPT:count=";

#[tokio::test]
async fn connect_loads_missing_scripts_and_no_hold_misses_one() {
    let (server, mut operator, first) = served("9s").await;
    assert_eq!(operator.calls("script|load").await, 3);
    let second = client(&server, "9s").await;
    assert_eq!(operator.calls("script|load").await, 3, "the second client loads no script again");
    operator.tell("SCRIPT FLUSH").await;
    let third = client(&server, "9s").await;
    assert_eq!(operator.calls("script|load").await, 6);
    let before = operator.counted("INFO errorstats", UNKNOWN).await;
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&third, &ask(&queue, Claim::Exclusive)).await;
    outlive(held.state().lease(), 1.1).await;
    assert_eq!(held.state().lost(), None);
    held.leave().await.unwrap();
    assert_eq!(
        operator.counted("INFO errorstats", UNKNOWN).await,
        before,
        "a join, a renewal or a leave took a second trip"
    );
    close_all([first, second, third]).await;
}

/// `cargo test -p latchwork-redis-tests reconnect_cost -- --ignored --nocapture`, with `CLIENTS` (1,000). The
/// guide's figures come from here: the server's counters until all clients are back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: minutes of a machine, and nothing to fail"]
async fn reconnect_cost_of_a_thousand_clients_after_a_restart() {
    let count: usize = std::env::var("CLIENTS").ok().map_or(1000, |count| count.parse().unwrap());
    let server = own(&["--maxclients", "9000", "--tcp-backlog", "4096"]).await;
    let url = format!("{}?ttl=1h&connect_timeout=1m&request_timeout=1m", server.url());
    let _clients = in_turn((0..count).map(async |_| connect(&url).await)).await;
    server.stop().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.launch().await.unwrap();
    let started = Instant::now();
    let mut operator = Operator::of(&server).await;
    let mut most = 0;
    let (mut before, mut looked) = (0, Instant::now());
    until(async || {
        let stats: String = operator.say("INFO stats").await;
        let connections = number_after(&stats, "total_connections_received:");
        if looked.elapsed() >= Duration::from_millis(50) {
            most = most.max((connections - before) * 1000 / looked.elapsed().as_millis() as u64);
            (before, looked) = (connections, Instant::now());
        }
        number_after(&stats, "pubsub_channels:") >= count as u64
    })
    .await;
    println!(
        "{count} clients are back {:?} after the server; at most {most} connections a second",
        started.elapsed()
    );
    let bytes = operator.counted("INFO stats", "total_net_input_bytes:").await;
    println!("bytes that the server read: {bytes}, {} a client", bytes / count as u64);
    let (mut all, stats) = (0, operator.say::<String>("INFO commandstats").await);
    for command in [
        "hello",
        "auth",
        "select",
        "client|setname",
        "client|setinfo",
        "info",
        "script|load",
        "script|exists",
        "subscribe",
        "evalsha",
        "eval",
    ] {
        let of_command = stats.split_once(&format!("cmdstat_{command}:")).map_or("", |(_, rest)| rest);
        all += number_after(of_command, "usec=");
        println!("{command}: {}", of_command.lines().next().unwrap_or_default());
    }
    println!("server time: {all} us, {} us a client", all / count as u64);
}
