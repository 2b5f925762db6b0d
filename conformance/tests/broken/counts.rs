//! CELL-COUNT, and the recipes over it: counts that a server changes wrongly.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use latchwork_core::backend::decide::count::Operation;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{Backend, CellWrite};
use latchwork_core::{Address, CellLife, Expected, Result, TimeToIdle};

use super::wrapper::Defect;
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_repeated_change_of_a_count_is_made_again",
        case: "cell_count_repeated_request_is_applied_once",
        beside: "cell_count_of_another_thing_is_a_conflict",
        testbed: |name| on_memory(name, MakesAgain::default()),
    },
    Control {
        name: "an_add_is_made_for_each_of_its_requests",
        case: "counter_add_is_applied_once",
        beside: "counter_add_changes_what_is_there",
        testbed: |name| on_memory(name, MakesAgain::default()),
    },
    Control {
        name: "a_count_down_is_made_for_each_of_its_requests",
        case: "latch_open_beside_lost_replies_and_cuts",
        beside: "latch_open_once_it_was_counted_down",
        testbed: |name| on_memory(name, MakesAgain::default()),
    },
    Control {
        name: "a_refused_change_of_a_count_may_be_made_late",
        case: "cell_count_refused_is_not_made_late",
        beside: "cell_count_repeated_request_is_applied_once",
        testbed: |name| on_memory(name, RefusesForNow),
    },
    Control {
        name: "a_missing_record_proves_always_that_nothing_was_made",
        case: "cell_count_forgotten_is_not_applied_again",
        beside: "cell_count_repeated_request_is_applied_once",
        testbed: |name| on_memory(name, TrustsMissingRecords),
    },
    Control {
        name: "a_count_keeps_one_record",
        case: "cell_count_agrees_with_compare_and_set",
        beside: "cell_count_of_another_thing_is_a_conflict",
        testbed: |name| on_memory(name, KeepsOne),
    },
    Control {
        name: "a_change_makes_a_count_of_whatever_stands_there",
        case: "cell_count_of_another_thing_is_a_conflict",
        beside: "cell_count_repeated_request_is_applied_once",
        testbed: |name| on_memory(name, Overwrites),
    },
    Control {
        name: "a_backend_asks_its_server_before_it_declines_to_change_a_count",
        case: "cell_count_repeated_request_is_applied_once",
        beside: "counter_add_changes_what_is_there",
        testbed: |name| on_memory(name, AsksAndDeclines),
    },
];

/// Takes each request for an operation of its own.
#[derive(Debug, Default)]
struct MakesAgain(AtomicU64);

#[async_trait]
impl Defect for MakesAgain {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let number = self.0.fetch_add(2, Ordering::Relaxed);
        let operation = Operation { number, ..request.operation };
        honest.change_count(cell, &CountRequest { operation, ..*request }, idle).await
    }
}

/// Leaves no record of a refusal.
#[derive(Debug)]
struct RefusesForNow;

#[async_trait]
impl Defect for RefusesForNow {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        honest.change_count(cell, &CountRequest { in_doubt: false, ..*request }, idle).await
    }
}

/// Does not ask how many others have written since.
#[derive(Debug)]
struct TrustsMissingRecords;

#[async_trait]
impl Defect for TrustsMissingRecords {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        honest.change_count(cell, &CountRequest { since: Some(u64::MAX), ..*request }, idle).await
    }
}

/// Writes whatever it likes of a count, at any time.
async fn rewrite(
    honest: &dyn Backend,
    cell: &Address,
    text: impl FnOnce(&str) -> Option<String>,
) -> Result<()> {
    let now = honest.read_cell(cell).await?;
    let now = now.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text")).unwrap_or_default();
    if let Some(text) = text(&now) {
        let value = Some(text.into_bytes().into());
        honest.write_cell(cell, &CellWrite { expected: Expected::Any, value, life: CellLife::Stays }).await?;
    }
    Ok(())
}

/// Drops the records of the other writers.
#[derive(Debug)]
struct KeepsOne;

#[async_trait]
impl Defect for KeepsOne {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let decided = honest.change_count(cell, request, idle).await?;
        rewrite(honest, cell, |text| Some(text.split(' ').take(3).collect::<Vec<_>>().join(" "))).await?;
        Ok(decided)
    }
}

/// Begins with nothing where no count of this kind is.
#[derive(Debug)]
struct Overwrites;

#[async_trait]
impl Defect for Overwrites {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        if honest.change_count(cell, request, idle).await.is_err() {
            let of = request.initial.map(|initial| format!(" of {initial}")).unwrap_or_default();
            rewrite(honest, cell, |_| Some(format!("5 0{of}"))).await?;
        }
        honest.change_count(cell, request, idle).await
    }
}

/// Sends a request, and says then that its server cannot change a count.
#[derive(Debug)]
struct AsksAndDeclines;

#[async_trait]
impl Defect for AsksAndDeclines {
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        _request: &CountRequest,
        _idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        honest.read_cell(cell).await?;
        Ok(None)
    }
}
