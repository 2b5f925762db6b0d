use std::time::Duration;

use latchwork_conformance::cell_actions::lasting;
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::backend::Close;
use latchwork_core::{Address, CellLife, ErrorKind, Expected, Kind, LeaseState, LostReason};

use crate::common::cells::{value, write};
use crate::common::{
    LONG, Operator, SHORT, client, connect, operated, outlive, promptly, queue, says, served, soon, until,
};

fn cell(key: &str) -> Address {
    queue(Kind::Value, key)
}

/// Milliseconds, -1 if the cell stays, -2 without a cell.
async fn lives(operator: &mut Operator, key: &str) -> i64 {
    operator.say(&format!("PTTL latchwork:value:{{{key}}}:cell")).await
}

#[tokio::test]
async fn a_cell_lives_for_many_ttls_also_without_memory_and_ends_within_one_of_a_crash() {
    let (server, mut operator, dies) = served(SHORT).await;
    let (reads, a) = (client(&server, LONG).await, cell("a"));
    write(&dies, &a, "here", CellLife::Lease).await;
    let mut watch = reads.watch_cell(&a);
    promptly(watch.changed()).await.unwrap();
    operator.fill_memory().await;
    let quiet = tokio::time::timeout(3 * dies.lease().ttl(), watch.changed()).await;
    assert!(quiet.is_err(), "the watch reported a change, and nothing changed: {quiet:?}");
    assert_eq!((value(&reads, &a).await, dies.lease().state()), (Some(b"here".to_vec()), LeaseState::Live));
    dies.close(Close::Abrupt).await.unwrap();
    let told = tokio::time::timeout(dies.lease().ttl() + Duration::from_secs(4), watch.changed()).await;
    told.expect("the watch did not report the end").unwrap();
    assert_eq!(value(&reads, &a).await, None);
}

#[tokio::test]
async fn close_deletes_only_cells_last_written_by_its_client() {
    const MANY: usize = 600;
    let (server, mut operator, closes) = served(LONG).await;
    let other = client(&server, LONG).await;
    for n in 0..MANY {
        write(&closes, &cell(&n.to_string()), "mine", CellLife::Lease).await;
    }
    write(&other, &cell("0"), "taken over", CellLife::Lease).await;
    write(&other, &cell("1"), "stays", CellLife::Stays).await;
    assert!(lives(&mut operator, "0").await > 0);
    assert_eq!(lives(&mut operator, "1").await, -1);
    let (mut watch, mut beside) = (other.watch_cell(&cell("4")), other.watch_cell(&cell("0")));
    promptly(watch.changed()).await.unwrap();
    promptly(beside.changed()).await.unwrap();
    closes.close(Close::Orderly).await.unwrap();
    promptly(watch.changed()).await.unwrap();
    assert_eq!(
        operator.keys("latchwork:value:*").await,
        ["0", "1"].map(|key| format!("latchwork:value:{{{key}}}:cell"))
    );
    assert_eq!(value(&other, &cell("0")).await.unwrap(), b"taken over");
    let quiet = tokio::time::timeout(Duration::from_millis(200), beside.changed()).await;
    assert!(quiet.is_err(), "the watch reported a change, and nothing changed: {quiet:?}");
}

#[tokio::test]
async fn what_another_client_has_written_is_renewed_no_more() {
    let (server, mut operator, first) = served(SHORT).await;
    let (second, a) = (client(&server, SHORT).await, cell("a"));
    write(&first, &a, "first", CellLife::Lease).await;
    write(&second, &a, "second", CellLife::Lease).await;
    second.close(Close::Abrupt).await.unwrap();
    until(async || lives(&mut operator, "a").await < 0).await;
    assert_eq!(value(&first, &a).await, None);
    // On a slow machine a renewal may be late.
    until(async || first.lease().state() == LeaseState::Live).await;
}

#[tokio::test]
async fn a_write_whose_reply_was_lost_is_renewed_and_removed_as_others_are() {
    let (server, mut operator) = operated().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let writes = connect(&format!("redis://{}?ttl={SHORT}", proxy.addr())).await;
    write(&writes, &cell("other"), "other", CellLife::Lease).await;
    let mut dropped = proxy.drop_reply_to(says("lost"));
    let answer = writes.write_cell(&cell("a"), &lasting(Expected::Any, "lost", CellLife::Lease)).await;
    fails(answer, ErrorKind::OutcomeUnknown, "the reply is lost");
    soon(dropped.fired()).await.unwrap();
    outlive(&writes.lease(), 2.0).await;
    assert_eq!(value(&writes, &cell("a")).await.unwrap(), b"lost");
    writes.close(Close::Orderly).await.unwrap();
    assert_eq!((lives(&mut operator, "a").await, lives(&mut operator, "other").await), (-2, -2));
}

#[tokio::test]
async fn a_cell_that_is_not_renewed_costs_the_lease_as_a_node_does_and_others_live_on() {
    let (server, mut operator) = operated().await;
    operator.allow("app", "+@all").await;
    let writes = connect(&format!("redis://app:word@{}?ttl={SHORT}", server.addr())).await;
    write(&writes, &cell("kept"), "kept", CellLife::Lease).await;
    write(&writes, &cell("taken"), "taken", CellLife::Lease).await;
    let lease = writes.lease();
    operator.tell("ACL SETUSER app resetkeys ~latchwork:*kept* ~latchwork:self*").await;
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    until(async || lives(&mut operator, "taken").await < 0).await;
    assert!(lives(&mut operator, "kept").await > 0);
    assert_eq!(lease.state(), LeaseState::Suspended);
    operator.tell("ACL SETUSER app ~latchwork:*").await;
    assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
    // No renewal succeeds.
    operator.tell("ACL SETUSER app resetkeys").await;
    assert_eq!(soon(lease.until_lost()).await, LostReason::Expired);
    operator.tell("ACL SETUSER app ~latchwork:*").await;
    write(&writes, &cell("next"), "next", CellLife::Lease).await;
    assert_eq!(writes.lease().state(), LeaseState::Live);
    assert_eq!(lives(&mut operator, "kept").await, -2);
}
