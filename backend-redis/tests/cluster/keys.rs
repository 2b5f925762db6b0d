use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::Backend;
use latchwork_core::{Address, Coordinator, LeaseState};

use crate::common::coordinators::user;
use crate::common::{Operator, connect, soon};

/// No master is replaced automatically, even on a busy machine.
pub(super) const CALM: Duration = Duration::from_secs(10);
/// A replica then takes over.
pub(super) const PROMPT: Duration = Duration::from_millis(1500);

pub(super) async fn of(cluster: &ClusteredRedis, options: &str) -> Coordinator {
    user(&format!("{}?{options}", cluster.url())).await
}

pub(super) async fn backend_of(cluster: &ClusteredRedis, options: &str) -> Arc<dyn Backend> {
    connect(&format!("{}?{options}", cluster.url())).await
}

pub(super) async fn operator(cluster: &ClusteredRedis, server: usize) -> Operator {
    Operator::at(&cluster.servers()[server]).await
}

pub(super) fn key_of(lock: &str) -> String {
    format!("latchwork:mutex:{{{lock}}}:one")
}

pub(super) async fn lock_at(cluster: &ClusteredRedis, server: usize, taken: &mut usize) -> String {
    loop {
        *taken += 1;
        let lock = format!("lock-{taken}");
        if cluster.master_of(&key_of(&lock)).await.unwrap() == server {
            return lock;
        }
    }
}

pub(super) fn key_of_cell(cell: &Address) -> String {
    format!("latchwork:{}:{{{}}}:cell", cell.kind().as_str(), cell.coded())
}

/// The move of the slot does not finish.
pub(super) async fn migrate(from: &mut Operator, to: &str, cell: &Address) {
    let migrate = format!("MIGRATE {} {} 0 5000", to.replace(':', " "), key_of_cell(cell));
    assert_eq!(from.say::<String>(&migrate).await, "OK", "{cell:?}");
}

/// A round may be late on a busy machine.
pub(super) async fn settled(client: &Arc<dyn Backend>) {
    let lease = client.lease();
    soon(async {
        while lease.state() != LeaseState::Live {
            lease.changed(lease.state()).await;
        }
    })
    .await;
}
