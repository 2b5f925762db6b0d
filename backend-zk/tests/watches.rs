use std::sync::Arc;
use std::time::Duration;

use crate::cells::{cell, put_value, value};
use crate::common::request::{EXISTS, LIST};
use crate::common::{
    ALL, address, admitted, alone, backend, config, holds, join, long_key, one_proxied, place, proxied_with,
    server, sessions, soon, still_waits, stranger, watches,
};
use crate::observed::{data, texts, with_data};
use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::errors::{fails, refuses};
use latchwork_core::Claim::Shared;
use latchwork_core::backend::{Backend, ChangeWatch, Node};
use latchwork_core::{Address, Config, ErrorKind, Key, Kind};
use zookeeper_client::Error;

#[derive(Clone, Copy, PartialEq)]
enum Watched {
    Cell,
    Queue,
}

impl Watched {
    fn address(self, config: &Config, key: impl Into<Key>) -> Address {
        address(config, if self == Watched::Cell { Kind::Value } else { Kind::Group }, key)
    }

    fn watch(self, client: &Arc<dyn Backend>, at: &Address) -> Box<dyn ChangeWatch> {
        match self {
            Watched::Cell => client.watch_cell(at),
            Watched::Queue => client.watch_queue(at),
        }
    }

    async fn watching(self, client: &Arc<dyn Backend>, at: &Address) -> Box<dyn ChangeWatch> {
        let mut watch = self.watch(client, at);
        soon(watch.changed()).await.unwrap();
        watch
    }

    async fn change(self, client: &Arc<dyn Backend>, at: &Address, number: usize) -> Option<Arc<dyn Node>> {
        match self {
            Watched::Cell => {
                put_value(client, at, &vec![b'x'; number]).await;
                None
            }
            Watched::Queue => Some(admitted(client.join(&join(at, Shared)).await)),
        }
    }

    async fn changes(self, client: &Arc<dyn Backend>, at: &Address) -> usize {
        match self {
            Watched::Cell => cell(client, at).await.value.len(),
            Watched::Queue => client.list(at, ALL).await.unwrap().len(),
        }
    }
}

#[tokio::test]
async fn a_watch_that_cannot_reach_the_server_is_unavailable_and_can_be_asked_again() {
    let short = |one: &mut Config| one.request_timeout = Duration::from_secs(4);
    let (config, proxy, [one, other]) = proxied_with(short).await;
    let at = value(&config, "a");
    let mut watch = Watched::Cell.watching(&one, &at).await;
    proxy.cut();
    fails(soon(watch.changed()).await, ErrorKind::Unavailable, "the link is cut");
    proxy.resume();
    soon(async { while watch.changed().await.is_err() {} }).await;
    put_value(&other, &at, b"one").await;
    soon(watch.changed()).await.unwrap();
}

#[tokio::test]
async fn an_invalid_path_is_refused() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    let nowhere = address(&config, Kind::Group, Key::exact("no-path"));
    refuses(backend.watch_queue(&nowhere).changed().await, "key");
}

/// The server removes an empty directory, and the next join creates it again.
#[tokio::test]
async fn a_watch_outlives_the_directory() {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    let queue = address(&config, Kind::Group, "a");
    let directory = format!("/{}/group/a", config.namespace);
    let mut watch = Watched::Queue.watching(&one, &queue).await;
    let until_it_shows = async |watch: &mut Box<dyn ChangeWatch>, expected: &[&str]| {
        soon(async {
            while data(&one, &queue).await != texts(expected) {
                watch.changed().await.unwrap();
            }
        })
        .await;
    };
    let until_quiet = async |watch: &mut Box<dyn ChangeWatch>| {
        soon(async { while !still_waits(&one, &queue, watch.changed()).await {} }).await;
    };
    for _ in 0..3 {
        let node = admitted(other.join(&with_data(&queue, Shared, b"here")).await);
        until_it_shows(&mut watch, &["here"]).await;
        node.write_data(&b"still"[..].into()).await.unwrap();
        until_it_shows(&mut watch, &["still"]).await;
        node.leave().await.unwrap();
        until_it_shows(&mut watch, &[]).await;
        until_quiet(&mut watch).await;
        match stranger.delete(&directory, None).await {
            Err(Error::NoNode) => {}
            deleted => {
                deleted.unwrap();
                soon(watch.changed()).await.unwrap();
            }
        }
        until_quiet(&mut watch).await;
    }
}

