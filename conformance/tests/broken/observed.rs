//! NODE-DATA, NODE-QUEUES, WATCH-QUEUE, CELL-EPHEMERAL: what others see, broken.

use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::contracts::{
    Backend, CellLife, CellWrite, CellWritten, ChangeWatch, Join, Joined, QueuePage,
};
use latchwork_core::{Address, ErrorKind, QueuePrefix, Result};

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
            Err(error) if matches!(error.kind(), ErrorKind::Lost { .. }) => Ok(()),
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
    async fn queues(
        &self,
        honest: &dyn Backend,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<QueuePage> {
        let page = honest.queues(of, after, most).await?;
        Ok(QueuePage { next: None, ..page })
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
