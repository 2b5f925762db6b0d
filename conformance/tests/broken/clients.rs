//! CLIENT- and LAYOUT-.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use latchwork_core::backend::{Backend, CellWrite, EntryPage, Join, Joined, QueueEntry, VersionedValue};
use latchwork_core::{Address, Expected, Kind, Result};

use super::defect::{Defect, Written};
use super::leaves::{Joins, without_data};
use super::{Control, broken, broken_everywhere};

pub(super) const CONTROLS: &[Control] = &[
    broken_everywhere("a_client_registers_without_its_record", || Arc::new(Joins(without_data)))
        .fails("client_listed_in_order_with_its_record")
        .passes("client_gone_within_its_lease_after_a_death"),
    broken_everywhere("a_dead_client_is_listed_on", || Arc::new(Remembers::default()))
        .fails("client_gone_within_its_lease_after_a_death")
        .passes("layout_stamp_is_not_raised_by_a_newer_build"),
    broken_everywhere("a_removed_client_registers_where_nobody_looks", || Arc::new(RegistersOnce::default()))
        .fails("client_again_registered_after_its_removal")
        .passes("client_listed_in_order_with_its_record"),
    broken_everywhere("a_client_that_was_cut_off_registers_where_nobody_looks", || {
        Arc::new(RegistersOnce::default())
    })
    .fails("client_again_registered_after_a_loss")
    .passes("client_listed_in_order_with_its_record"),
    broken_everywhere("each_client_writes_its_own_stamp", || Arc::new(StampsAnew::default()))
        .fails("layout_stamp_is_written_once")
        .passes("client_listed_in_order_with_its_record"),
    broken_everywhere("an_older_build_writes_over_a_newer_stamp", || Arc::new(StampsAnew::default()))
        .fails("layout_stamp_refuses_an_older_build")
        .passes("client_listed_in_order_with_its_record"),
    broken_everywhere("a_newer_build_writes_over_an_older_stamp", || Arc::new(StampsAnew::default()))
        .fails("layout_stamp_is_not_raised_by_a_newer_build")
        .passes("client_listed_in_order_with_its_record"),
    broken_everywhere("a_layout_is_raised_over_clients_that_are_not_listed", || Arc::new(ListsOne::Last))
        .fails("layout_raise_waits_for_older_clients")
        .passes("layout_stamp_refuses_an_older_build"),
    broken_everywhere("a_layout_is_raised_among_clients_that_are_not_listed", || Arc::new(ListsOne::First))
        .fails("layout_raise_among_older_clients_that_come_and_go")
        .passes("layout_stamp_of_two_builds_at_once_is_one"),
    broken_everywhere("a_client_that_connects_does_not_see_that_its_namespace_moves", || {
        Arc::new(SeesNo("moving="))
    })
    .fails("migrate_gate_sends_plain_clients_on")
    .passes("layout_raise_waits_for_older_clients"),
    broken_everywhere("a_namespace_is_retired_over_clients_that_are_not_listed", || Arc::new(ListsOne::Last))
        .fails("migrate_gate_waits_for_a_forgotten_client")
        .passes("migrate_gate_keeps_the_new_side_shut_before_its_move"),
    broken_everywhere("a_namespace_is_retired_among_clients_that_are_not_listed", || {
        Arc::new(ListsOne::First)
    })
    .fails("migrate_gate_among_clients_that_come_and_go")
    .passes("migrate_gate_keeps_the_new_side_shut_before_its_move"),
    broken_everywhere("a_client_comes_too_early_since_it_sees_no_marker", || Arc::new(SeesNo("moving=")))
        .fails("migrate_gate_keeps_the_new_side_shut_before_its_move")
        .passes("layout_stamp_is_written_once"),
    broken_everywhere("a_marker_of_a_later_version_is_passed_over", || Arc::new(SeesNo("moving=")))
        .fails("migrate_gate_of_a_later_version_keeps_this_one_out")
        .passes("layout_stamp_is_written_once"),
    broken_everywhere("a_client_that_is_back_trusts_the_stamp_that_it_read_first", || {
        Arc::new(ReadsOnce::default())
    })
    .fails("migrate_gate_after_a_client_was_cut_off")
    .passes("client_gone_within_its_lease_after_a_death"),
    broken_everywhere("a_move_begins_over_clients_that_are_not_listed", || Arc::new(ListsOne::First))
        .fails("migrate_gate_begins_over_no_outsider")
        .passes("migrate_gate_keeps_the_new_side_shut_before_its_move"),
    broken_everywhere("a_move_goes_on_without_a_member_that_is_not_listed", || Arc::new(ListsOne::First))
        .fails("migrate_ack_names_version_a_step_waits_for_the_last_member")
        .passes("migrate_gate_keeps_the_new_side_shut_before_its_move"),
    broken_everywhere("a_client_does_not_see_the_epoch_of_its_namespace", || Arc::new(SeesNo("epoch=")))
        .fails("migrate_epoch_recorded_plain_tokens_rise_after_a_move")
        .passes("migrate_gate_begins_over_no_outsider"),
    broken("a_stage_is_written_over_whatever_stands", || Arc::new(WritesOverAny))
        .fails("migrate_compare_and_set_two_operators_make_one_move")
        .passes("migrate_gate_begins_over_no_outsider"),
];

