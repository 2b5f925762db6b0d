//! NODE-DATA, NODE-QUEUES, WATCH-QUEUE, CELL-EPHEMERAL, CELL-LIST, CELL-IDLE: what others see, broken.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, ChangeWatch, Join, Joined, KeysWith, VersionedValue,
};
use latchwork_core::{
    Address, CellLife, ErrorKind, Expected, ListedKey, Page, QueuePrefix, Result, TimeToIdle, Version,
};

use super::cells::Once;
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_join_forgets_its_data",
        case: "node_data_is_listed_and_replaced",
        beside: "watch_queue_ends_with_a_reason",
        testbed: |name| on_memory(name, ForgetsData),
    },
    Control {
        name: "a_write_of_data_to_a_removed_node_is_confirmed",
        case: "node_data_reaches_no_other_node",
        beside: "node_data_is_listed_and_replaced",
        testbed: |name| on_memory(name, ConfirmsAlways),
    },
    Control {
        name: "a_write_of_data_is_not_made",
        case: "node_data_of_a_lost_reply_is_unknown",
        beside: "watch_queue_tells_of_a_death",
        testbed: |name| on_memory(name, WritesNoData),
    },
    Control {
        name: "a_watch_of_a_queue_tells_of_the_first_change_only",
        case: "watch_queue_tells_of_each_change",
        beside: "node_data_is_listed_and_replaced",
        testbed: |name| on_memory(name, TellsOfOne),
    },
    Control {
        name: "of_many_changes_a_watch_of_a_queue_tells_of_the_first",
        case: "watch_queue_shows_the_last_of_many_changes",
        beside: "node_data_admits_no_waiter",
        testbed: |name| on_memory(name, TellsOfOne),
    },
    Control {
        name: "a_watch_of_a_queue_tells_of_joins_only",
        case: "watch_queue_tells_of_a_death",
        beside: "node_data_is_listed_and_replaced",
        testbed: |name| on_memory(name, TellsOfOne),
    },
    Control {
        name: "queues_have_one_page",
        case: "node_queues_are_listed_by_the_beginning_of_their_keys",
        beside: "node_data_is_listed_and_replaced",
        testbed: |name| on_memory(name, OnePage),
    },
    Control {
        name: "cells_have_one_page",
        case: "cell_list_is_by_the_beginning_of_keys",
        beside: "cell_list_tells_how_long_each_stays",
        testbed: |name| on_memory(name, OnePageOfCells),
    },
    Control {
        name: "a_listing_uses_the_cells",
        case: "cell_list_tells_how_long_each_stays",
        beside: "cell_list_is_by_the_beginning_of_keys",
        testbed: |name| on_memory(name, ListingUses),
    },
    Control {
        name: "an_ephemeral_cell_stays",
        case: "cell_ephemeral_goes_with_a_dead_client",
        beside: "cell_cas_no_version_comes_again",
        testbed: |name| on_memory(name, Lasting(CellLife::Stays)),
    },
    Control {
        name: "a_cell_that_is_to_stay_goes_with_its_client",
        case: "cell_ephemeral_is_decided_by_the_last_write",
        beside: "cell_ephemeral_goes_with_a_dead_client",
        testbed: |name| on_memory(name, Lasting(CellLife::Lease)),
    },
    Control {
        name: "an_idle_cell_stays",
        case: "cell_idle_goes_when_nobody_uses_it",
        beside: "cell_idle_stays_while_it_is_used",
        testbed: |name| on_memory(name, Idling(|_| CellLife::Stays)),
    },
    Control {
        name: "an_idle_cell_goes_too_early",
        case: "cell_idle_goes_when_nobody_uses_it",
        beside: "cell_ephemeral_goes_with_a_dead_client",
        testbed: |name| on_memory(name, Idling(|time| idle(time - Duration::from_millis(100)))),
    },
    Control {
        name: "an_idle_cell_goes_too_late",
        case: "cell_idle_goes_when_nobody_uses_it",
        beside: "cell_idle_stays_while_it_is_used",
        testbed: |name| on_memory(name, Idling(|time| idle(time * 3))),
    },
    Control {
        name: "an_idle_cell_goes_with_its_client",
        case: "cell_idle_is_decided_by_the_last_write",
        beside: "cell_idle_stays_while_it_is_used",
        testbed: |name| on_memory(name, Idling(|_| CellLife::Lease)),
    },
    Control {
        name: "a_read_is_no_use",
        case: "cell_idle_stays_while_it_is_used",
        beside: "cell_idle_goes_when_nobody_uses_it",
        testbed: |name| on_memory(name, ReadIsNoUse),
    },
    Control {
        name: "a_cell_that_is_let_stay_goes_when_nobody_uses_it",
        case: "cell_idle_is_decided_by_the_last_write",
        beside: "cell_idle_goes_when_nobody_uses_it",
        testbed: |name| on_memory(name, StaysIdle),
    },
    Control {
        name: "an_idle_cell_under_a_hold_goes_with_its_client",
        case: "cell_idle_under_a_hold_outlives_it",
        beside: "cell_idle_goes_when_nobody_uses_it",
        testbed: |name| on_memory(name, IdlesWithItsHolder),
    },
    Control {
        name: "who_watches_an_idle_cell_does_not_use_it",
        case: "cell_idle_is_an_option_of_recipes",
        beside: "cell_idle_goes_when_nobody_uses_it",
        testbed: |name| on_memory(name, ReadIsNoUse),
    },
];

