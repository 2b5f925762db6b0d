//! CELL- and WATCH-, and the recipes over them: broken cells.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, ChangeWatch, Close, EntryPage, QueueEntry, VersionedValue,
};
use latchwork_core::{Address, CellLife, Error, ErrorKind, Expected, Result, TimeToIdle, Version};

use super::wrapper::{BrokenNode, Defect};
use super::{Control, PlantTestbed, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_write_is_made_whatever_it_expects",
        case: "cell_cas_writes_only_over_what_is_expected",
        beside: "watch_end_tells_why",
        testbed: |name| on_memory(name, ExpectsNothing),
    },
    Control {
        name: "a_deletion_is_made_whatever_it_expects",
        case: "cell_cas_decides_by_each_condition",
        beside: "cell_cas_writes_only_over_what_is_expected",
        testbed: |name| on_memory(name, DeletesAnything),
    },
    Control {
        name: "one_version_is_written_over_by_two",
        case: "cell_cas_each_version_is_used_up_once",
        beside: "cell_cas_decides_by_each_condition",
        testbed: |name| on_memory(name, ComparesByItself),
    },
    Control {
        name: "the_versions_of_a_cell_made_anew_begin_again",
        case: "cell_cas_no_version_comes_again",
        beside: "cell_held_by_another_key_is_written_or_refused",
        testbed: |name| on_memory(name, BeginsAgain::default()),
    },
    Control {
        name: "the_client_compares_and_then_writes",
        case: "cell_cas_of_many_at_once_is_made_by_one",
        beside: "cell_stay_outlives_its_client",
        testbed: |name| on_memory(name, ComparesByItself),
    },
    Control {
        name: "a_write_under_a_hold_is_made_without_it",
        case: "cell_held_is_written_only_while_the_hold_stands",
        beside: "cell_cas_writes_only_over_what_is_expected",
        testbed: |name| on_memory(name, Unheld),
    },
    Control {
        name: "the_client_looks_at_the_hold_and_then_writes",
        case: "cell_held_is_not_written_late_beside_the_next_holder",
        beside: "cell_cas_decides_by_each_condition",
        testbed: |name| on_memory(name, LooksByItself),
    },
    Control {
        name: "the_client_alone_knows_whether_it_holds",
        case: "cell_held_is_decided_by_the_server",
        beside: "cell_cas_decides_by_each_condition",
        testbed: |name| on_memory(name, Unheld),
    },
    Control {
        name: "what_is_promised_of_holds_of_other_keys_is_refused",
        case: "cell_held_by_another_key_is_written_or_refused",
        beside: "cell_held_is_written_only_while_the_hold_stands",
        testbed: |name| on_memory(name, OneKeyOnly),
    },
    Control {
        name: "a_close_takes_the_cells_along",
        case: "cell_stay_outlives_its_client",
        beside: "cell_cas_no_version_comes_again",
        testbed: |name| on_memory(name, TakesAlong::default()),
    },
    Control {
        name: "a_write_whose_reply_is_lost_is_sent_again",
        case: "cell_unknown_is_told_and_made_once",
        beside: "watch_order_shows_the_latest_in_the_end",
        testbed: |name| on_memory(name, SendsAgain),
    },
    Control {
        name: "a_write_whose_outcome_is_unknown_is_told_as_failed",
        case: "counter_add_is_applied_once",
        beside: "cell_held_is_written_only_while_the_hold_stands",
        testbed: |name| on_memory(name, TellsFailure),
    },
    Control {
        name: "a_write_is_delivered_late_whatever_it_expected",
        case: "cell_unknown_late_write_meets_another_version",
        beside: "cell_held_is_written_only_while_the_hold_stands",
        testbed: |name| on_memory(name, LateUnconditional),
    },
    Control {
        name: "a_write_that_was_not_sent_is_told_as_unknown",
        case: "cell_unknown_only_for_requests_that_were_sent",
        beside: "cell_unknown_is_told_and_made_once",
        testbed: |name| on_memory(name, NeverSure),
    },
    Control {
        name: "a_watch_tells_of_the_first_change_only",
        case: "watch_order_shows_the_latest_in_the_end",
        beside: "cell_cas_no_version_comes_again",
        testbed: |name| on_memory(name, TellsOnce),
    },
    Control {
        name: "a_watch_tells_of_no_more_than_one_change",
        case: "watch_order_reports_each_change",
        beside: "cell_cas_decides_by_each_condition",
        testbed: |name| on_memory(name, TellsOnce),
    },
    Control {
        name: "of_many_writes_a_watch_tells_of_the_first",
        case: "watch_order_shows_the_last_of_many_writes",
        beside: "watch_end_of_a_client_ends_all_its_watches",
        testbed: |name| on_memory(name, TellsOnce),
    },
    Control {
        name: "behind_a_gap_a_watch_is_silent",
        case: "watch_order_goes_on_after_each_gap",
        beside: "cell_cas_decides_by_each_condition",
        testbed: |name| on_memory(name, TellsOnce),
    },
    Control {
        name: "a_compaction_ends_a_watch_in_silence",
        case: "watch_order_heals_a_compaction",
        beside: "watch_order_heals_a_gap",
        testbed: |name| Box::new(PlantTestbed::forgets_watches(name)),
    },
    Control {
        name: "a_watch_of_a_closed_client_waits_on",
        case: "watch_end_tells_why",
        beside: "watch_order_shows_the_latest_in_the_end",
        testbed: |name| on_memory(name, WatchesOn),
    },
    Control {
        name: "some_watches_of_a_closed_client_wait_on",
        case: "watch_end_of_a_client_ends_all_its_watches",
        beside: "watch_order_reports_each_change",
        testbed: |name| on_memory(name, WatchesOn),
    },
    Control {
        name: "one_counts_as_two_at_a_barrier",
        case: "barrier_pass_together_round_by_round",
        beside: "watch_order_shows_the_latest_in_the_end",
        testbed: |name| on_memory(name, CountsTwice),
    },
    Control {
        name: "who_is_inside_a_barrier_is_not_seen",
        case: "barrier_leave_together_and_enter_again",
        beside: "watch_order_shows_the_latest_in_the_end",
        testbed: |name| on_memory(name, SeesNoHead),
    },
    Control {
        name: "two_blocks_of_ids_overlap",
        case: "ids_unique_across_clients_and_faults",
        beside: "cell_held_is_written_only_while_the_hold_stands",
        testbed: |name| on_memory(name, ComparesByItself),
    },
    Control {
        name: "a_latch_counts_a_lost_reply_twice",
        case: "latch_open_beside_lost_replies_and_cuts",
        beside: "watch_order_shows_the_latest_in_the_end",
        testbed: |name| on_memory(name, TellsFailure),
    },
];

