//! The effect of many ephemeral cells on a silent server. Each cell has a separate script, and 64 scripts are
//! under way at once.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{backend_of, key_of_cell, lock_at, migrate, operator, settled};
use crate::common::cells::write;
use crate::common::{LONG, SHORT, admitted, ask, close_all, outlive, queue, soon};
use futures_util::future::join_all;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::{Backend, Close};
use latchwork_core::{Address, CellLife, Claim, Kind, LeaseState, LostReason};
use tokio::time::timeout;

/// No master is replaced while a test keeps it silent.
const CALM: Duration = Duration::from_secs(30);
/// Each batch without an answer takes a third of a TTL, so all would take more than three TTLs.
const MANY: usize = 10 * 64;

async fn cells_at(cluster: &ClusteredRedis, server: usize, count: usize, taken: &mut usize) -> Vec<Address> {
    let mut cells = Vec::new();
    while cells.len() < count {
        let key = lock_at(cluster, server, taken).await;
        cells.extend(Kind::CELLS.map(|kind| queue(kind, &key)));
    }
    cells
}

async fn write_all<'a>(client: &Arc<dyn Backend>, cells: impl IntoIterator<Item = &'a Address>) {
    join_all(cells.into_iter().map(|cell| soon(write(client, cell, "here", CellLife::Lease)))).await;
}

async fn gone(client: &Arc<dyn Backend>, cells: &[Address]) -> usize {
    let read = soon(join_all(cells.iter().map(|cell| client.read_cell(cell)))).await;
    read.into_iter().filter(|cell| cell.as_ref().unwrap().is_none()).count()
}

/// A write that opens a lease waits for two clean-ups. Each ends with the first scripts, after a third of a
/// TTL.
#[tokio::test]
async fn lost_cells_on_a_silent_server_do_not_hold_up_what_opens_the_next_lease_on_another() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let mut taken = 0;
    let mut cells = cells_at(&cluster, 0, MANY, &mut taken).await;
    cells.extend(cells_at(&cluster, 2, MANY, &mut taken).await);
    let next = queue(Kind::Value, &lock_at(&cluster, 1, &mut taken).await);
    let writes = backend_of(&cluster, &format!("ttl={SHORT}&request_timeout=1m")).await;
    write_all(&writes, &cells).await;
    cluster.pause(0).await.unwrap();
    let lost = writes.lease();
    lost.clock().jump(lost.ttl());
    assert_eq!(lost.lost(), Some(LostReason::Expired));
    let written = timeout(lost.ttl() * 2, write(&writes, &next, "here", CellLife::Lease)).await;
    written.expect("the write waited for more than the first script to the silent server");
    assert_eq!(writes.lease().lost(), None);
    cluster.resume(0).unwrap();
    soon(writes.close(Close::Orderly)).await.unwrap();
}

/// A round ends when all servers are done, so it gives up a silent server with the first scripts.
#[tokio::test]
async fn many_cells_on_a_silent_server_cost_no_node_and_no_cell_on_another() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let mut taken = 0;
    let cells = cells_at(&cluster, 0, MANY, &mut taken).await;
    let beside = cells_at(&cluster, 1, 1, &mut taken).await;
    let lock = lock_at(&cluster, 1, &mut taken).await;
    let writes = backend_of(&cluster, &format!("ttl={SHORT}")).await;
    let reads = backend_of(&cluster, &format!("ttl={LONG}")).await;
    write_all(&writes, cells.iter().chain(&beside)).await;
    let node = soon(admitted(&writes, &ask(&queue(Kind::Mutex, &lock), Claim::Exclusive))).await;
    cluster.pause(0).await.unwrap();
    outlive(&writes.lease(), 2.0).await;
    assert_eq!(node.state().lost(), None);
    assert_eq!(writes.lease().state(), LeaseState::Suspended, "the silent server has answered");
    assert_eq!(gone(&reads, &beside).await, 0, "of {} cells on a server that answers", beside.len());
    cluster.resume(0).unwrap();
    settled(&writes).await;
    close_all([writes, reads]).await;
}

/// More cells than requests under way at once are being moved to a silent server. Others wait at most for the
/// second round, two thirds of a TTL.
#[tokio::test]
async fn cells_stuck_in_a_slot_move_expire_no_others() {
    const STUCK: usize = 100;
    const OTHERS: usize = 400;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let mut taken = 0;
    let stuck = cells_at(&cluster, 0, STUCK, &mut taken).await;
    let others = cells_at(&cluster, 0, OTHERS, &mut taken).await;
    // A third of the TTL is left for a busy machine.
    let writes = backend_of(&cluster, "ttl=6s").await;
    let reads = backend_of(&cluster, &format!("ttl={LONG}")).await;
    write_all(&writes, stuck.iter().chain(&others)).await;
    let mut old = operator(&cluster, 0).await;
    let new = &cluster.servers()[1];
    for cells in stuck.chunks(Kind::CELLS.len()) {
        let slot = cluster.slot(&key_of_cell(&cells[0])).await.unwrap();
        cluster.begin_move(slot, 0, 1).await.unwrap();
        for cell in cells {
            migrate(&mut old, new, cell).await;
        }
    }
    cluster.pause(1).await.unwrap();
    outlive(&writes.lease(), 2.0).await;
    assert_eq!(writes.lease().state(), LeaseState::Suspended, "no cell is stuck");
    assert_eq!(gone(&reads, &others).await, 0, "of {OTHERS} cells on a server that answers");
    cluster.resume(1).unwrap();
    settled(&writes).await;
    close_all([writes, reads]).await;
}
