//! Watches of cells (WATCH-ORDER, WATCH-END).

use std::sync::Arc;
use std::time::Duration;

use super::{put_value, value};
use crate::common::{
    alone, backend, config, count, holds, one_proxied, one_proxied_with, server, soon, stranger, watches,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::backend::{Backend, ChangeWatch};
use latchwork_core::{Address, Config, ErrorKind};

/// ZooKeeper's number of the request that asks for a stat, and watches.
const EXISTS: i32 = 3;

/// A watch that has answered first.
async fn watching(backend: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = backend.watch_cell(cell);
    soon(watch.changed()).await.unwrap();
    watch
}

#[tokio::test]
async fn a_watch_that_cannot_reach_the_server_is_unavailable_and_can_be_asked_again() {
    let config = config(server().await.addr());
    let short = |one: &mut Config| one.request_timeout = Duration::from_secs(4);
    let (proxy, [one, other]) = one_proxied_with(&config, short).await;
    let at = value(&config, "a");
    let mut watch = watching(&one, &at).await;
    proxy.cut();
    let error = soon(watch.changed()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.resume();
    soon(async { while watch.changed().await.is_err() {} }).await;
    put_value(&other, &at, b"one").await;
    soon(watch.changed()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_watch_leaves_nothing_on_the_server() {
    alone(async |server| {
        let proxy = Proxy::start(server.addr()).await.unwrap();
        let config = config(&proxy.addr().to_string());
        let one = backend(&config).await;
        let (at, absent) = (value(&config, "a"), value(&config, "b"));
        put_value(&one, &at, b"one").await;
        let never_asked = one.watch_cell(&at);
        watches(server, 0).await;
        drop(never_asked);
        // Of a cell that is there, of one that is not, and two of one cell.
        let watched = [watching(&one, &at).await, watching(&one, &absent).await, watching(&one, &at).await];
        watches(server, 2).await;
        drop(watched);
        watches(server, 0).await;
        // Waiting.
        let mut watch = watching(&one, &at).await;
        assert!(watch.changed().now_or_never().is_none());
        watches(server, 1).await;
        drop(watch);
        watches(server, 0).await;
        // Arming: the server has it before the client knows.
        let mut watch = one.watch_cell(&at);
        let mut armed = proxy.hold_reply_to(|chunk| holds(chunk, EXISTS));
        tokio::select! {
            answer = watch.changed() => panic!("its answer is held: {answer:?}"),
            fired = armed.fired() => fired.unwrap(),
        }
        watches(server, 1).await;
        drop(watch);
        proxy.resume();
        watches(server, 0).await;
        // And behind a break of the connection.
        let mut watch = watching(&one, &at).await;
        proxy.sever();
        soon(watch.changed()).await.unwrap();
        watches(server, 1).await;
        drop(watch);
        watches(server, 0).await;
    })
    .await;
}

/// The client crate cannot set so many again on one session.
#[tokio::test(flavor = "multi_thread")]
async fn more_watches_than_one_session_can_have_outlive_a_break() {
    alone(async |server| {
        let config = config(server.addr());
        let (proxy, [one, other]) = one_proxied(&config).await;
        let cells: Vec<_> =
            (0..400).map(|number| value(&config, &format!("{number:0>3}{}", "/".repeat(252)))).collect();
        let mut watched = soon(join_all(cells.iter().map(|cell| watching(&one, cell)))).await;
        let sessions = count(server, "zk_global_sessions").await;
        assert!(sessions > 2, "{sessions}");
        let lease = one.lease();
        for round in 0..2 {
            for (cell, watch) in cells.iter().zip(&mut watched).step_by(40) {
                put_value(&other, cell, &[round]).await;
                soon(async {
                    while one.read_cell(cell).await.unwrap().is_none_or(|found| *found.value != [round]) {
                        watch.changed().await.unwrap();
                    }
                })
                .await;
            }
            proxy.sever();
            soon(join_all(watched.iter_mut().map(|watch| async { while watch.changed().await.is_err() {} })))
                .await;
        }
        assert_eq!(lease.lost(), None);
        drop(watched);
        watches(server, 0).await;
        let stranger = stranger(server.addr()).await;
        stranger.sync("/").await.unwrap();
    })
    .await;
}
