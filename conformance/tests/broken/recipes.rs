//! RWLOCK- and SEMAPHORE-: what these recipes promise, broken below them.

use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::Result;
use latchwork_core::contracts::{AskedLimit, Backend, Join, Joined};

use super::order::{ALL, AdmitsEverybody, LOOK, ReadersOneByOne, ReadersPassWriters, TakesWhatIsThere};
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "readers_of_a_lock_come_in_one_by_one",
        case: "rwlock_admits_in_order_and_readers_together",
        beside: "semaphore_never_exceeds_its_limit",
        bed: |name| on_memory(name, ReadersOneByOne),
    },
    Control {
        name: "a_reader_overtakes_a_waiting_writer",
        case: "rwlock_a_cancelled_writer_lets_readers_in",
        beside: "semaphore_never_exceeds_its_limit",
        bed: |name| on_memory(name, ReadersPassWriters),
    },
    Control {
        name: "a_writer_is_let_in_beside_others",
        case: "rwlock_writers_are_alone",
        beside: "mutex_release_is_idempotent",
        bed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "a_weight_is_counted_as_one",
        case: "semaphore_never_exceeds_its_limit",
        beside: "rwlock_writers_are_alone",
        bed: |name| on_memory(name, TakesWhatIsThere),
    },
    Control {
        name: "a_waiter_for_permits_looks_at_its_predecessor_only",
        case: "semaphore_admits_whoever_leaves",
        beside: "rwlock_writers_are_alone",
        bed: |name| on_memory(name, OnlyThePredecessor),
    },
    Control {
        name: "whatever_limit_is_stored_is_right",
        case: "semaphore_another_limit_is_a_conflict",
        beside: "rwlock_writers_are_alone",
        bed: |name| on_memory(name, AnyLimit),
    },
];

/// The departure of the node before it is all that a waiter wakes for.
#[derive(Debug)]
struct OnlyThePredecessor;

#[async_trait]
impl Defect for OnlyThePredecessor {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let own = node.honest.state().sequence();
        let before = node.backend.list(&node.join.queue, ALL).await?;
        let before = before.iter().map(|entry| entry.sequence).rfind(|sequence| *sequence < own);
        while node
            .backend
            .list(&node.join.queue, ALL)
            .await?
            .iter()
            .any(|entry| Some(entry.sequence) == before)
        {
            tokio::time::sleep(LOOK).await;
        }
        node.honest.admitted().await
    }
}

/// The limit that the client expects is not compared, once one is stored.
#[derive(Debug)]
struct AnyLimit;

#[async_trait]
impl Defect for AnyLimit {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.join(join).await {
            Err(error) if error.kind() == &latchwork_core::ErrorKind::Conflict => {
                honest.join(&Join { limit: AskedLimit::Stored, ..join.clone() }).await
            }
            answer => answer,
        }
    }
}
