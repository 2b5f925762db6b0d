//! CLIENT- and LAYOUT-: a registry that is broken, or a stamp.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, EntryPage, Join, Joined, QueueEntry, VersionedValue,
};
use latchwork_core::{Address, Expected, Kind, Result};

use super::wrapper::Defect;
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_client_registers_without_its_record",
        case: "client_listed_in_order_with_its_record",
        beside: "client_gone_within_its_lease_after_a_death",
        testbed: |name| on_memory(name, SaysNothing),
    },
    Control {
        name: "a_dead_client_is_listed_on",
        case: "client_gone_within_its_lease_after_a_death",
        beside: "layout_stamp_is_not_raised_by_a_newer_build",
        testbed: |name| on_memory(name, Remembers::default()),
    },
    Control {
        name: "a_removed_client_registers_where_nobody_looks",
        case: "client_again_registered_after_its_removal",
        beside: "client_listed_in_order_with_its_record",
        testbed: |name| on_memory(name, RegistersOnce::default()),
    },
    Control {
        name: "a_client_that_was_cut_off_registers_where_nobody_looks",
        case: "client_again_registered_after_a_loss",
        beside: "client_listed_in_order_with_its_record",
        testbed: |name| on_memory(name, RegistersOnce::default()),
    },
    Control {
        name: "each_client_writes_its_own_stamp",
        case: "layout_stamp_is_written_once",
        beside: "client_listed_in_order_with_its_record",
        testbed: |name| on_memory(name, StampsAnew::default()),
    },
    Control {
        name: "an_older_build_writes_over_a_newer_stamp",
        case: "layout_stamp_refuses_an_older_build",
        beside: "client_listed_in_order_with_its_record",
        testbed: |name| on_memory(name, StampsAnew::default()),
    },
    Control {
        name: "a_newer_build_writes_over_an_older_stamp",
        case: "layout_stamp_is_not_raised_by_a_newer_build",
        beside: "client_listed_in_order_with_its_record",
        testbed: |name| on_memory(name, StampsAnew::default()),
    },
    Control {
        name: "a_layout_is_raised_over_clients_that_are_not_listed",
        case: "layout_raise_waits_for_older_clients",
        beside: "layout_stamp_refuses_an_older_build",
        testbed: |name| on_memory(name, ListsOne::Last),
    },
    Control {
        name: "a_layout_is_raised_among_clients_that_are_not_listed",
        case: "layout_raise_among_older_clients_that_come_and_go",
        beside: "layout_stamp_of_two_builds_at_once_is_one",
        testbed: |name| on_memory(name, ListsOne::First),
    },
    Control {
        name: "a_client_that_connects_does_not_see_that_its_namespace_moves",
        case: "migrate_gate_sends_plain_clients_on",
        beside: "layout_raise_waits_for_older_clients",
        testbed: |name| on_memory(name, SeesNo("moving=")),
    },
    Control {
        name: "a_namespace_is_retired_over_clients_that_are_not_listed",
        case: "migrate_gate_waits_for_a_forgotten_client",
        beside: "migrate_gate_keeps_the_new_side_shut_before_its_move",
        testbed: |name| on_memory(name, ListsOne::Last),
    },
    Control {
        name: "a_namespace_is_retired_among_clients_that_are_not_listed",
        case: "migrate_gate_among_clients_that_come_and_go",
        beside: "migrate_gate_keeps_the_new_side_shut_before_its_move",
        testbed: |name| on_memory(name, ListsOne::First),
    },
    Control {
        name: "a_client_comes_too_early_since_it_sees_no_marker",
        case: "migrate_gate_keeps_the_new_side_shut_before_its_move",
        beside: "layout_stamp_is_written_once",
        testbed: |name| on_memory(name, SeesNo("moving=")),
    },
    Control {
        name: "a_marker_of_a_later_version_is_passed_over",
        case: "migrate_gate_of_a_later_version_keeps_this_one_out",
        beside: "layout_stamp_is_written_once",
        testbed: |name| on_memory(name, SeesNo("moving=")),
    },
    Control {
        name: "a_client_that_is_back_trusts_the_stamp_that_it_read_first",
        case: "migrate_gate_after_a_client_was_cut_off",
        beside: "client_gone_within_its_lease_after_a_death",
        testbed: |name| on_memory(name, ReadsOnce::default()),
    },
    Control {
        name: "a_move_begins_over_clients_that_are_not_listed",
        case: "migrate_gate_begins_over_no_outsider",
        beside: "migrate_compare_and_set_two_operators_make_one_move",
        testbed: |name| on_memory(name, ListsOne::First),
    },
    Control {
        name: "a_move_goes_on_without_a_member_that_is_not_listed",
        case: "migrate_ack_names_version_a_step_waits_for_the_last_member",
        beside: "migrate_compare_and_set_two_operators_make_one_move",
        testbed: |name| on_memory(name, ListsOne::First),
    },
    Control {
        name: "a_client_does_not_see_the_epoch_of_its_namespace",
        case: "migrate_epoch_recorded_plain_tokens_rise_behind_a_move",
        beside: "migrate_gate_begins_over_no_outsider",
        testbed: |name| on_memory(name, SeesNo("epoch=")),
    },
    Control {
        name: "a_stage_is_written_over_whatever_stands",
        case: "migrate_compare_and_set_two_operators_make_one_move",
        beside: "migrate_gate_begins_over_no_outsider",
        testbed: |name| on_memory(name, WritesOverAny),
    },
];