fn any(write: &CellWrite) -> CellWrite {
    CellWrite { expected: Expected::Any, value: write.value.clone(), life: CellLife::Stays }
}

#[derive(Debug)]
struct ExpectsNothing;

#[async_trait]
impl Defect for ExpectsNothing {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        honest.write_cell(cell, &any(write)).await
    }
}

#[derive(Debug)]
struct DeletesAnything;

#[async_trait]
impl Defect for DeletesAnything {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        match write.value {
            Some(_) => honest.write_cell(cell, write).await,
            None => honest.write_cell(cell, &any(write)).await,
        }
    }
}

/// Versions count the writes since the cell was made, as ZooKeeper's data versions do.
#[derive(Debug, Default)]
struct BeginsAgain(Mutex<HashMap<(Address, Version), Version>>);

impl BeginsAgain {
    /// The honest version's number since the cell was made.
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

    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let now = honest.read_cell(cell).await?;
        let before = now.as_ref().map(|now| now.version);
        let shown = before.map(|before| self.shown(cell, before, None));
        if !write.expected.is_met_by(shown) {
            let refused = now.zip(shown).map(|(now, version)| VersionedValue { version, ..now });
            return Ok(CellWritten::Refused(refused));
        }
        Ok(match honest.write_cell(cell, &any(write)).await? {
            CellWritten::Written(version) => CellWritten::Written(self.shown(cell, version, before)),
            other => other,
        })
    }
}

/// Reads, compares, and writes whatever is there by then.
#[derive(Debug)]
struct ComparesByItself;

#[async_trait]
impl Defect for ComparesByItself {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let now = honest.read_cell(cell).await?;
        if !write.expected.is_met_by(now.as_ref().map(|now| now.version)) {
            return Ok(CellWritten::Refused(now));
        }
        tokio::task::yield_now().await;
        honest.write_cell(cell, &any(write)).await
    }

    /// Counts too are changed so.
    async fn change_count(
        &self,
        _: &dyn Backend,
        _: &Address,
        _: &CountRequest,
        _: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct Unheld;

#[async_trait]
impl Defect for Unheld {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        node.backend.write_cell(cell, write).await
    }
}

/// As a server does that has only a part of the keys.
#[derive(Debug)]
struct OneKeyOnly;

