//! Locks and cells of a Redis Cluster, by the server that has them.

use std::sync::Arc;

use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::{Backend, CellWrite, CellWritten};
use latchwork_core::{Address, CellLife, Expected, LeaseState};

use crate::common::{Operator, soon};

/// The key on the server of a lock.
pub(super) fn key_of(lock: &str) -> String {
    format!("latchwork:mutex:{{{lock}}}:one")
}

/// A lock whose keys this server has, other than those that are `taken`.
pub(super) async fn lock_at(cluster: &ClusteredRedis, server: usize, taken: &mut usize) -> String {
    loop {
        *taken += 1;
        let lock = format!("lock-{taken}");
        if cluster.master_of(&key_of(&lock)).await.unwrap() == server {
            return lock;
        }
    }
}

/// The key on the server of a cell.
pub(super) fn key_of_cell(cell: &Address) -> String {
    format!("latchwork:{}:{{{}}}:cell", cell.kind().as_str(), cell.coded())
}

/// Writes a cell that lives as long as the client's lease.
pub(super) async fn write_leased(client: &Arc<dyn Backend>, cell: &Address) {
    let here = CellWrite { expected: Expected::Any, value: Some(b"here"[..].into()), life: CellLife::Lease };
    let answer = soon(client.write_cell(cell, &here)).await.unwrap();
    assert!(matches!(answer, CellWritten::Written(_)), "{cell:?}: {answer:?}");
}

/// Moves the key of a cell from the server of this operator to another one, alone: its slot stands open.
pub(super) async fn migrate(from: &mut Operator, to: &str, cell: &Address) {
    let migrate = format!("MIGRATE {} {} 0 5000", to.replace(':', " "), key_of_cell(cell));
    assert_eq!(from.say::<String>(&migrate).await, "OK", "{cell:?}");
}

/// Waits until every cell of a client was renewed, or found gone: a round may be late on a busy machine.
pub(super) async fn settled(client: &Arc<dyn Backend>) {
    let lease = client.lease();
    soon(async {
        while lease.state() != LeaseState::Live {
            lease.changed(lease.state()).await;
        }
    })
    .await;
}
