//! MULTI-, QUORUM-, RWLOCK- and SEMAPHORE-.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Join, Joined, VersionedValue};
use latchwork_core::{Address, ErrorKind, Limit, Result};

use super::defect::Defect;
use super::leaves::{Joins, LeavesLate, NeverLeaves, is_admitted};
use super::order::{Admits, OnlyThePredecessor, ReadersOneByOne, ReadersPassWriters, for_one_permit};
use super::states::{States, lost_never};
use super::waits::gone_never;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("what_was_acquired_beside_a_refused_lock_is_not_given_back", || {
        Arc::new(NeverLeaves(is_admitted))
    })
    .fails("multi_holds_all_or_none")
    .passes("lease_close_gives_everything_back"),
    broken("several_locks_are_held_by_several", || Arc::new(Admits(|_| true)))
        .fails("multi_in_any_order_never_deadlocks")
        .passes("mutex_release_is_idempotent"),
    broken("a_removal_of_one_of_several_locks_is_not_heard", || Arc::new(States(gone_never)))
        .fails("multi_is_lost_with_any")
        .passes("lease_close_gives_everything_back"),
    broken("what_was_acquired_beside_a_refused_lock_is_given_back_late", || Arc::new(LeavesLate))
        .fails("multi_bounds_begin_when_all_are_held")
        .passes("lease_close_gives_everything_back"),
    broken("a_member_of_a_quorum_is_not_given_back", || Arc::new(NeverLeaves(is_admitted)))
        .fails("quorum_holds_a_majority_or_nothing")
        .passes("lease_close_gives_everything_back"),
    broken("a_quorum_does_not_hear_that_its_members_are_lost", || Arc::new(States(lost_never)))
        .fails("quorum_is_valid_as_long_as_a_majority")
        .passes("lease_close_gives_everything_back"),
    broken("a_server_that_has_lost_its_cells_shows_them", || Arc::new(ShowsWhatIsGone::default()))
        .fails("quorum_leaves_out_a_server_that_forgot")
        .passes("quorum_contenders_never_deadlock"),
    broken("a_majority_is_held_by_several", || Arc::new(Admits(|_| true)))
        .fails("quorum_contenders_never_deadlock")
        .passes("mutex_release_is_idempotent"),
    broken("readers_of_a_lock_come_in_one_by_one", || Arc::new(ReadersOneByOne))
        .fails("rwlock_admits_in_order_and_readers_together")
        .passes("semaphore_never_exceeds_its_limit"),
    broken("a_reader_overtakes_a_waiting_writer", || Arc::new(ReadersPassWriters))
        .fails("rwlock_a_cancelled_writer_lets_readers_in")
        .passes("semaphore_never_exceeds_its_limit"),
    broken("a_writer_is_let_in_beside_others", || Arc::new(Admits(|_| true)))
        .fails("rwlock_writers_are_alone")
        .passes("mutex_release_is_idempotent"),
    broken("a_weight_is_counted_as_one", || Arc::new(Joins(for_one_permit)))
        .fails("semaphore_never_exceeds_its_limit")
        .passes("rwlock_writers_are_alone"),
    broken("a_waiter_for_permits_looks_at_its_predecessor_only", || Arc::new(OnlyThePredecessor))
        .fails("semaphore_admits_whoever_leaves")
        .passes("rwlock_writers_are_alone"),
    broken("whatever_limit_is_stored_is_right", || Arc::new(AnyLimit))
        .fails("semaphore_another_limit_is_a_conflict")
        .passes("rwlock_writers_are_alone"),
];

#[derive(Default)]
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

/// Does not compare the expected limit after a limit is stored.
struct AnyLimit;

#[async_trait]
impl Defect for AnyLimit {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.join(join).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                honest.join(&Join { limit: Limit::Stored, ..join.clone() }).await
            }
            answer => answer,
        }
    }
}