#[derive(Debug)]
struct SaysNothing;

#[async_trait]
impl Defect for SaysNothing {
    fn breaks_connecting(&self) -> bool {
        true
    }

    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.join(&Join { data: Arc::default(), ..join.clone() }).await
    }
}

/// Lists whom it has ever listed.
#[derive(Debug, Default)]
struct Remembers(Mutex<BTreeMap<u64, QueueEntry>>);

#[async_trait]
impl Defect for Remembers {
    fn breaks_connecting(&self) -> bool {
        true
    }

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

/// The second time, a client registers elsewhere.
#[derive(Debug, Default)]
struct RegistersOnce(Mutex<HashSet<Arc<str>>>);

#[async_trait]
impl Defect for RegistersOnce {
    fn breaks_connecting(&self) -> bool {
        true
    }

    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let mut join = join.clone();
        let is_client = join.queue.kind() == Kind::Clients;
        if is_client && !self.0.lock().expect("not poisoned").insert(Arc::clone(&join.label)) {
            join.queue = Address::new("latchwork", Kind::Clients, "elsewhere").expect("a good key");
        }
        honest.join(&join).await
    }
}

/// No client sees a stamp as it connects, and each writes its own.
#[derive(Debug, Default)]
struct StampsAnew(Mutex<HashSet<usize>>);

#[async_trait]
impl Defect for StampsAnew {
    fn breaks_connecting(&self) -> bool {
        true
    }

    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let client = std::ptr::from_ref(honest).addr();
        let connects = cell.kind() == Kind::Layout && self.0.lock().expect("not poisoned").insert(client);
        if connects { Ok(None) } else { honest.read_cell(cell).await }
    }

    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let expected = if cell.kind() == Kind::Layout { Expected::Any } else { write.expected };
        honest.write_cell(cell, &CellWrite { expected, ..write.clone() }).await
    }
}

/// Lists one client alone.
#[derive(Debug)]
enum ListsOne {
    First,
    Last,
}

#[async_trait]
impl Defect for ListsOne {
    fn breaks_connecting(&self) -> bool {
        true
    }

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

/// This field beside a stamp, the mark of a move or the epoch, is not seen by who reads it.
#[derive(Debug)]
struct SeesNo(&'static str);

#[async_trait]
impl Defect for SeesNo {
    fn breaks_connecting(&self) -> bool {
        true
    }

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

/// A stage is written over another than the one that was read.
#[derive(Debug)]
struct WritesOverAny;

#[async_trait]
impl Defect for WritesOverAny {
    fn breaks_connecting(&self) -> bool {
        true
    }

    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let is_stage = cell.kind() == Kind::Layout && cell.name().starts_with("move/");
        let expected = if is_stage { Expected::Any } else { write.expected };
        honest.write_cell(cell, &CellWrite { expected, ..write.clone() }).await
    }
}

/// Each client but operators reads the stamp once.
#[derive(Debug, Default)]
struct ReadsOnce {
    operators: Mutex<HashSet<usize>>,
    read: Mutex<BTreeMap<usize, VersionedValue>>,
}

#[async_trait]
impl Defect for ReadsOnce {
    fn breaks_connecting(&self) -> bool {
        true
    }

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
