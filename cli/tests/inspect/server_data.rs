use std::time::Duration;

use latchwork_servers::ask;
use tokio::time::sleep;

use super::{listed, nodes, shown, view_of};
use crate::common::{Fixture, KEY};

async fn numbers(fixture: &Fixture, request: &str) -> Vec<u64> {
    let answer = ask(fixture.server.addr(), &format!("{request}\r\nQUIT\r\n")).await.expect("an answer");
    answer.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Microseconds.
async fn now(fixture: &Fixture) -> u64 {
    let parts = numbers(fixture, "TIME").await;
    parts[0] * 1_000_000 + parts[1]
}

#[tokio::test]
async fn inspect_shows_the_values_stored_on_the_server() {
    let fixture = Fixture::new().await;
    let (coordinator, other) = (fixture.client().await, fixture.client().await);
    let lock = coordinator.mutex(KEY).expect("a lock");
    let _held = lock.acquire().await.expect("held");
    let waits = other.mutex(KEY).expect("a lock");
    let waiting = tokio::spawn(async move { waits.acquire().await });
    while listed(&lock).await.len() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let keys = ask(fixture.server.addr(), "KEYS *mutex*:exp\r\nQUIT\r\n").await.expect("an answer");
    let expiries = keys.lines().map(str::trim).find(|line| line.ends_with(":exp")).expect("a key").to_owned();
    let order = expiries.replace(":exp", ":seq");
    let scores = async |key: &str| numbers(&fixture, &format!("ZRANGE {key} 0 -1 WITHSCORES")).await;

    let (before, expired) = (now(&fixture).await, scores(&expiries).await);
    let json = shown(&fixture.url, &["inspect", "--json"]).await;
    let (renewed, after) = (scores(&expiries).await, now(&fixture).await);
    let shown = nodes(&json);
    let sequences: Vec<_> = shown.iter().map(|node| view_of(node).0).collect();
    assert_eq!(sequences, scores(&order).await);
    for node in &shown {
        let left = node["lease_left"].as_f64().expect("Redis reports it");
        let least = expired.iter().min().expect("an expiry").saturating_sub(after) as f64 / 1e6;
        let most = renewed.iter().max().expect("an expiry").saturating_sub(before) as f64 / 1e6;
        assert!(least <= left && left <= most, "{least} <= {left} <= {most}");
    }
    waiting.abort();
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn unknown_lease_time_is_shown_as_null_or_dash() {
    use latchwork_servers::{Kind, Options, Server};
    let server = Server::start(Kind::Zookeeper, Options::new()).await.expect("a ZooKeeper");
    let url = format!("{}?connect_timeout=20s&namespace=inspect-{}", server.url(), std::process::id());
    let coordinator = latchwork::connect(url.as_str()).await.expect("a client");
    let _held = coordinator.mutex(KEY).expect("a lock").acquire().await.expect("held");
    assert!(nodes(&shown(&url, &["inspect", "--json"]).await)[0]["lease_left"].is_null());
    let table = shown(&url, &["inspect"]).await;
    let row = table.lines().find(|line| line.contains("exclusive")).expect("a row");
    assert!(row.split_whitespace().any(|word| word == "-"), "{table}");
    coordinator.close().await.expect("a close");
}
