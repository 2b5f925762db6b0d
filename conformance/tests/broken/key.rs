//! KEY-: addresses that collide, or that should be equal and are not.

use std::sync::Arc;

use latchwork_core::{Address, Key, Kind};

use super::defect::Defect;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("keys_are_coded_by_folding_case", || {
        Arc::new(Renames(|queue, _| key(queue, &queue.name().to_lowercase())))
    })
    .fails("key_opaque_odd_keys_are_all_different")
    .passes("mutex_is_fair"),
    broken("separators_are_dropped_from_keys", || {
        Arc::new(Renames(|queue, _| key(queue, &queue.name().replace(['/', '{', '}'], "_"))))
    })
    .fails("key_opaque_odd_keys_are_all_different")
    .passes("mutex_is_fair"),
    broken("a_coded_key_is_decoded_once_more", || {
        Arc::new(Renames(|queue, _| key(queue, &queue.name().replace("%2F", "/"))))
    })
    .fails("key_opaque_odd_keys_are_all_different")
    .passes("mutex_is_fair"),
    broken("kinds_meet", || Arc::new(Renames(|queue, _| of_kind(queue, Kind::Mutex))))
        .fails("key_kinds_never_meet")
        .passes("key_kinds_namespaces_never_meet"),
    broken("namespaces_meet", || Arc::new(Renames(|queue, _| in_namespace(queue, "everybody"))))
        .fails("key_kinds_namespaces_never_meet")
        .passes("key_kinds_never_meet"),
    broken("an_exact_address_is_put_into_the_namespace", || Arc::new(Renames(put_away)))
        .fails("key_exact_is_shared_across_namespaces")
        .passes("mutex_is_fair"),
    broken("an_exact_address_of_a_read_write_lock_is_put_into_the_namespace", || {
        Arc::new(Renames(|queue, client| put_away_if(queue, client, Kind::RwLock)))
    })
    .fails("key_exact_of_every_kind_is_shared")
    .passes("key_exact_semaphores_share_a_limit"),
    broken("an_exact_address_of_a_semaphore_is_put_into_the_namespace", || {
        Arc::new(Renames(|queue, client| put_away_if(queue, client, Kind::Semaphore)))
    })
    .fails("key_exact_semaphores_share_a_limit")
    .passes("key_exact_of_every_kind_is_shared"),
    broken("read_write_locks_and_mutexes_meet_at_an_exact_address", || {
        Arc::new(Renames(|queue, _| exact_mutex_if_rwlock(queue)))
    })
    .fails("key_exact_kinds_never_meet")
    .passes("key_exact_semaphores_share_a_limit"),
    broken("counters_and_values_meet", || Arc::new(Renames(|cell, _| if_counter(cell, of_kind))))
        .fails("key_kinds_of_odd_cells_have_separate_watches")
        .passes("key_kinds_never_meet"),
    broken("counters_and_values_meet_at_an_exact_address", || {
        Arc::new(Renames(|cell, _| if_counter(cell, exact_of_kind)))
    })
    .fails("key_exact_cells_and_a_queue_are_separate")
    .passes("key_exact_kinds_never_meet"),
];

fn if_counter(cell: &Address, as_kind: impl Fn(&Address, Kind) -> Address) -> Address {
    if cell.kind() == Kind::Counter { as_kind(cell, Kind::Value) } else { cell.clone() }
}

fn put_away(queue: &Address, client: usize) -> Address {
    match queue.is_exact() {
        true => address(&format!("client-{client}"), queue.kind(), queue.name()),
        false => queue.clone(),
    }
}

fn put_away_if(queue: &Address, client: usize, kind: Kind) -> Address {
    if queue.kind() == kind { put_away(queue, client) } else { queue.clone() }
}

fn address(namespace: &str, kind: Kind, key: &str) -> Address {
    Address::new(namespace, kind, key).expect("a good key")
}

fn key(queue: &Address, key: &str) -> Address {
    queue.namespace().map_or_else(|| queue.clone(), |namespace| address(namespace, queue.kind(), key))
}

fn of_kind(queue: &Address, kind: Kind) -> Address {
    queue.namespace().map_or_else(|| queue.clone(), |namespace| address(namespace, kind, queue.name()))
}

fn exact_of_kind(address: &Address, kind: Kind) -> Address {
    match address.is_exact() {
        true => Address::new("n", kind, Key::exact(address.name())).expect("a good name"),
        false => address.clone(),
    }
}

fn exact_mutex_if_rwlock(queue: &Address) -> Address {
    if queue.kind() == Kind::RwLock { exact_of_kind(queue, Kind::Mutex) } else { queue.clone() }
}

fn in_namespace(queue: &Address, namespace: &str) -> Address {
    if queue.is_exact() { queue.clone() } else { address(namespace, queue.kind(), queue.name()) }
}

struct Renames(fn(&Address, usize) -> Address);

impl Defect for Renames {
    fn address(&self, queue: &Address, client: usize) -> Address {
        (self.0)(queue, client)
    }
}
