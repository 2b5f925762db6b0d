//! What reconnecting clients cost a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Operator, admitted, ask, client, connect, own, queue, soon};
use latchwork_core::backend::Backend;
use latchwork_core::{Claim, Kind};

/// A field of a section of INFO.
async fn counted(operator: &mut Operator, section: &str, field: &str) -> u64 {
    let info: String = operator.say(&format!("INFO {section}")).await;
    let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {field} in {info}"))
}

/// Calls of a command, and the microseconds that they took.
async fn spent(operator: &mut Operator, command: &str) -> (u64, u64) {
    let stats: String = operator.say("INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let field = |name: &str| -> Option<u64> {
        line?.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    (field("calls").unwrap_or(0), field("usec").unwrap_or(0))
}

/// Calls of scripts that the server did not know.
async fn unknown(operator: &mut Operator) -> u64 {
    let stats: String = operator.say("INFO errorstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix("errorstat_NOSCRIPT:count="));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test]
async fn a_connect_loads_what_is_missing_of_three_scripts_and_no_hold_meets_a_missing_one() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let first = client(&server, "9s").await;
    assert_eq!(spent(&mut operator, "script|load").await.0, 3);
    let second = client(&server, "9s").await;
    assert_eq!(spent(&mut operator, "script|load").await.0, 3, "all were there");
    operator.say::<()>("SCRIPT FLUSH").await;
    let third = client(&server, "9s").await;
    assert_eq!(spent(&mut operator, "script|load").await.0, 6);
    let before = unknown(&mut operator).await;
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&third, &ask(&queue, Claim::Exclusive)).await;
    // Renewed at least once.
    let lease = held.state().lease().clone();
    lease.clock().sleep_until(lease.deadline() + Duration::from_millis(100)).await;
    assert_eq!(held.state().lost(), None);
    held.leave().await.unwrap();
    assert_eq!(unknown(&mut operator).await, before, "a join, a renewal or a leave took a second trip");
    for client in [first, second, third] {
        client.close(latchwork_core::backend::Close::Orderly).await.unwrap();
    }
}

/// `cargo test -p latchwork-redis --test reconnect -- --ignored --nocapture`, with `CLIENTS`
/// (1,000): the server's own counters from its restart until all clients are back. The guide's
/// figures are from here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: minutes of a machine, and nothing to fail"]
async fn what_a_thousand_clients_cost_after_a_restart() {
    let count: usize = std::env::var("CLIENTS").ok().map_or(1000, |count| count.parse().unwrap());
    let server = own(&["--maxclients", "9000", "--tcp-backlog", "4096"]).await;
    let mut clients: Vec<Arc<dyn Backend>> = Vec::new();
    for _ in 0..count {
        clients.push(
            connect(&format!("{}?ttl=1h&connect_timeout=1m&request_timeout=1m", server.url())).await.unwrap(),
        );
    }
    server.stop().await.unwrap();
    // After this all clients wait for their next attempt.
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.launch().await.unwrap();
    let started = Instant::now();
    let mut operator = Operator::of(&server).await;
    let mut most = 0;
    let (mut before, mut looked) = (0, Instant::now());
    soon(async {
        loop {
            let list = counted(&mut operator, "stats", "pubsub_channels").await;
            let connections = counted(&mut operator, "stats", "total_connections_received").await;
            if looked.elapsed() >= Duration::from_millis(50) {
                // A busy server answers late.
                most = most.max((connections - before) * 1000 / looked.elapsed().as_millis() as u64);
                (before, looked) = (connections, Instant::now());
            }
            if list >= count as u64 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    println!(
        "{count} clients are back {:?} after the server; at most {most} connections a second",
        started.elapsed()
    );
    let bytes = counted(&mut operator, "stats", "total_net_input_bytes").await;
    println!("bytes that the server read: {bytes}, {} a client", bytes / count as u64);
    let mut all = 0;
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
        let (calls, took) = spent(&mut operator, command).await;
        all += took;
        println!("{command}: {calls} calls, {took} us");
    }
    println!("server time: {all} us, {} us a client", all / count as u64);
}
