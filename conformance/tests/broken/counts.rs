//! CELL-COUNT, and the recipes over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use latchwork_core::backend::decide::count::Operation;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{Backend, CellWrite};
use latchwork_core::{Address, CellLife, Expected, Result};

use super::defect::{CountChange, Defect};
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_repeated_change_of_a_count_is_made_again", || Arc::new(MakesAgain::default()))
        .fails("cell_count_repeated_request_is_applied_once")
        .passes("cell_count_of_another_thing_is_a_conflict"),
    broken("an_add_is_made_for_each_of_its_requests", || Arc::new(MakesAgain::default()))
        .fails("counter_add_is_applied_once")
        .passes("counter_add_get_set_and_delete_change_the_value"),
    broken("a_count_down_is_made_for_each_of_its_requests", || Arc::new(MakesAgain::default()))
        .fails("latch_open_survives_lost_replies_and_cuts")
        .passes("latch_open_once_it_was_counted_down"),
    // The server leaves no record of the refusal.
    broken("a_refused_change_of_a_count_may_be_made_late", || {
        Arc::new(Asks(|request| CountRequest { in_doubt: false, ..request }))
    })
    .fails("cell_count_refused_is_not_made_late")
    .passes("cell_count_repeated_request_is_applied_once"),
    broken("a_missing_record_proves_always_that_nothing_was_made", || {
        Arc::new(Asks(|request| CountRequest { since: Some(u64::MAX), ..request }))
    })
    .fails("cell_count_forgotten_is_not_applied_again")
    .passes("cell_count_repeated_request_is_applied_once"),
    broken("a_count_keeps_one_record", || Arc::new(KeepsOne))
        .fails("cell_count_agrees_with_compare_and_set")
        .passes("cell_count_of_another_thing_is_a_conflict"),
    broken("a_change_makes_a_count_of_whatever_stands_there", || Arc::new(Overwrites))
        .fails("cell_count_of_another_thing_is_a_conflict")
        .passes("cell_count_repeated_request_is_applied_once"),
    broken("a_backend_asks_its_server_before_it_declines_to_change_a_count", || Arc::new(AsksAndDeclines))
        .fails("cell_count_repeated_request_is_applied_once")
        .passes("counter_add_get_set_and_delete_change_the_value"),
];

struct Asks(fn(CountRequest) -> CountRequest);

#[async_trait]
impl Defect for Asks {
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        CountChange { request: &(self.0)(*change.request), ..change }.make(honest).await
    }
}

#[derive(Default)]
struct MakesAgain(AtomicU64);

#[async_trait]
impl Defect for MakesAgain {
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        let number = self.0.fetch_add(2, Ordering::Relaxed);
        let operation = Operation { number, ..change.request.operation };
        let request = CountRequest { operation, ..*change.request };
        CountChange { request: &request, ..change }.make(honest).await
    }
}

async fn rewrite(honest: &dyn Backend, cell: &Address, text: impl FnOnce(&str) -> String) -> Result<()> {
    let now = honest.read_cell(cell).await?;
    let now = now.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text")).unwrap_or_default();
    let value = Some(text(&now).into_bytes().into());
    honest.write_cell(cell, &CellWrite { expected: Expected::Any, value, life: CellLife::Stays }).await?;
    Ok(())
}

struct KeepsOne;

#[async_trait]
impl Defect for KeepsOne {
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        let decided = change.make(honest).await?;
        rewrite(honest, change.cell, |text| text.split(' ').take(3).collect::<Vec<_>>().join(" ")).await?;
        Ok(decided)
    }
}

struct Overwrites;

#[async_trait]
impl Defect for Overwrites {
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        if change.make(honest).await.is_err() {
            let of = change.request.initial.map(|initial| format!(" of {initial}")).unwrap_or_default();
            rewrite(honest, change.cell, |_| format!("5 0{of}")).await?;
        }
        change.make(honest).await
    }
}

struct AsksAndDeclines;

#[async_trait]
impl Defect for AsksAndDeclines {
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        honest.read_cell(change.cell).await?;
        Ok(None)
    }
}
