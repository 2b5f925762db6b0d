//! Compare-and-set (CELL-CAS).

use std::collections::HashSet;
use std::sync::Arc;

use super::{MULTI, READ, cell, delete, put_value, seen, set, value, written};
use crate::common::{address, backend, config, holds, one_proxied, put, server, soon, stranger};
use futures_util::future::join_all;
use latchwork_core::Kind;
use latchwork_core::contracts::{Backend, CellWrite, CellWritten, Expected, Version};
use zookeeper_client::CreateMode;

const GONE: CellWritten = CellWritten::Deleted { was_there: true };
const NONE: CellWritten = CellWritten::Deleted { was_there: false };

#[tokio::test]
async fn a_write_is_made_only_where_the_cell_is_as_it_expects() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let refused = async |write: CellWrite| match one.write_cell(&at, &write).await.unwrap() {
        CellWritten::Refused(found) => found,
        made => panic!("{write:?}: {made:?}"),
    };
    let made = async |write: CellWrite| one.write_cell(&at, &write).await.unwrap();

    // There is none.
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
    assert_eq!(made(delete(Expected::Any)).await, NONE);
    assert_eq!(made(delete(Expected::Absent)).await, NONE);
    let never = Expected::Version(Version::new(5, 5));
    assert_eq!(refused(set(never, b"x")).await, None);
    assert_eq!(refused(delete(never)).await, None);
    let first = written(one.write_cell(&at, &set(Expected::Absent, b"one")).await);
    assert_eq!(seen(&cell(&other, &at).await), (first.number(), &b"one"[..]));

    // There is one.
    assert_eq!(seen(&refused(set(Expected::Absent, b"x")).await.unwrap()), (first.number(), &b"one"[..]));
    assert_eq!(seen(&refused(delete(Expected::Absent)).await.unwrap()), (first.number(), &b"one"[..]));
    assert_eq!(refused(set(never, b"x")).await.unwrap().version.number(), first.number());
    let second = put_value(&one, &at, b"two").await;
    let third = written(one.write_cell(&at, &set(Expected::Version(second), b"three")).await);
    assert!(first < second && second < third, "{first} {second} {third}");
    for stale in [first, second].map(Expected::Version) {
        for write in [set(stale, b"x"), delete(stale)] {
            assert_eq!(seen(&refused(write).await.unwrap()), (third.number(), &b"three"[..]));
        }
    }
    // The version that another client reads is as good.
    let read = Expected::Version(cell(&other, &at).await.version);
    let fourth = written(one.write_cell(&at, &set(read, b"four")).await);
    assert_eq!(made(delete(Expected::Version(fourth))).await, GONE);
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
    assert_eq!(refused(set(Expected::Version(fourth), b"x")).await, None);
    put_value(&one, &at, b"five").await;
    assert_eq!(made(delete(Expected::Any)).await, GONE);
}

/// A refused transaction answers no value. Once others write the cell too, it is read in the same trip:
/// the read is sent before the transaction's answer is there.
#[tokio::test]
async fn a_write_of_a_contended_cell_reads_in_the_same_trip() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let mut known = put_value(&one, &at, b"0").await;
    for (round, reads_behind) in [false, true, true].into_iter().enumerate() {
        let newer = put_value(&other, &at, b"other").await;
        let mut answered = proxy.hold_reply_to(|chunk| holds(chunk, MULTI));
        let mut read = proxy.request(|chunk| holds(chunk, READ));
        let held = async {
            answered.fired().await.unwrap();
            if reads_behind {
                soon(read.fired()).await.unwrap();
            }
            assert_eq!(read.has_fired(), reads_behind, "{round}");
            proxy.resume();
        };
        let write = set(Expected::Version(known), b"mine");
        let (refused, ()) = tokio::join!(one.write_cell(&at, &write), held);
        let CellWritten::Refused(Some(found)) = refused.unwrap() else { panic!("{round}: it is another's") };
        assert_eq!(seen(&found), (newer.number(), &b"other"[..]), "{round}");
        // What was read there is good for the next write.
        let mine = one.write_cell(&at, &set(Expected::Version(found.version), b"mine")).await;
        known = written(mine);
    }
}

