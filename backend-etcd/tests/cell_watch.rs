use crate::common::{cell, client, config, metric, proxied, served, server, soon, write_cell};
use futures_util::FutureExt;
use latchwork_conformance::cell_actions::{put, written};
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::Server;
use latchwork_core::backend::{ChangeWatch, Close};
use latchwork_core::{ErrorKind, Expected};

async fn news(watch: &mut dyn ChangeWatch) {
    soon(watch.changed()).await.unwrap();
}

async fn news_in_the_end(watch: &mut dyn ChangeWatch) {
    while let Err(error) = soon(watch.changed()).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

async fn watches(server: &Server) -> u64 {
    metric(server, "etcd_debugging_mvcc_watcher_total ").await
}

async fn until_watches(server: &Server, count: u64) {
    soon(async { while watches(server).await != count {} }).await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_unavailable_and_the_watch_can_be_asked_again() {
    let (server, other) = served("").await;
    let (proxy, client) = proxied(&server, "request_timeout=3s&ttl=60s").await;
    let mut watch = client.backend().watch_cell(&cell("a"));
    proxy.hold(Direction::ToServer);
    fails(soon(watch.changed()).await, ErrorKind::Unavailable, "the server is silent");
    proxy.resume();
    news_in_the_end(&mut *watch).await;
    proxy.cut();
    fails(soon(watch.changed()).await, ErrorKind::Unavailable, "the link is cut");
    proxy.resume();
    news_in_the_end(&mut *watch).await;
    written(write_cell(&other, &cell("a"), &put(Expected::Any, "after it")).await);
    news(&mut *watch).await;
}

/// A coordinator also watches its registration.
#[tokio::test]
async fn a_watch_that_is_dropped_or_whose_client_closes_leaves_nothing_on_the_server() {
    let server = server().await;
    let backend = latchwork_etcd::connector().connect(&config(&server, "")).await.unwrap();
    assert_eq!(watches(&server).await, 0);
    let mut all = Vec::new();
    for _ in 0..5 {
        let mut watch = backend.watch_cell(&cell("a"));
        news(&mut *watch).await;
        all.push(watch);
    }
    assert_eq!(watches(&server).await, 5);
    all.truncate(1);
    until_watches(&server, 1).await;
    for _ in 0..5 {
        let mut watch = backend.watch_cell(&cell("a"));
        assert!(watch.changed().now_or_never().is_none());
    }
    let mut last = backend.watch_cell(&cell("a"));
    news(&mut *last).await;
    until_watches(&server, 2).await;
    let other = client(&server, "").await;
    written(write_cell(&other, &cell("a"), &put(Expected::Any, "new")).await);
    news(&mut *last).await;
    news(&mut *all[0]).await;
    backend.close(Close::Orderly).await.unwrap();
    until_watches(&server, 0).await;
}
