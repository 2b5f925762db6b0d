use std::sync::Arc;

use super::{cell, lease, put, put_value, seen, value, written};
use crate::common::request::MULTI;
use crate::common::{backend, holds, place, proxied, soon};
use latchwork_conformance::errors::fails;
use latchwork_core::backend::{Backend, CellWrite};
use latchwork_core::{Address, ErrorKind, Expected};

async fn made(backend: &Arc<dyn Backend>, at: &Address, write: &CellWrite) -> u64 {
    written(backend.write_cell(at, write).await).number()
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_takeover_leaves_no_gap_and_notifies_the_watch() {
    let (config, one, stranger) = place().await;
    let path = format!("/{}/value/a", config.namespace);
    let (two, reads) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    made(&one, &at, &lease(Expected::Absent, b"0")).await;
    let mut watch = reads.watch_cell(&at);
    soon(watch.changed()).await.unwrap();
    let writes = async {
        for turn in 1..=20_u8 {
            let write =
                if turn % 3 == 0 { put(Expected::Any, [turn]) } else { lease(Expected::Any, &[turn]) };
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
    stranger.sync(&path).await.unwrap();
    assert_eq!(stranger.check_stat(&path).await.unwrap().expect("the cell exists").num_children, 0);
}

#[tokio::test]
async fn a_write_under_a_lease_whose_reply_was_lost_is_unknown_and_was_made_once() {
    let (config, proxy, [one, other]) = proxied().await;
    let at = value(&config, "a");
    let first = put_value(&one, &at, b"zero").await;
    for (write, shown) in [
        (lease(Expected::Version(first), b"1"), b"1"),
        (lease(Expected::Any, b"2"), b"2"),
        // Refused at first, because the cell goes with a lease.
        (put(Expected::Any, b"3"), b"2"),
    ] {
        let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
        fails(one.write_cell(&at, &write).await, ErrorKind::OutcomeUnknown, "the reply is lost");
        soon(cut.fired()).await.unwrap();
        let now = cell(&other, &at).await;
        assert_eq!(&*now.value, shown);
        soon(one.read_cell(&at)).await.unwrap();
        assert_eq!(seen(&cell(&other, &at).await), seen(&now));
    }
}