#[tokio::test]
async fn values_are_any_bytes_and_an_empty_one_is_not_absence() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    let at = value(&config, "a");
    let all: Vec<u8> = (0..4096).map(|n: u32| n.to_le_bytes()[0]).collect();
    for bytes in [&b""[..], b"\0", &all, b"", "\u{fffd}\r\n".as_bytes()] {
        let version = put_value(&backend, &at, bytes).await;
        assert_eq!(seen(&cell(&backend, &at).await), (version.number(), bytes));
    }
    let empty = written(backend.write_cell(&at, &set(Expected::Any, b"")).await);
    let refused = backend.write_cell(&at, &set(Expected::Absent, b"x")).await.unwrap();
    assert!(matches!(refused, CellWritten::Refused(Some(found)) if found.version == empty));
}

/// The data version begins at 0 again, and so fits.
#[tokio::test]
async fn a_version_does_not_come_again_when_the_cell_is_deleted_and_made_anew() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let mut olds: Vec<Version> = Vec::new();
    for round in 0..3 {
        // Each round has versions of both ways to make a cell, and of each way to learn them.
        let made = match round % 2 {
            0 => put_value(&other, &at, b"made").await,
            _ => written(other.write_cell(&at, &set(Expected::Absent, b"made")).await),
        };
        let read = cell(&one, &at).await.version;
        let over = put_value(&one, &at, b"over").await;
        let now = cell(&other, &at).await;
        for old in &olds {
            assert!(old.number() < made.number(), "{old} {made}");
            for write in [set(Expected::Version(*old), b"x"), delete(Expected::Version(*old))] {
                let answer = one.write_cell(&at, &write).await.unwrap();
                assert_eq!(answer, CellWritten::Refused(Some(now.clone())), "{old:?}");
            }
        }
        olds.extend([made, read, over, now.version]);
        assert_eq!(one.write_cell(&at, &delete(Expected::Any)).await.unwrap(), GONE);
    }
}

#[tokio::test]
async fn a_version_is_good_though_other_cells_of_its_kind_were_made_meanwhile() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    let made = put_value(&one, &at, b"one").await;
    put_value(&other, &value(&config, "b"), b"").await;
    let second = written(one.write_cell(&at, &set(Expected::Version(made), b"two")).await);
    put_value(&other, &value(&config, "c"), b"").await;
    // It writes nothing over that came meanwhile, and the new version is good as well.
    assert!(matches!(
        one.write_cell(&at, &set(Expected::Version(made), b"x")).await.unwrap(),
        CellWritten::Refused(Some(found)) if found.version.number() == second.number()
    ));
    let third = written(one.write_cell(&at, &set(Expected::Version(second), b"three")).await);
    put_value(&other, &value(&config, "d"), b"").await;
    assert_eq!(one.write_cell(&at, &delete(Expected::Version(third))).await.unwrap(), GONE);
}

/// Other cells come and go meanwhile, so that generations change under each write.
#[tokio::test(flavor = "multi_thread")]
async fn racing_clients_count_each_of_their_successes_once() {
    const EACH: u32 = 40;
    let config = config(server().await.addr());
    let at = address(&config, Kind::Counter, "a");
    let count = async |number: usize| {
        let backend = backend(&config).await;
        let beside = address(&config, Kind::Counter, format!("beside-{number}"));
        for _ in 0..EACH {
            loop {
                let found = backend.read_cell(&at).await.unwrap();
                let (expected, now) = match &found {
                    Some(found) => (Expected::Version(found.version), found.value[0]),
                    None => (Expected::Absent, 0),
                };
                match backend.write_cell(&at, &set(expected, &[now + 1])).await.unwrap() {
                    CellWritten::Written(_) => break,
                    CellWritten::Refused(now) => assert!(now.is_some()),
                    CellWritten::Deleted { .. } => unreachable!("it was a write"),
                }
            }
            put_value(&backend, &beside, b"").await;
            backend.write_cell(&beside, &delete(Expected::Any)).await.unwrap();
        }
    };
    soon(join_all((0..4).map(count))).await;
    assert_eq!(cell(&backend(&config).await, &at).await.value[0], 160);
}

