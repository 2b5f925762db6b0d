//! Watches of queues (WATCH-QUEUE).

use std::sync::Arc;

use super::{data, entries, texts, with_data};
use crate::common::{
    address, admitted, alone, backend, config, count, holds, join, one_proxied, server, soon, stranger,
    watches,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::Claim::Shared;
use latchwork_core::backend::{Backend, ChangeWatch};
use latchwork_core::{Address, Key, Kind};
use zookeeper_client::Error;

/// The request that lists, and watches.
const LIST: i32 = 8;

/// A watch that has answered first.
async fn watching(backend: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = backend.watch_queue(queue);
    soon(watch.changed()).await.unwrap();
    watch
}

/// Whether it has nothing to say. Round trips on its client prove that it was polled through all
/// that has happened.
async fn is_quiet(backend: &Arc<dyn Backend>, queue: &Address, watch: &mut Box<dyn ChangeWatch>) -> bool {
    tokio::select! {
        biased;
        _ = watch.changed() => false,
        () = async {
            for _ in 0..5 {
                entries(backend, queue).await;
            }
        } => true,
    }
}

async fn until_quiet(backend: &Arc<dyn Backend>, queue: &Address, watch: &mut Box<dyn ChangeWatch>) {
    soon(async { while !is_quiet(backend, queue, watch).await {} }).await;
}

#[tokio::test]
async fn an_invalid_path_is_refused() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    let nowhere = address(&config, Kind::Group, Key::exact("no-path"));
    let error = backend.watch_queue(&nowhere).changed().await.unwrap_err();
    assert_eq!(error.argument(), Some("key"), "{error}");
}

/// The server removes an empty directory after a while, and the next join makes it anew.
#[tokio::test]
async fn a_watch_outlives_the_directory() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, other) = (backend(&config).await, backend(&config).await);
    let queue = address(&config, Kind::Group, "a");
    let directory = format!("/{}/group/a", config.namespace);
    // Not even the directory above is there.
    let mut watch = watching(&one, &queue).await;
    for _ in 0..3 {
        let node = admitted(other.join(&with_data(&queue, Shared, b"here")).await);
        soon(async {
            while data(&one, &queue).await != texts(&["here"]) {
                watch.changed().await.unwrap();
            }
        })
        .await;
        node.write_data(&b"still"[..].into()).await.unwrap();
        soon(async {
            while data(&one, &queue).await != texts(&["still"]) {
                watch.changed().await.unwrap();
            }
        })
        .await;
        node.leave().await.unwrap();
        soon(async {
            while !entries(&one, &queue).await.is_empty() {
                watch.changed().await.unwrap();
            }
        })
        .await;
        until_quiet(&one, &queue, &mut watch).await;
        match stranger.delete(&directory, None).await {
            // The server has done it, once a minute, and that was told before.
            Err(Error::NoNode) => {}
            deleted => {
                deleted.unwrap();
                soon(watch.changed()).await.unwrap();
            }
        }
        until_quiet(&one, &queue, &mut watch).await;
    }
}

#[tokio::test]
async fn a_dropped_watch_leaves_nothing_on_the_server() {
    alone(async |server| {
        let proxy = Proxy::start(server.addr()).await.unwrap();
        let config = config(&proxy.addr().to_string());
        let one = backend(&config).await;
        let other = backend(&crate::common::config(server.addr())).await;
        let (queue, absent) = (address(&config, Kind::Group, "a"), address(&config, Kind::Group, "b"));
        // A hold is watched too.
        let _node = admitted(other.join(&join(&queue, Shared)).await);
        watches(server, 1).await;
        let never_asked = one.watch_queue(&queue);
        drop(never_asked);
        // Of a queue that is there, of one that is not, and two of one queue.
        let watched =
            [watching(&one, &queue).await, watching(&one, &absent).await, watching(&one, &queue).await];
        watches(server, 1 + 3).await;
        let [first, second, mut third] = watched;
        drop(first);
        assert!(is_quiet(&one, &queue, &mut third).await);
        watches(server, 1 + 3).await;
        drop((second, third));
        watches(server, 1).await;
        // Waiting.
        let mut watch = watching(&one, &queue).await;
        assert!(watch.changed().now_or_never().is_none());
        watches(server, 1 + 2).await;
        // Told, and armed again.
        let next = admitted(other.join(&join(&queue, Shared)).await);
        soon(watch.changed()).await.unwrap();
        watches(server, 2 + 2).await;
        drop(watch);
        watches(server, 2).await;
        next.leave().await.unwrap();
        watches(server, 1).await;
        // Arming: the server has it before the client knows.
        let mut watch = one.watch_queue(&queue);
        let mut armed = proxy.hold_reply_to(|chunk| holds(chunk, LIST));
        tokio::select! {
            answer = watch.changed() => panic!("its answer is held: {answer:?}"),
            fired = armed.fired() => fired.unwrap(),
        }
        watches(server, 1 + 2).await;
        drop(watch);
        proxy.resume();
        watches(server, 1).await;
        // And behind a break of the connection.
        let mut watch = watching(&one, &queue).await;
        proxy.sever();
        soon(watch.changed()).await.unwrap();
        watches(server, 1 + 2).await;
        drop(watch);
        watches(server, 1).await;
    })
    .await;
}

/// The client crate cannot set so many again on one session.
#[tokio::test(flavor = "multi_thread")]
async fn more_watches_than_one_session_can_have_are_told_and_outlive_a_break() {
    alone(async |server| {
        let config = config(server.addr());
        let (proxy, [one, other]) = one_proxied(&config).await;
        let queues: Vec<_> = (0..200)
            .map(|number| address(&config, Kind::Group, format!("{number:0>3}{}", "/".repeat(252))))
            .collect();
        let mut watched = soon(join_all(queues.iter().map(|queue| watching(&one, queue)))).await;
        let sessions = count(server, "zk_global_sessions").await;
        assert!(sessions > 2, "{sessions}");
        let lease = one.lease();
        for round in 0..2_usize {
            for (queue, watch) in queues.iter().zip(&mut watched).step_by(20) {
                other.join(&join(queue, Shared)).await.unwrap();
                soon(async {
                    while entries(&one, queue).await.len() <= round {
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
    })
    .await;
}
