//! Clients and operators of a Redis Cluster, and its locks and cells by their server.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::Backend;
use latchwork_core::{Address, Coordinator, LeaseState};

use crate::common::coordinators::user;
use crate::common::{Operator, connect, soon};

/// No master is replaced automatically, even on a busy machine.
pub(super) const CALM: Duration = Duration::from_secs(10);
/// After this time of silence a replica takes over.
pub(super) const PROMPT: Duration = Duration::from_millis(1500);

/// A user of this cluster.
pub(super) async fn of(cluster: &ClusteredRedis, options: &str) -> Coordinator {
    user(&format!("{}?{options}", cluster.url())).await
}

/// A backend client of this cluster.
pub(super) async fn backend_of(cluster: &ClusteredRedis, options: &str) -> Arc<dyn Backend> {
    connect(&format!("{}?{options}", cluster.url())).await
}

/// An operator of this server.
pub(super) async fn operator(cluster: &ClusteredRedis, server: usize) -> Operator {
    Operator::at(&cluster.servers()[server]).await
}

/// The key on the server of a lock.
pub(super) fn key_of(lock: &str) -> String {
    format!("latchwork:mutex:{{{lock}}}:one")
}

/// A lock with its keys on this server, and not one of the `taken` ones.
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

/// Moves only the key of a cell from the server of this operator to another one. The move of its
/// slot does not finish.
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