#[derive(Debug)]
struct ForgetsData;

#[async_trait]
impl Defect for ForgetsData {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.join(&Join { data: Arc::default(), ..join.clone() }).await
    }
}

#[derive(Debug)]
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

#[derive(Debug)]
pub(super) struct WritesNoData;

#[async_trait]
impl Defect for WritesNoData {
    async fn write_data(&self, node: &BrokenNode, _: &Arc<[u8]>) -> Result<()> {
        // As many requests, with the data that it has.
        node.honest.write_data(&node.join.data).await
    }
}

#[derive(Debug)]
pub(super) struct TellsOfOne;

impl Defect for TellsOfOne {
    fn watch_queue(&self, honest: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
        Box::new(Once { honest: honest.watch_queue(queue), told: 0 })
    }
}

#[derive(Debug)]
struct OnePage;

#[async_trait]
impl Defect for OnePage {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let page = honest.list_keys(with, of, after, most).await?;
        Ok(if with == KeysWith::Nodes { Page::new(page.items, None) } else { page })
    }
}

/// A page of cells is the last, if it is full.
#[derive(Debug)]
struct OnePageOfCells;

#[async_trait]
impl Defect for OnePageOfCells {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        if with != KeysWith::Cell {
            return honest.list_keys(with, of, after, most).await;
        }
        // All cells of the other case are in one page then.
        let page = honest.list_keys(with, of, after, most.max(5)).await?;
        Ok(Page::new(page.items, None))
    }
}

/// A listing reads each cell.
#[derive(Debug)]
struct ListingUses;

#[async_trait]
impl Defect for ListingUses {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let page = honest.list_keys(with, of, after, most).await?;
        for listed in page.items.iter().filter(|_| with == KeysWith::Cell) {
            honest.read_cell(&listed.address).await?;
        }
        Ok(page)
    }
}

/// Every cell has this life.
#[derive(Debug)]
struct Lasting(CellLife);

#[async_trait]
impl Defect for Lasting {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        honest.write_cell(cell, &CellWrite { life: self.0, ..write.clone() }).await
    }
}

fn idle(time: Duration) -> CellLife {
    CellLife::Idle(TimeToIdle::new(time).expect("within the bounds"))
}

/// Idle cells have this life, made of their time.
#[derive(Debug)]
struct Idling(fn(Duration) -> CellLife);

impl Idling {
    fn changed(&self, write: &CellWrite) -> CellWrite {
        let life = match write.life {
            CellLife::Idle(time) => (self.0)(time.get()),
            life => life,
        };
        CellWrite { life, ..write.clone() }
    }
}

#[async_trait]
impl Defect for Idling {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        honest.write_cell(cell, &self.changed(write)).await
    }
}

/// Idle cells that are written under a hold go with its client.
#[derive(Debug)]
struct IdlesWithItsHolder;

#[async_trait]
impl Defect for IdlesWithItsHolder {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        node.honest.write_cell(cell, &Idling(|_| CellLife::Lease).changed(write)).await
    }
}

/// Cells that are let stay are idle ones.
#[derive(Debug)]
struct StaysIdle;

#[async_trait]
impl Defect for StaysIdle {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let life = match write.life {
            CellLife::Stays => idle(Duration::from_secs(3)),
            life => life,
        };
        honest.write_cell(cell, &CellWrite { life, ..write.clone() }).await
    }
}

/// Cells are read by a write that the store refuses, which is no use there.
#[derive(Debug)]
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