#[tokio::test]
async fn a_dropped_watch_of_a_cell_leaves_nothing_on_the_server() {
    dropped_watches_leave_nothing(Watched::Cell, 1, EXISTS).await;
}

#[tokio::test]
async fn a_dropped_watch_of_a_queue_leaves_nothing_on_the_server() {
    dropped_watches_leave_nothing(Watched::Queue, 2, LIST).await;
}

/// `each`: the server's watches for one watch. `arms`: the request that arms it.
async fn dropped_watches_leave_nothing(kind: Watched, each: u64, arms: i32) {
    alone(async |server| {
        let config = config(server.addr());
        let (proxy, [one, other]) = one_proxied(&config).await;
        let (at, absent) = (kind.address(&config, "a"), kind.address(&config, "b"));
        let unused = address(&config, Kind::Mutex, "unused");
        let node = kind.change(&other, &at, 1).await;
        let held = u64::from(node.is_some());
        watches(server, held).await;
        let never_asked = kind.watch(&one, &at);
        watches(server, held).await;
        drop(never_asked);
        let [first, second, mut third] = [
            kind.watching(&one, &at).await,
            kind.watching(&one, &absent).await,
            kind.watching(&one, &at).await,
        ];
        watches(server, held + each + 1).await;
        drop(first);
        assert!(still_waits(&one, &unused, third.changed()).await);
        watches(server, held + each + 1).await;
        drop((second, third));
        watches(server, held).await;
        let mut watch = kind.watching(&one, &at).await;
        assert!(watch.changed().now_or_never().is_none());
        watches(server, held + each).await;
        let next = kind.change(&other, &at, 2).await;
        soon(watch.changed()).await.unwrap();
        watches(server, 2 * held + each).await;
        drop(watch);
        watches(server, 2 * held).await;
        if let Some(next) = next {
            next.leave().await.unwrap();
        }
        watches(server, held).await;
        // The server has the watch before the client knows it.
        let mut watch = kind.watch(&one, &at);
        let mut armed = proxy.hold_reply_to(move |chunk| holds(chunk, arms));
        tokio::select! {
            answer = watch.changed() => panic!("its answer is held: {answer:?}"),
            fired = armed.fired() => fired.unwrap(),
        }
        watches(server, held + each).await;
        drop(watch);
        proxy.resume();
        watches(server, held).await;
        let mut watch = kind.watching(&one, &at).await;
        proxy.sever();
        soon(watch.changed()).await.unwrap();
        watches(server, held + each).await;
        drop(watch);
        watches(server, held).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_watches_of_cells_than_one_session_can_have_outlive_a_break() {
    many_watches_outlive_a_break(Watched::Cell, 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_watches_of_queues_than_one_session_can_have_outlive_a_break() {
    many_watches_outlive_a_break(Watched::Queue, 200).await;
}

/// The client crate cannot set this number of watches again.
async fn many_watches_outlive_a_break(kind: Watched, count: usize) {
    alone(async |server| {
        let config = config(server.addr());
        let (proxy, [one, other]) = one_proxied(&config).await;
        let all: Vec<_> = (0..count).map(|number| kind.address(&config, long_key(number))).collect();
        let mut watched = soon(join_all(all.iter().map(|at| kind.watching(&one, at)))).await;
        let sessions = sessions(server).await;
        assert!(sessions > 2, "{sessions}");
        let lease = one.lease();
        for round in 1..=2 {
            for (at, watch) in all.iter().zip(&mut watched).step_by(count / 10) {
                kind.change(&other, at, round).await;
                soon(async {
                    while kind.changes(&one, at).await < round {
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
        if kind == Watched::Cell {
            watches(server, 0).await;
        }
        stranger(server.addr()).await.sync("/").await.unwrap();
    })
    .await;
}
