//! Watches of cells: each change, gaps, and what ends them.

use std::time::Duration;

use crate::common::{client, config, etcdctl, metric, proxied, revision, server, soon};
use futures_util::FutureExt;
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{CellLife, CellWrite, ChangeWatch, Expected};
use latchwork_core::{Address, Coordinator, ErrorKind, Kind};

const KEY: &str = "latchwork/value/a";

fn cell() -> Address {
    Address::new("latchwork", Kind::Value, "a").unwrap()
}

async fn write(client: &Coordinator, value: Option<&str>) {
    let write = CellWrite {
        expected: Expected::Any,
        value: value.map(|value| value.as_bytes().into()),
        life: CellLife::Stays,
    };
    soon(client.backend().write_cell(&cell(), &write)).await.unwrap();
}

async fn news(watch: &mut dyn ChangeWatch) {
    soon(watch.changed()).await.unwrap();
}

/// Waits for news through outages, as core does.
async fn news_in_the_end(watch: &mut dyn ChangeWatch) {
    while let Err(error) = soon(watch.changed()).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// Asserts that nothing is told, for longer than any event of the server takes.
async fn is_silent(watch: &mut dyn ChangeWatch) {
    let told = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
    assert!(told.is_err(), "{told:?}");
}

/// The number of watches on the server.
async fn watches(server: &Server) -> u64 {
    metric(server, "etcd_debugging_mvcc_watcher_total ").await
}

async fn until_watches(server: &Server, count: u64) {
    soon(async { while watches(server).await != count {} }).await;
}

#[tokio::test]
async fn a_watch_tells_of_each_change_and_of_nothing_else() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "").await);
    let mut watch = two.backend().watch_cell(&cell());
    news(&mut *watch).await;
    is_silent(&mut *watch).await;
    for value in [Some("new"), Some("over it"), Some("over it"), None, Some("anew")] {
        write(&one, value).await;
        news(&mut *watch).await;
    }
    is_silent(&mut *watch).await;
    for program in [&["put", KEY, "by hand"][..], &["del", KEY]] {
        is_silent(&mut *watch).await;
        etcdctl(&server, program).await;
        news(&mut *watch).await;
    }
    for other in ["latchwork/value/ab", "latchwork/value/a/b", "latchwork/value/", "latchwork/counter/a"] {
        etcdctl(&server, &["put", other, "another cell"]).await;
    }
    is_silent(&mut *watch).await;
}

/// The first answer comes when the server watches: a write right after it is told.
#[tokio::test]
async fn a_write_right_after_the_first_answer_is_told() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "").await);
    for round in 0..20 {
        let mut watch = two.backend().watch_cell(&cell());
        news(&mut *watch).await;
        write(&one, Some(&round.to_string())).await;
        news(&mut *watch).await;
    }
}

#[tokio::test]
async fn a_dropped_wait_keeps_its_news_for_the_next() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "").await);
    let mut watch = two.backend().watch_cell(&cell());
    // Each is dropped before it can be told.
    assert!(watch.changed().now_or_never().is_none());
    news(&mut *watch).await;
    assert!(watch.changed().now_or_never().is_none());
    let mut witness = two.backend().watch_cell(&cell());
    news(&mut *witness).await;
    write(&one, Some("new")).await;
    news(&mut *witness).await;
    news(&mut *watch).await;
}

#[tokio::test]
async fn a_watch_tells_of_a_gap_and_goes_on_after_it() {
    let server = server().await;
    let other = client(&server, "").await;
    let (proxy, client) = proxied(&server, "").await;
    let mut watch = client.backend().watch_cell(&cell());
    news(&mut *watch).await;
    for _ in 0..3 {
        proxy.cut();
        // Nobody tells of this one, and its history is gone.
        write(&other, Some("in the gap")).await;
        etcdctl(&server, &["compact", &revision(&server).await.to_string()]).await;
        proxy.resume();
        news_in_the_end(&mut *watch).await;
        is_silent(&mut *watch).await;
        write(&other, Some("after it")).await;
        news(&mut *watch).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_unavailable_and_the_watch_can_be_asked_again() {
    let server = server().await;
    let other = client(&server, "").await;
    let (proxy, client) = proxied(&server, "request_timeout=3s&ttl=60s").await;
    let mut watch = client.backend().watch_cell(&cell());
    proxy.hold(Direction::ToServer);
    let error = soon(watch.changed()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.resume();
    news_in_the_end(&mut *watch).await;
    proxy.cut();
    let error = soon(watch.changed()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.resume();
    news_in_the_end(&mut *watch).await;
    write(&other, Some("after it")).await;
    news(&mut *watch).await;
}

#[tokio::test]
async fn a_watch_of_a_closed_or_dropped_client_ends() {
    let server = server().await;
    for is_closed in [true, false] {
        let client = client(&server, "").await;
        let mut asked = client.backend().watch_cell(&cell());
        let mut fresh = client.backend().watch_cell(&cell());
        news(&mut *asked).await;
        let waiting = tokio::spawn(async move { asked.changed().await });
        if is_closed {
            client.close().await.unwrap();
        }
        drop(client);
        for ended in [soon(waiting).await.unwrap(), soon(fresh.changed()).await] {
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
        }
        until_watches(&server, 0).await;
    }
}

/// On the backend alone: a coordinator watches its place among the clients too, after a while.
#[tokio::test]
async fn a_dropped_watch_leaves_nothing_on_the_server() {
    let server = server().await;
    let backend = latchwork_etcd::connector().connect(&config(&server, "")).await.unwrap();
    assert_eq!(watches(&server).await, 0);
    let mut all = Vec::new();
    for _ in 0..5 {
        let mut watch = backend.watch_cell(&cell());
        news(&mut *watch).await;
        all.push(watch);
    }
    assert_eq!(watches(&server).await, 5);
    all.truncate(1);
    until_watches(&server, 1).await;
    // Dropped before the server has answered.
    for _ in 0..5 {
        let mut watch = backend.watch_cell(&cell());
        assert!(watch.changed().now_or_never().is_none());
    }
    let mut last = backend.watch_cell(&cell());
    news(&mut *last).await;
    until_watches(&server, 2).await;
    write(&client(&server, "").await, Some("new")).await;
    news(&mut *last).await;
    news(&mut *all[0]).await;
}
