//! MULTI-, QUORUM-, RWLOCK- and SEMAPHORE-: what these recipes promise, broken below them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::backend::{Backend, Join, Joined, Leave, VersionedValue};
use latchwork_core::{Address, Limit, Result};

use super::order::{ALL, AdmitsEverybody, LOOK, ReadersOneByOne, ReadersPassWriters, TakesWhatIsThere};
use super::states::{States, lost_never};
use super::waits::gone_never;
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "what_was_acquired_beside_a_refused_lock_is_not_given_back",
        case: "multi_holds_all_or_none",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, KeepsWhatItHolds),
    },
    Control {
        name: "several_locks_are_held_by_several",
        case: "multi_in_any_order_never_deadlocks",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "a_removal_of_one_of_several_locks_is_not_heard",
        case: "multi_is_lost_with_any",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, States(gone_never)),
    },
    Control {
        name: "what_was_acquired_beside_a_refused_lock_is_given_back_late",
        case: "multi_bounds_begin_when_all_are_held",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, LeavesLate),
    },
    Control {
        name: "a_member_of_a_quorum_is_not_given_back",
        case: "quorum_holds_a_majority_or_nothing",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, KeepsWhatItHolds),
    },
    Control {
        name: "a_quorum_does_not_hear_that_its_members_are_lost",
        case: "quorum_is_valid_as_long_as_a_majority",
        beside: "lease_close_gives_everything_back",
        testbed: |name| on_memory(name, States(lost_never)),
    },
    Control {
        name: "a_server_that_has_lost_its_cells_shows_them",
        case: "quorum_leaves_out_a_server_that_forgot",
        beside: "quorum_contenders_never_deadlock",
        testbed: |name| on_memory(name, ShowsWhatIsGone::default()),
    },
    Control {
        name: "a_majority_is_held_by_several",
        case: "quorum_contenders_never_deadlock",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "readers_of_a_lock_come_in_one_by_one",
        case: "rwlock_admits_in_order_and_readers_together",
        beside: "semaphore_never_exceeds_its_limit",
        testbed: |name| on_memory(name, ReadersOneByOne),
    },
    Control {
        name: "a_reader_overtakes_a_waiting_writer",
        case: "rwlock_a_cancelled_writer_lets_readers_in",
        beside: "semaphore_never_exceeds_its_limit",
        testbed: |name| on_memory(name, ReadersPassWriters),
    },
    Control {
        name: "a_writer_is_let_in_beside_others",
        case: "rwlock_writers_are_alone",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "a_weight_is_counted_as_one",
        case: "semaphore_never_exceeds_its_limit",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, TakesWhatIsThere),
    },
    Control {
        name: "a_waiter_for_permits_looks_at_its_predecessor_only",
        case: "semaphore_admits_whoever_leaves",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, OnlyThePredecessor),
    },
    Control {
        name: "whatever_limit_is_stored_is_right",
        case: "semaphore_another_limit_is_a_conflict",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, AnyLimit),
    },
];

/// A holder's leave is answered, and not carried out.
#[derive(Debug)]
struct KeepsWhatItHolds;

#[async_trait]
impl Defect for KeepsWhatItHolds {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.honest.admitted().now_or_never() {
            Some(_) => Ok(Leave::Removed),
            None => node.honest.leave().await,
        }
    }
}

/// A cell that is deleted is shown as it was last.
#[derive(Debug, Default)]
struct ShowsWhatIsGone(Mutex<HashMap<Address, VersionedValue>>);

#[async_trait]
impl Defect for ShowsWhatIsGone {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await?;
        let mut last = self.0.lock().expect("not poisoned");
        match read {
            Some(read) => Ok(Some(last.entry(cell.clone()).insert_entry(read).get().clone())),
            None => Ok(last.get(cell).cloned()),
        }
    }
}

/// A holder's leave is carried out long after it was asked for.
#[derive(Debug)]
struct LeavesLate;

#[async_trait]
impl Defect for LeavesLate {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        node.honest.leave().await
    }
}

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
            Err(error) if error.kind() == latchwork_core::ErrorKind::Conflict => {
                honest.join(&Join { limit: Limit::Stored, ..join.clone() }).await
            }
            answer => answer,
        }
    }
}