#[async_trait]
impl Defect for OneKeyOnly {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        if node.join.queue.coded() != cell.coded() {
            let kind = ErrorKind::Unsupported { capability: "held_writes" };
            return Err(latchwork_core::Error::new(kind, "the two are apart"));
        }
        node.honest.write_cell(cell, write).await
    }
}

/// Reads the queue, and writes whoever holds by then.
#[derive(Debug)]
struct LooksByItself;

#[async_trait]
impl Defect for LooksByItself {
    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        if let Some(reason) = node.honest.state().lost() {
            return Err(latchwork_core::Error::lost(reason));
        }
        node.backend.write_cell(cell, write).await
    }
}

/// The cells that a client wrote go with it.
#[derive(Debug, Default)]
struct TakesAlong(Mutex<Vec<Address>>);

#[async_trait]
impl Defect for TakesAlong {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        self.0.lock().expect("no panic").push(cell.clone());
        honest.write_cell(cell, write).await
    }

    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        let written = std::mem::take(&mut *self.0.lock().expect("no panic"));
        for cell in written {
            honest
                .write_cell(&cell, &CellWrite { expected: Expected::Any, value: None, life: CellLife::Stays })
                .await?;
        }
        honest.close(how).await
    }
}

/// Sends a write again whose reply was lost, whatever it expects.
#[derive(Debug)]
struct SendsAgain;

#[async_trait]
impl Defect for SendsAgain {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        match honest.write_cell(cell, write).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let late = honest.write_cell(cell, &any(write)).await;
                late.and(Err(error))
            }
            answer => answer,
        }
    }
}

/// Reports each failure as an unknown outcome.
#[derive(Debug)]
struct NeverSure;

#[async_trait]
impl Defect for NeverSure {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        honest.write_cell(cell, write).await.map_err(|error| match error.kind() {
            ErrorKind::Unavailable => Error::new(ErrorKind::OutcomeUnknown, "no answer"),
            _ => error,
        })
    }
}

/// A lost reply is told as a refusal.
#[derive(Debug)]
struct TellsFailure;

#[async_trait]
impl Defect for TellsFailure {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        match honest.write_cell(cell, write).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                Ok(CellWritten::Refused(honest.read_cell(cell).await?))
            }
            answer => answer,
        }
    }

    /// Counts too are changed so.
    async fn change_count(
        &self,
        _: &dyn Backend,
        _: &Address,
        _: &CountRequest,
        _: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        Ok(None)
    }
}

/// The condition is compared when a write is sent, and not when it arrives.
#[derive(Debug)]
struct LateUnconditional;

#[async_trait]
impl Defect for LateUnconditional {
    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        if write.value.as_ref().is_some_and(|value| &**value == b"late") {
            return honest.write_cell(cell, &any(write)).await;
        }
        honest.write_cell(cell, write).await
    }
}

/// A listing shows each node twice.
#[derive(Debug)]
struct CountsTwice;

#[async_trait]
impl Defect for CountsTwice {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let listed = honest.list(queue, page).await?;
        Ok(listed.into_iter().flat_map(|entry| [entry.clone(), entry]).collect())
    }
}

/// A look at the head of a queue sees nobody.
#[derive(Debug)]
struct SeesNoHead;

#[async_trait]
impl Defect for SeesNoHead {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        match (page.after, page.most) {
            (0, 1) => Ok(Vec::new()),
            _ => honest.list(queue, page).await,
        }
    }
}

#[derive(Debug)]
struct TellsOnce;

impl Defect for TellsOnce {
    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(Once { honest: honest.watch_cell(cell), told: 0 })
    }
}

#[derive(Debug)]
pub(super) struct Once {
    pub(super) honest: Box<dyn ChangeWatch>,
    pub(super) told: usize,
}

#[async_trait]
impl ChangeWatch for Once {
    async fn changed(&mut self) -> Result<()> {
        if self.told == 2 {
            std::future::pending::<()>().await;
        }
        self.honest.changed().await?;
        self.told += 1;
        Ok(())
    }
}

#[derive(Debug)]
struct WatchesOn;

#[async_trait]
impl Defect for WatchesOn {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        match honest.read_cell(cell).await {
            // It would end by its next look else.
            Err(error) if error.kind() == ErrorKind::Closed => std::future::pending().await,
            read => read,
        }
    }

    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(On(honest.watch_cell(cell)))
    }
}

#[derive(Debug)]
struct On(Box<dyn ChangeWatch>);

#[async_trait]
impl ChangeWatch for On {
    async fn changed(&mut self) -> Result<()> {
        match self.0.changed().await {
            Err(error) if error.kind() == ErrorKind::Closed => std::future::pending().await,
            news => news,
        }
    }
}
