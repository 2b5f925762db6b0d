//! CELL- and WATCH-, and the recipes over them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::Decided;
use latchwork_core::backend::{Backend, CellWrite, CellWritten, Close, VersionedValue};
use latchwork_core::{Address, CellLife, Error, ErrorKind, Expected, Result, Version};

use super::defect::{CountChange, Defect, Written};
use super::foreign::ForgetsWatches;
use super::listings::{EmptyPages, Lists, each_as_two};
use super::watches::{TellsOnce, WatchesOn};
use super::wrapper::BrokenNode;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_write_is_made_whatever_it_expects", || Arc::new(Writes(over_any)))
        .fails("cell_cas_writes_only_if_the_condition_holds")
        .passes("watch_end_reports_its_reason"),
    broken("a_deletion_is_made_whatever_it_expects", || Arc::new(Writes(deleting_any)))
        .fails("cell_cas_decides_by_each_condition")
        .passes("cell_cas_writes_only_if_the_condition_holds"),
    broken("one_version_is_written_over_by_two", || Arc::new(ComparesByItself))
        .fails("cell_cas_each_version_is_used_up_once")
        .passes("cell_cas_decides_by_each_condition"),
    broken("the_versions_of_a_cell_made_anew_begin_again", || Arc::new(BeginsAgain::default()))
        .fails("cell_cas_no_version_comes_again")
        .passes("cell_held_by_another_key_is_written_or_refused"),
    broken("the_client_compares_and_then_writes", || Arc::new(ComparesByItself))
        .fails("cell_cas_of_many_at_once_is_made_by_one")
        .passes("cell_stay_outlives_its_client"),
    broken("a_write_under_a_hold_is_made_without_it", || Arc::new(Unheld))
        .fails("cell_held_write_succeeds_only_during_the_hold")
        .passes("cell_cas_writes_only_if_the_condition_holds"),
    broken("the_client_looks_at_the_hold_and_then_writes", || Arc::new(LooksByItself))
        .fails("cell_held_late_write_is_not_made_in_the_next_hold")
        .passes("cell_cas_decides_by_each_condition"),
    broken("the_client_alone_knows_whether_it_holds", || Arc::new(Unheld))
        .fails("cell_held_is_decided_by_the_server")
        .passes("cell_cas_decides_by_each_condition"),
    broken("what_is_promised_of_holds_of_other_keys_is_refused", || Arc::new(OneKeyOnly))
        .fails("cell_held_by_another_key_is_written_or_refused")
        .passes("cell_held_write_succeeds_only_during_the_hold"),
    broken("a_close_takes_the_cells_along", || Arc::new(TakesAlong::default()))
        .fails("cell_stay_outlives_its_client")
        .passes("cell_cas_no_version_comes_again"),
    broken("a_write_whose_reply_is_lost_is_sent_again", || Arc::new(SendsAgain))
        .fails("cell_unknown_write_is_reported_and_made_once")
        .passes("watch_order_shows_the_latest_in_the_end"),
    broken("a_write_whose_outcome_is_unknown_is_told_as_failed", || Arc::new(TellsFailure))
        .fails("cell_unknown_write_is_reported_and_made_once")
        .passes("cell_held_write_succeeds_only_during_the_hold"),
    broken("a_write_is_delivered_late_whatever_it_expected", || Arc::new(Writes(late_over_any)))
        .fails("cell_unknown_late_write_meets_another_version")
        .passes("cell_held_write_succeeds_only_during_the_hold"),
    broken("a_write_that_was_not_sent_is_told_as_unknown", || Arc::new(NeverSure))
        .fails("cell_unknown_only_for_requests_that_were_sent")
        .passes("cell_unknown_write_is_reported_and_made_once"),
    broken("a_watch_tells_of_the_first_change_only", || Arc::new(TellsOnce))
        .fails("watch_order_shows_the_latest_in_the_end")
        .passes("cell_cas_no_version_comes_again"),
    broken("a_watch_tells_of_no_more_than_one_change", || Arc::new(TellsOnce))
        .fails("watch_order_reports_each_change")
        .passes("cell_cas_decides_by_each_condition"),
    broken("of_many_writes_a_watch_tells_of_the_first", || Arc::new(TellsOnce))
        .fails("watch_order_shows_the_last_of_many_writes")
        .passes("watch_end_of_a_client_ends_all_its_watches"),
    broken("behind_a_gap_a_watch_is_silent", || Arc::new(TellsOnce))
        .fails("watch_order_goes_on_after_each_gap")
        .passes("cell_cas_decides_by_each_condition"),
    broken("a_compaction_ends_a_watch_in_silence", || Arc::new(ForgetsWatches::default()))
        .fails("watch_order_heals_a_compaction")
        .passes("watch_order_heals_a_gap"),
    broken("a_watch_of_a_closed_client_waits_on", || Arc::new(WatchesOn))
        .fails("watch_end_reports_its_reason")
        .passes("watch_order_shows_the_latest_in_the_end"),
    broken("some_watches_of_a_closed_client_wait_on", || Arc::new(WatchesOn))
        .fails("watch_end_of_a_client_ends_all_its_watches")
        .passes("watch_order_reports_each_change"),
    broken("one_counts_as_two_at_a_barrier", || Arc::new(Lists(each_as_two)))
        .fails("barrier_pass_together_round_by_round")
        .passes("watch_order_shows_the_latest_in_the_end"),
    broken("who_is_inside_a_barrier_is_not_seen", || {
        Arc::new(EmptyPages(|page| (page.after, page.most) == (0, 1)))
    })
    .fails("barrier_leave_together_and_enter_again")
    .passes("watch_order_shows_the_latest_in_the_end"),
    broken("two_blocks_of_ids_overlap", || Arc::new(ComparesByItself))
        .fails("ids_unique_across_clients_and_faults")
        .passes("cell_held_write_succeeds_only_during_the_hold"),
    broken("a_latch_counts_a_lost_reply_twice", || Arc::new(TellsFailure))
        .fails("latch_open_survives_lost_replies_and_cuts")
        .passes("watch_order_shows_the_latest_in_the_end"),
];