#[derive(Default)]
struct Remembers(Mutex<BTreeMap<u64, QueueEntry>>);

#[async_trait]
impl Defect for Remembers {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let listed = honest.list(queue, page).await?;
        if queue.kind() != Kind::Clients {
            return Ok(listed);
        }
        let mut all = self.0.lock().expect("not poisoned");
        all.extend(listed.into_iter().map(|entry| (entry.sequence, entry)));
        Ok(all.range(page.after + 1..).map(|(_, entry)| entry.clone()).take(page.most).collect())
    }
}

#[derive(Default)]
struct RegistersOnce(Mutex<HashSet<Arc<str>>>);

#[async_trait]
impl Defect for RegistersOnce {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let mut join = join.clone();
        let is_client = join.queue.kind() == Kind::Clients;
        if is_client && !self.0.lock().expect("not poisoned").insert(Arc::clone(&join.label)) {
            join.queue = Address::new("latchwork", Kind::Clients, "elsewhere").expect("a good key");
        }
        honest.join(&join).await
    }
}

/// Shows no stamp to clients that connect, so each writes its own.
#[derive(Default)]
struct StampsAnew(Mutex<HashSet<usize>>);

#[async_trait]
impl Defect for StampsAnew {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let client = std::ptr::from_ref(honest).addr();
        let connects = cell.kind() == Kind::Layout && self.0.lock().expect("not poisoned").insert(client);
        if connects { Ok(None) } else { honest.read_cell(cell).await }
    }

    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        let expected = if cell.kind() == Kind::Layout { Expected::Any } else { write.expected };
        honest.write_cell(cell, &CellWrite { expected, ..write.clone() }).await
    }
}

enum ListsOne {
    First,
    Last,
}

#[async_trait]
impl Defect for ListsOne {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let mut listed = honest.list(queue, page).await?;
        if queue.kind() == Kind::Clients {
            match self {
                ListsOne::First => listed.truncate(1),
                ListsOne::Last => drop(listed.drain(..listed.len().saturating_sub(1))),
            }
        }
        Ok(listed)
    }
}

/// The mark of a move, or the epoch.
struct SeesNo(&'static str);

#[async_trait]
impl Defect for SeesNo {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await?;
        Ok(read.map(|mut read| {
            let text = String::from_utf8_lossy(&read.value).into_owned();
            // The stage of a move has an epoch too.
            if cell.kind() == Kind::Layout && text.contains("layout=") {
                let fields = text.split('&').filter(|field| !field.starts_with(self.0));
                read.value = fields.collect::<Vec<_>>().join("&").into_bytes().into();
            }
            read
        }))
    }
}

struct WritesOverAny;

#[async_trait]
impl Defect for WritesOverAny {
    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        let is_stage = cell.kind() == Kind::Layout && cell.name().starts_with("move/");
        let expected = if is_stage { Expected::Any } else { write.expected };
        honest.write_cell(cell, &CellWrite { expected, ..write.clone() }).await
    }
}

/// Operators read more than once.
#[derive(Default)]
struct ReadsOnce {
    operators: Mutex<HashSet<usize>>,
    read: Mutex<BTreeMap<usize, VersionedValue>>,
}

#[async_trait]
impl Defect for ReadsOnce {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if String::from_utf8_lossy(&join.data).contains("role=operator") {
            let client = std::ptr::from_ref(&**honest).addr();
            self.operators.lock().expect("not poisoned").insert(client);
        }
        honest.join(join).await
    }

    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let client = std::ptr::from_ref(honest).addr();
        if cell.kind() != Kind::Layout || self.operators.lock().expect("not poisoned").contains(&client) {
            return honest.read_cell(cell).await;
        }
        if let Some(known) = self.read.lock().expect("not poisoned").get(&client) {
            return Ok(Some(known.clone()));
        }
        let read = honest.read_cell(cell).await?;
        if let Some(read) = &read {
            self.read.lock().expect("not poisoned").insert(client, read.clone());
        }
        Ok(read)
    }
}
