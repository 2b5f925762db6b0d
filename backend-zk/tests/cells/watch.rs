//! Watches of cells (WATCH-ORDER, WATCH-END).

use std::sync::Arc;
use std::time::Duration;

use super::{cell, delete, put_value, seen, set, value};
use crate::common::{
    alone, backend, config, count, holds, one_proxied, one_proxied_with, promptly, server, soon, stranger,
    watches,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::contracts::{Backend, ChangeWatch, Close, Expected, LeaseState};
use latchwork_core::{Address, Config, ErrorKind};

/// ZooKeeper's number of the request that asks for a stat, and watches.
const EXISTS: i32 = 3;

/// A watch that has answered first.
async fn watching(backend: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = backend.watch_cell(cell);
    soon(watch.changed()).await.unwrap();
    watch
}

/// Whether it has nothing to say. Round trips on its client prove that it was polled through all
/// that has happened.
async fn is_quiet(backend: &Arc<dyn Backend>, cell: &Address, watch: &mut Box<dyn ChangeWatch>) -> bool {
    tokio::select! {
        biased;
        _ = watch.changed() => false,
        () = async {
            for _ in 0..5 {
                backend.read_cell(cell).await.unwrap();
            }
        } => true,
    }
}

#[tokio::test]
async fn a_watch_tells_each_creation_write_and_deletion_and_nothing_else() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let (at, beside) = (value(&config, "a"), value(&config, "b"));
    let mut watch = watching(&one, &at).await;
    for write in [
        set(Expected::Any, b"made"),
        set(Expected::Any, b"written"),
        // The same value is another version.
        set(Expected::Any, b"written"),
        delete(Expected::Any),
        set(Expected::Absent, b"again"),
    ] {
        put_value(&other, &beside, b"").await;
        assert!(is_quiet(&one, &at, &mut watch).await, "{write:?}");
        other.write_cell(&at, &write).await.unwrap();
        soon(watch.changed()).await.unwrap();
        let found = one.read_cell(&at).await.unwrap();
        assert_eq!(found.map(|found| found.value), write.value);
    }
    assert!(is_quiet(&one, &at, &mut watch).await);
}

#[tokio::test]
async fn a_change_between_two_calls_or_under_a_dropped_one_is_told() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let mut watch = watching(&one, &at).await;
    put_value(&other, &at, b"1").await;
    soon(watch.changed()).await.unwrap();
    assert!(watch.changed().now_or_never().is_none());
    put_value(&other, &at, b"2").await;
    soon(watch.changed()).await.unwrap();
    // Dropped after its event has come, while it arms again.
    for turn in 0..20 {
        put_value(&other, &at, &[turn]).await;
        let dropped =
            tokio::time::timeout(Duration::from_micros(u64::from(turn) * 50), watch.changed()).await;
        if dropped.is_err() {
            soon(watch.changed()).await.unwrap();
        }
        assert_eq!(&*cell(&one, &at).await.value, &[turn]);
    }
}

/// A watch that was armed only behind its answer would miss the last of them now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reads_behind_each_answer_sees_the_last_of_many_writes() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    for round in 0..10_u8 {
        let at = value(&config, &format!("a{round}"));
        let mut watch = one.watch_cell(&at);
        let reads = async {
            loop {
                soon(watch.changed()).await.unwrap();
                if one.read_cell(&at).await.unwrap().is_some_and(|found| *found.value == [40]) {
                    break;
                }
            }
        };
        let writes = async {
            for number in 0..=40 {
                put_value(&other, &at, &[number]).await;
            }
        };
        tokio::join!(reads, writes);
    }
}

#[tokio::test]
async fn a_watch_outlives_a_break_of_the_connection_and_tells_of_the_gap() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let mut watch = watching(&one, &at).await;
    let lease = one.lease();
    for round in 0..3 {
        proxy.cut();
        soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
        // What was made and deleted in the gap no server can tell.
        put_value(&other, &at, b"short").await;
        other.write_cell(&at, &delete(Expected::Any)).await.unwrap();
        proxy.resume();
        soon(watch.changed()).await.unwrap();
        soon(one.read_cell(&at)).await.unwrap();
        put_value(&other, &at, b"later").await;
        // The news of the gap may come once more.
        soon(async {
            while one.read_cell(&at).await.unwrap().is_none() {
                watch.changed().await.unwrap();
            }
        })
        .await;
        while !is_quiet(&one, &at, &mut watch).await {}
        other.write_cell(&at, &delete(Expected::Any)).await.unwrap();
        soon(watch.changed()).await.unwrap();
        assert_eq!(one.read_cell(&at).await.unwrap(), None, "{round}");
    }
}

/// Nothing happens to the cell: only the gap is told.
#[tokio::test]
async fn a_gap_alone_is_told_and_then_the_watch_is_quiet_and_alive() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    put_value(&other, &at, b"one").await;
    let mut watch = watching(&one, &at).await;
    proxy.sever();
    soon(watch.changed()).await.unwrap();
    soon(one.read_cell(&at)).await.unwrap();
    while !is_quiet(&one, &at, &mut watch).await {}
    let version = put_value(&other, &at, b"two").await;
    soon(watch.changed()).await.unwrap();
    assert_eq!(seen(&cell(&one, &at).await), (version.number(), &b"two"[..]));
}

#[tokio::test]
async fn a_watch_goes_on_with_the_next_session() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let mut watch = watching(&one, &at).await;
    let lease = one.lease();
    proxy.cut();
    lease.clock().jump(lease.ttl());
    soon(lease.until_lost()).await;
    proxy.resume();
    soon(watch.changed()).await.unwrap();
    assert!(one.lease().lost().is_none(), "it is another session's");
    assert!(is_quiet(&one, &at, &mut watch).await);
    put_value(&other, &at, b"one").await;
    soon(watch.changed()).await.unwrap();
    assert_eq!(&*cell(&one, &at).await.value, b"one");
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
async fn a_watch_of_a_closed_client_ends_at_once() {
    let config = config(server().await.addr());
    for how in [Some(Close::Orderly), Some(Close::Abrupt), None] {
        let one = backend(&config).await;
        let at = value(&config, "a");
        let (mut waits, mut asked_later, mut never_asked) =
            (watching(&one, &at).await, watching(&one, &at).await, one.watch_cell(&at));
        let waiting = tokio::spawn(async move { waits.changed().await });
        tokio::task::yield_now().await;
        match how {
            Some(how) => one.close(how).await.unwrap(),
            None => drop(one),
        }
        let ended = promptly(waiting).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed, "{how:?}");
        for watch in [&mut asked_later, &mut never_asked] {
            assert_eq!(soon(watch.changed()).await.unwrap_err().kind(), ErrorKind::Closed, "{how:?}");
        }
    }
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