pub(super) struct Writes(pub(super) fn(&CellWrite) -> CellWrite);

#[async_trait]
impl Defect for Writes {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        honest.write_cell(cell, &(self.0)(write)).await
    }
}

fn over_any(write: &CellWrite) -> CellWrite {
    CellWrite { expected: Expected::Any, value: write.value.clone(), life: CellLife::Stays }
}

fn deleting_any(write: &CellWrite) -> CellWrite {
    if write.value.is_none() { over_any(write) } else { write.clone() }
}

/// Compares at the send of a write, not at its arrival.
fn late_over_any(write: &CellWrite) -> CellWrite {
    if write.value.as_deref() == Some(b"late") { over_any(write) } else { write.clone() }
}

/// As ZooKeeper's data versions do.
#[derive(Default)]
struct BeginsAgain(Mutex<HashMap<(Address, Version), Version>>);

impl BeginsAgain {
    /// The number since the cell was made.
    fn shown(&self, cell: &Address, honest: Version, before: Option<Version>) -> Version {
        let mut shown = self.0.lock().expect("no panic");
        let before = before.and_then(|before| shown.get(&(cell.clone(), before)).copied());
        let number = before.map_or(0, |before| before.number() + 1);
        *shown.entry((cell.clone(), honest)).or_insert_with(|| Version::new(number, number))
    }
}

#[async_trait]
impl Defect for BeginsAgain {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await?;
        Ok(read.map(|read| VersionedValue { version: self.shown(cell, read.version, None), ..read }))
    }

    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        let now = honest.read_cell(cell).await?;
        let before = now.as_ref().map(|now| now.version);
        let shown = before.map(|before| self.shown(cell, before, None));
        if !write.expected.is_met_by(shown) {
            let refused = now.zip(shown).map(|(now, version)| VersionedValue { version, ..now });
            return Ok(CellWritten::Refused(refused));
        }
        Ok(match honest.write_cell(cell, &over_any(write)).await? {
            CellWritten::Written(version) => CellWritten::Written(self.shown(cell, version, before)),
            other => other,
        })
    }
}

struct ComparesByItself;

#[async_trait]
impl Defect for ComparesByItself {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        let now = honest.read_cell(cell).await?;
        if !write.expected.is_met_by(now.as_ref().map(|now| now.version)) {
            return Ok(CellWritten::Refused(now));
        }
        tokio::task::yield_now().await;
        honest.write_cell(cell, &over_any(write)).await
    }

    async fn change_count(&self, _: &dyn Backend, _: CountChange<'_>) -> Result<Option<Decided>> {
        Ok(None)
    }
}

struct Unheld;

#[async_trait]
impl Defect for Unheld {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Written {
        node.backend.write_cell(cell, write).await
    }
}

/// A server with only a part of the keys.
struct OneKeyOnly;

#[async_trait]
impl Defect for OneKeyOnly {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Written {
        if node.join.queue.coded() != cell.coded() {
            let kind = ErrorKind::Unsupported { capability: "held_writes" };
            return Err(Error::new(kind, "the cell and the queue are on different servers"));
        }
        node.honest.write_cell(cell, write).await
    }
}

struct LooksByItself;

#[async_trait]
impl Defect for LooksByItself {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Written {
        if let Some(reason) = node.honest.state().lost() {
            return Err(Error::lost(reason));
        }
        node.backend.write_cell(cell, write).await
    }
}

#[derive(Default)]
struct TakesAlong(Mutex<Vec<Address>>);

#[async_trait]
impl Defect for TakesAlong {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        self.0.lock().expect("no panic").push(cell.clone());
        honest.write_cell(cell, write).await
    }

    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        let written = std::mem::take(&mut *self.0.lock().expect("no panic"));
        for cell in written {
            let deletion = CellWrite { expected: Expected::Any, value: None, life: CellLife::Stays };
            honest.write_cell(&cell, &deletion).await?;
        }
        honest.close(how).await
    }
}

/// Sends a write again without its condition, if its reply was lost.
struct SendsAgain;

#[async_trait]
impl Defect for SendsAgain {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        match honest.write_cell(cell, write).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let late = honest.write_cell(cell, &over_any(write)).await;
                late.and(Err(error))
            }
            answer => answer,
        }
    }
}

struct NeverSure;

#[async_trait]
impl Defect for NeverSure {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        honest.write_cell(cell, write).await.map_err(|error| match error.kind() {
            ErrorKind::Unavailable => Error::new(ErrorKind::OutcomeUnknown, "no answer"),
            _ => error,
        })
    }
}

struct TellsFailure;

#[async_trait]
impl Defect for TellsFailure {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        match honest.write_cell(cell, write).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                Ok(CellWritten::Refused(honest.read_cell(cell).await?))
            }
            answer => answer,
        }
    }

    async fn change_count(&self, _: &dyn Backend, _: CountChange<'_>) -> Result<Option<Decided>> {
        Ok(None)
    }
}
