//! NODE-DATA, NODE-QUEUES, WATCH-QUEUE, CELL-EPHEMERAL, CELL-LIST, CELL-IDLE: wrong views of other clients.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, CellWrite, CellWritten, KeysWith, VersionedValue};
use latchwork_core::{Address, CellLife, ErrorKind, Expected, Result, TimeToIdle, Version};

use super::cells::Writes;
use super::defect::{Defect, Written};
use super::leaves::{Joins, without_data};
use super::listings::{ListingUses, ListsKeys};
use super::watches::TellsOfOne;
use super::wrapper::BrokenNode;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_join_forgets_its_data", || Arc::new(Joins(without_data)))
        .fails("node_data_is_listed_and_replaced")
        .passes("watch_queue_ends_with_a_reason"),
    broken("a_write_of_data_to_a_removed_node_is_confirmed", || Arc::new(ConfirmsAlways))
        .fails("node_data_reaches_no_other_node")
        .passes("node_data_is_listed_and_replaced"),
    broken("a_write_of_data_is_not_made", || Arc::new(WritesNoData))
        .fails("node_data_of_a_lost_reply_is_unknown")
        .passes("watch_queue_reports_a_death"),
    broken("a_watch_of_a_queue_tells_of_the_first_change_only", || Arc::new(TellsOfOne))
        .fails("watch_queue_reports_each_change")
        .passes("node_data_is_listed_and_replaced"),
    broken("of_many_changes_a_watch_of_a_queue_tells_of_the_first", || Arc::new(TellsOfOne))
        .fails("watch_queue_shows_the_last_of_many_changes")
        .passes("node_data_admits_no_waiter"),
    broken("a_watch_of_a_queue_tells_of_joins_only", || Arc::new(TellsOfOne))
        .fails("watch_queue_reports_a_death")
        .passes("node_data_is_listed_and_replaced"),
    broken("queues_have_one_page", || Arc::new(ListsKeys::in_one_page(KeysWith::Nodes, 0)))
        .fails("node_queues_are_listed_by_the_beginning_of_their_keys")
        .passes("node_data_is_listed_and_replaced"),
    broken("cells_have_one_page", || Arc::new(ListsKeys::in_one_page(KeysWith::Cell, 5)))
        .fails("cell_list_is_by_the_beginning_of_keys")
        .passes("cell_list_shows_the_life_of_each_cell"),
    broken("a_listing_uses_the_cells", || Arc::new(ListingUses))
        .fails("cell_list_shows_the_life_of_each_cell")
        .passes("cell_list_is_by_the_beginning_of_keys"),
    broken("an_ephemeral_cell_stays", || {
        Arc::new(Writes(|write| CellWrite { life: CellLife::Stays, ..write.clone() }))
    })
    .fails("cell_ephemeral_goes_with_a_dead_client")
    .passes("cell_cas_no_version_comes_again"),
    broken("a_cell_that_is_to_stay_goes_with_its_client", || {
        Arc::new(Writes(|write| CellWrite { life: CellLife::Lease, ..write.clone() }))
    })
    .fails("cell_ephemeral_is_decided_by_the_last_write")
    .passes("cell_ephemeral_goes_with_a_dead_client"),
    broken("an_idle_cell_stays", || Arc::new(Writes(|write| idling(write, |_| CellLife::Stays))))
        .fails("cell_idle_expires_without_use")
        .passes("cell_idle_stays_while_it_is_used"),
    broken("an_idle_cell_goes_too_early", || {
        Arc::new(Writes(|write| idling(write, |time| idle(time - Duration::from_millis(100)))))
    })
    .fails("cell_idle_expires_without_use")
    .passes("cell_ephemeral_goes_with_a_dead_client"),
    broken("an_idle_cell_goes_too_late", || Arc::new(Writes(|write| idling(write, |time| idle(time * 3)))))
        .fails("cell_idle_expires_without_use")
        .passes("cell_idle_stays_while_it_is_used"),
    broken("an_idle_cell_goes_with_its_client", || {
        Arc::new(Writes(|write| idling(write, |_| CellLife::Lease)))
    })
    .fails("cell_idle_is_decided_by_the_last_write")
    .passes("cell_idle_stays_while_it_is_used"),
    broken("a_read_is_no_use", || Arc::new(ReadIsNoUse))
        .fails("cell_idle_stays_while_it_is_used")
        .passes("cell_idle_expires_without_use"),
    broken("a_cell_that_is_let_stay_goes_when_nobody_uses_it", || Arc::new(Writes(idle_if_it_stays)))
        .fails("cell_idle_is_decided_by_the_last_write")
        .passes("cell_idle_expires_without_use"),
    broken("an_idle_cell_under_a_hold_goes_with_its_client", || Arc::new(IdlesWithItsHolder))
        .fails("cell_idle_under_a_hold_outlives_it")
        .passes("cell_idle_expires_without_use"),
    broken("who_watches_an_idle_cell_does_not_use_it", || Arc::new(ReadIsNoUse))
        .fails("cell_idle_is_an_option_of_recipes")
        .passes("cell_idle_expires_without_use"),
];

struct ConfirmsAlways;

#[async_trait]
impl Defect for ConfirmsAlways {
    async fn write_data(&self, node: &BrokenNode, data: &Arc<[u8]>) -> Result<()> {
        match node.honest.write_data(data).await {
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
            answer => answer,
        }
    }
}

pub(super) struct WritesNoData;

#[async_trait]
impl Defect for WritesNoData {
    async fn write_data(&self, node: &BrokenNode, _: &Arc<[u8]>) -> Result<()> {
        // The number of requests is the same, but the data do not change.
        node.honest.write_data(&node.join.data).await
    }
}

fn idle(time: Duration) -> CellLife {
    CellLife::Idle(TimeToIdle::new(time).expect("within the bounds"))
}

fn idling(write: &CellWrite, life: fn(Duration) -> CellLife) -> CellWrite {
    match write.life {
        CellLife::Idle(time) => CellWrite { life: life(time.get()), ..write.clone() },
        _ => write.clone(),
    }
}

fn idle_if_it_stays(write: &CellWrite) -> CellWrite {
    let life = if write.life == CellLife::Stays { idle(Duration::from_secs(3)) } else { write.life };
    CellWrite { life, ..write.clone() }
}

/// Binds idle cells that are written under a hold to the client.
struct IdlesWithItsHolder;

#[async_trait]
impl Defect for IdlesWithItsHolder {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Written {
        node.honest.write_cell(cell, &idling(write, |_| CellLife::Lease)).await
    }
}

/// A write that the store refuses does not count as a use.
struct ReadIsNoUse;

#[async_trait]
impl Defect for ReadIsNoUse {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let expected = Expected::Version(Version::new(u64::MAX, u64::MAX));
        match honest.write_cell(cell, &CellWrite { expected, value: None, life: CellLife::Stays }).await? {
            CellWritten::Refused(cell) => Ok(cell),
            other => panic!("no cell has this version: {other:?}"),
        }
    }
}
