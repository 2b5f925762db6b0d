use std::pin::pin;

use super::{all_hold_and_release, line_up};
use crate::common::request::LIST;
use crate::common::{
    ALL, address, admitted, backend, config, hear, holds, join, proxied, server, soon, still_waits, waiting,
};
use latchwork_core::Claim::{Exclusive, Shared};
use latchwork_core::{Kind, LostReason};

/// On one connection the end of the predecessor proves that the own node exists. After a reconnect, events
/// have no order.
#[tokio::test]
async fn the_next_waiter_enters_at_once_but_lists_after_a_reconnect() {
    let (config, proxy, [one, other]) = proxied().await;
    for (key, behind, severed) in [("a", 0, false), ("b", 0, true), ("c", 2, false), ("d", 2, true)] {
        let queue = address(&config, Kind::Mutex, key);
        let ahead = line_up(&other, &queue, behind).await;
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        assert!(still_waits(&one, &queue, &mut admission).await);
        if severed {
            let back = async {
                proxy.sever();
                while one.list(&queue, ALL).await.is_err() {}
            };
            tokio::select! {
                biased;
                done = &mut admission => panic!("the waiter is not next: {done:?}"),
                () = back => {}
            }
        }
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        all_hold_and_release(ahead).await;
        hear(&one, &config).await;
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), severed, "{key}");
        waiter.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_waiter_whose_predecessor_left_before_its_watch_enters_without_listing_unless_it_is_gone_itself() {
    let (config, proxy, [one, other]) = proxied().await;
    for (key, revoked) in [("a", false), ("b", true)] {
        let queue = address(&config, Kind::Mutex, key);
        let holder = admitted(other.join(&join(&queue, Exclusive)).await);
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        if revoked {
            assert!(other.revoke(&queue, waiter.state().sequence()).await.unwrap());
        }
        holder.leave().await.unwrap();
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let ended = soon(waiter.admitted()).await.map_err(|error| error.lost_reason());
        assert_eq!(ended, if revoked { Err(Some(LostReason::Revoked)) } else { Ok(()) });
        assert!(!listed.has_fired());
    }
}

#[tokio::test]
async fn reader_enters_if_its_writer_downgraded_before_the_watch() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::RwLock, "a");
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Shared)).await);
    holder.downgrade().await.unwrap();
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    soon(waiter.admitted()).await.unwrap();
    assert!(!listed.has_fired() && holder.state().lost().is_none());
}

/// A downgraded writer does not exist under its old name.
#[tokio::test]
async fn a_writer_whose_predecessor_was_downgraded_before_it_was_watched_waits_for_the_reader() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
    holder.downgrade().await.unwrap();
    assert!(still_waits(&one, &queue, waiter.admitted()).await);
    holder.leave().await.unwrap();
    soon(waiter.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_waiter_removed_while_it_is_cut_off_is_not_admitted_though_its_predecessor_is_gone_too() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::Mutex, "a");
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&one, &queue, waiter.admitted()).await);
    let ends = async {
        proxy.cut();
        assert!(other.revoke(&queue, waiter.state().sequence()).await.unwrap());
        holder.leave().await.unwrap();
        proxy.resume();
    };
    let (ended, ()) = soon(async { tokio::join!(biased; waiter.admitted(), ends) }).await;
    assert_eq!(ended.unwrap_err().lost_reason(), Some(LostReason::Revoked));
}
