//! Cells that go with their writer's session (CELL-EPHEMERAL).

use std::sync::Arc;
use std::time::Duration;

use super::{MULTI, cell, delete, lease, put_value, seen, set, value, written};
use crate::common::{
    address, admitted, backend, config, holds, join, one_proxied, one_proxied_with, server, soon, stranger,
};
use latchwork_core::contracts::{Backend, CellWrite, CellWritten, Close, Expected};
use latchwork_core::decide::Claim::Exclusive;
use latchwork_core::{Address, Config, ErrorKind, Kind};
use zookeeper_client::{Client, Stat};

async fn stat(stranger: &Client, config: &Config, key: &str) -> Stat {
    let path = format!("/{}/value/{key}", config.namespace);
    stranger.sync(&path).await.unwrap();
    stranger.check_stat(&path).await.unwrap().expect("it is there")
}

async fn made(backend: &Arc<dyn Backend>, at: &Address, write: &CellWrite) -> u64 {
    written(backend.write_cell(at, write).await).number()
}

/// Whatever is there, and whichever condition there is: the last write decides what it hangs on.
#[tokio::test]
async fn the_last_write_decides_which_session_a_cell_hangs_on() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, two) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let owner = async || stat(&stranger, &config, "a").await.ephemeral_owner;
    let mut numbers = vec![made(&one, &at, &lease(Expected::Absent, b"made")).await];
    let first = owner().await;
    assert_ne!(first, 0);
    for conditional in [false, true] {
        let expected = async || match conditional {
            true => Expected::Version(cell(&two, &at).await.version),
            false => Expected::Any,
        };
        // Taken over, and over again by the same client.
        for _ in 0..2 {
            numbers.push(made(&two, &at, &lease(expected().await, b"two")).await);
            assert!(![0, first].contains(&owner().await), "{conditional}");
        }
        numbers.push(made(&one, &at, &lease(expected().await, b"one")).await);
        assert_eq!(owner().await, first, "{conditional}");
        // Made to stay by another, and written as it stays.
        for _ in 0..2 {
            numbers.push(made(&two, &at, &set(expected().await, b"stays")).await);
            assert_eq!(owner().await, 0, "{conditional}");
        }
        // And from one that stays.
        numbers.push(made(&one, &at, &lease(expected().await, b"one")).await);
        assert_eq!(owner().await, first, "{conditional}");
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    // The proof that it can stay has left nothing.
    assert_eq!(stat(&stranger, &config, "a").await.num_children, 0);
    let last = made(&two, &at, &set(Expected::Any, b"stays")).await;
    for backend in [one, two] {
        backend.close(Close::Orderly).await.unwrap();
    }
    let later = backend(&config).await;
    assert_eq!(seen(&cell(&later, &at).await), (last, &b"stays"[..]));
}

/// A version from before a cell was made anew never fits again, though its data version does.
#[tokio::test]
async fn a_version_of_another_life_is_refused() {
    let config = config(server().await.addr());
    let (one, two) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let mut old = vec![written(one.write_cell(&at, &lease(Expected::Absent, b"0")).await)];
    for turn in 0..4_u8 {
        let (backend, write) = match turn {
            0 | 2 => (&two, lease(Expected::Any, &[turn])),
            _ => (&one, set(Expected::Any, &[turn])),
        };
        let now = written(backend.write_cell(&at, &write).await);
        for before in &old {
            for write in [
                set(Expected::Version(*before), b"x"),
                lease(Expected::Version(*before), b"x"),
                delete(Expected::Version(*before)),
            ] {
                let refused = one.write_cell(&at, &write).await.unwrap();
                assert!(matches!(refused, CellWritten::Refused(Some(_))), "{turn} {write:?}");
            }
        }
        assert_eq!(seen(&cell(&one, &at).await), (now.number(), &[turn][..]));
        old.push(now);
    }
}

/// Nobody reads that it is gone, and a watch is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_taken_over_is_there_all_the_while_and_its_watch_is_told() {
    let config = config(server().await.addr());
    let (one, two, reads) = (backend(&config).await, backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    made(&one, &at, &lease(Expected::Absent, b"0")).await;
    let mut watch = reads.watch_cell(&at);
    soon(watch.changed()).await.unwrap();
    let writes = async {
        for turn in 1..=20_u8 {
            let write =
                if turn % 3 == 0 { set(Expected::Any, &[turn]) } else { lease(Expected::Any, &[turn]) };
            made(if turn % 2 == 0 { &one } else { &two }, &at, &write).await;
        }
    };
    let seen = async {
        while *cell(&reads, &at).await.value != [20] {
            soon(watch.changed()).await.unwrap();
        }
    };
    let all_the_while = async { while *cell(&two, &at).await.value != [20] {} };
    tokio::join!(writes, seen, all_the_while);
}

#[tokio::test]
async fn a_write_under_a_lease_whose_reply_was_lost_is_unknown_and_was_made_once() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let first = put_value(&one, &at, b"zero").await;
    for (write, shown) in [
        (lease(Expected::Version(first), b"1"), b"1"),
        (lease(Expected::Any, b"2"), b"2"),
        // At first it is refused, since the cell goes with a lease: nothing was made.
        (set(Expected::Any, b"3"), b"2"),
    ] {
        let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
        let error = one.write_cell(&at, &write).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        soon(cut.fired()).await.unwrap();
        let now = cell(&other, &at).await;
        assert_eq!(&*now.value, shown);
        soon(one.read_cell(&at)).await.unwrap();
        assert_eq!(seen(&cell(&other, &at).await), seen(&now));
    }
}

#[tokio::test]
async fn a_held_write_under_a_lease_is_made_only_while_the_node_stands() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, two) = (backend(&config).await, backend(&config).await);
    let (queue, at) = (address(&config, Kind::Mutex, "a"), value(&config, "a"));
    let node = admitted(one.join(&join(&queue, Exclusive)).await);
    for write in [lease(Expected::Absent, b"1"), lease(Expected::Any, b"2"), set(Expected::Any, b"3")] {
        written(node.write_cell(&at, &write).await);
    }
    put_value(&two, &at, b"plain").await;
    written(node.write_cell(&at, &lease(Expected::Any, b"held")).await);
    assert!(two.revoke(&queue, node.state().sequence()).await.unwrap());
    for write in [lease(Expected::Any, b"x"), set(Expected::Any, b"x")] {
        assert!(node.write_cell(&at, &write).await.unwrap_err().lost_reason().is_some());
    }
    assert_eq!(&*cell(&two, &at).await.value, b"held");
    assert_ne!(stat(&stranger, &config, "a").await.ephemeral_owner, 0);
}

#[tokio::test]
async fn a_client_that_lost_its_session_writes_on_the_next() {
    let config = config(server().await.addr());
    let short = |one: &mut Config| one.ttl = Duration::from_secs(12);
    let (proxy, [one, other]) = one_proxied_with(&config, short).await;
    let at = value(&config, "a");
    made(&one, &at, &lease(Expected::Absent, b"before")).await;
    let lost = one.lease();
    proxy.cut();
    soon(lost.until_lost()).await;
    soon(async { while other.read_cell(&at).await.unwrap().is_some() {} }).await;
    proxy.resume();
    let number = soon(made(&one, &at, &lease(Expected::Absent, b"after"))).await;
    assert!(one.lease().lost().is_none(), "it is another lease");
    assert_eq!(seen(&cell(&other, &at).await), (number, &b"after"[..]));
    one.close(Close::Orderly).await.unwrap();
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
}