/// Each version is the end of one write, and the begin of one at most.
#[tokio::test(flavor = "multi_thread")]
async fn racing_clients_that_delete_and_make_anew_use_up_each_version_once() {
    let config = config(server().await.addr());
    let at = value(&config, "a");
    let race = async |number: u32| {
        let backend = backend(&config).await;
        let (mut made, mut used) = (Vec::new(), Vec::new());
        let mut known = None;
        for turn in 0..60 {
            let expected = known.map_or(Expected::Absent, Expected::Version);
            let write =
                if (turn + number).is_multiple_of(3) { delete(expected) } else { set(expected, b"x") };
            match backend.write_cell(&at, &write).await.unwrap() {
                CellWritten::Written(version) => {
                    made.push(version.number());
                    used.extend(known.replace(version));
                }
                CellWritten::Deleted { was_there } => {
                    assert_eq!(was_there, known.is_some());
                    used.extend(known.take());
                }
                CellWritten::Refused(found) => known = found.map(|found| found.version),
            }
        }
        (made, used)
    };
    let (mut made, mut used) = (HashSet::new(), HashSet::new());
    for (made_by_one, used_by_one) in soon(join_all((0..4).map(race))).await {
        assert!(made_by_one.is_sorted(), "{made_by_one:?}");
        for number in made_by_one {
            assert!(made.insert(number), "{number} was made twice");
        }
        for version in used_by_one {
            assert!(used.insert(version.number()), "{version} was used up twice");
        }
    }
    assert!(used.is_subset(&made) && made.len() - used.len() <= 1, "{} {}", made.len(), used.len());
}

#[tokio::test]
async fn of_racing_creations_one_is_made() {
    let config = config(server().await.addr());
    let clients: Vec<Arc<dyn Backend>> = join_all((0..6).map(|_| backend(&config))).await;
    for key in ["a", "b", "c"] {
        let at = value(&config, key);
        let create = set(Expected::Absent, b"made");
        let answers = soon(join_all(clients.iter().map(|client| client.write_cell(&at, &create)))).await;
        let won: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer.unwrap() {
                CellWritten::Written(version) => Some(version),
                CellWritten::Refused(Some(_)) => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(won.len(), 1);
        assert_eq!(cell(&clients[0], &at).await.version.number(), won[0].number());
    }
}

/// The server would take it for any version.
#[tokio::test]
async fn a_write_under_a_version_that_the_server_does_not_compare_is_refused() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let backend = backend(&config).await;
    let at = value(&config, "a");
    let made = put_value(&backend, &at, b"one").await;
    for condition in [made.condition() | u64::from(u32::MAX), made.condition() | u64::from(u32::MAX) << 32] {
        let version = Version::new(made.number(), condition);
        for write in [set(Expected::Version(version), b"x"), delete(Expected::Version(version))] {
            let error = backend.write_cell(&at, &write).await.unwrap_err();
            assert_eq!(error.kind(), latchwork_core::ErrorKind::Misconfigured, "{error}");
            assert_eq!(&*cell(&backend, &at).await.value, b"one");
        }
    }
    // A directory's own data are nobody's.
    put(&stranger, &format!("/{}/value/b", config.namespace), CreateMode::Persistent).await;
    assert_eq!(&*cell(&backend, &value(&config, "b")).await.value, b"stranger");
}
