//! KEY-: addresses that meet, or that should and do not.

use async_trait::async_trait;
use latchwork_core::{Address, Key, Kind};

use super::wrapper::Defect;
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "keys_are_coded_by_folding_case",
        case: "key_opaque_odd_keys_are_all_different",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Renames(|queue, _| key(queue, &queue.name().to_lowercase()))),
    },
    Control {
        name: "separators_are_dropped_from_keys",
        case: "key_opaque_odd_keys_are_all_different",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(name, Renames(|queue, _| key(queue, &queue.name().replace(['/', '{', '}'], "_"))))
        },
    },
    Control {
        name: "a_coded_key_is_decoded_once_more",
        case: "key_opaque_odd_keys_are_all_different",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Renames(|queue, _| key(queue, &queue.name().replace("%2F", "/")))),
    },
    Control {
        name: "kinds_meet",
        case: "key_kinds_never_meet",
        beside: "key_kinds_namespaces_never_meet",
        testbed: |name| on_memory(name, Renames(|queue, _| of_kind(queue, Kind::Mutex))),
    },
    Control {
        name: "namespaces_meet",
        case: "key_kinds_namespaces_never_meet",
        beside: "key_kinds_never_meet",
        testbed: |name| on_memory(name, Renames(|queue, _| in_namespace(queue, "everybody"))),
    },
    Control {
        name: "an_exact_address_is_put_into_the_namespace",
        case: "key_exact_is_shared_across_namespaces",
        beside: "mutex_is_fair",
        testbed: |name| {
            on_memory(
                name,
                Renames(|queue, client| match queue.is_exact() {
                    true => address(&format!("client-{client}"), queue.kind(), queue.name()),
                    false => queue.clone(),
                }),
            )
        },
    },
    Control {
        name: "an_exact_address_of_a_read_write_lock_is_put_into_the_namespace",
        case: "key_exact_of_every_kind_is_shared",
        beside: "key_exact_semaphores_share_a_limit",
        testbed: |name| on_memory(name, Renames(|queue, client| put_away(queue, client, Kind::RwLock))),
    },
    Control {
        name: "an_exact_address_of_a_semaphore_is_put_into_the_namespace",
        case: "key_exact_semaphores_share_a_limit",
        beside: "key_exact_of_every_kind_is_shared",
        testbed: |name| on_memory(name, Renames(|queue, client| put_away(queue, client, Kind::Semaphore))),
    },
    Control {
        name: "read_write_locks_and_mutexes_meet_at_an_exact_address",
        case: "key_exact_kinds_never_meet",
        beside: "key_exact_semaphores_share_a_limit",
        testbed: |name| {
            on_memory(
                name,
                Renames(|queue, _| match queue.is_exact() && queue.kind() == Kind::RwLock {
                    true => Address::new("n", Kind::Mutex, Key::exact(queue.name())).expect("a good name"),
                    false => queue.clone(),
                }),
            )
        },
    },
    Control {
        name: "counters_and_values_meet",
        case: "key_kinds_of_odd_cells_have_separate_watches",
        beside: "key_kinds_never_meet",
        testbed: |name| on_memory(name, Renames(|cell, _| if_counter(cell, of_kind))),
    },
    Control {
        name: "counters_and_values_meet_at_an_exact_address",
        case: "key_exact_cells_and_a_queue_are_separate",
        beside: "key_exact_kinds_never_meet",
        testbed: |name| on_memory(name, Renames(|cell, _| if_counter(cell, exact_of_kind))),
    },
];

fn if_counter(cell: &Address, as_kind: impl Fn(&Address, Kind) -> Address) -> Address {
    if cell.kind() == Kind::Counter { as_kind(cell, Kind::Value) } else { cell.clone() }
}

/// An exact address of this kind is every client's own.
fn put_away(queue: &Address, client: usize, kind: Kind) -> Address {
    match queue.is_exact() && queue.kind() == kind {
        true => address(&format!("client-{client}"), kind, queue.name()),
        false => queue.clone(),
    }
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

fn exact_of_kind(cell: &Address, kind: Kind) -> Address {
    match cell.is_exact() {
        true => Address::new("n", kind, Key::exact(cell.name())).expect("a good name"),
        false => cell.clone(),
    }
}

fn in_namespace(queue: &Address, namespace: &str) -> Address {
    if queue.is_exact() { queue.clone() } else { address(namespace, queue.kind(), queue.name()) }
}

/// Looks for a queue elsewhere.
#[derive(Debug)]
struct Renames(fn(&Address, usize) -> Address);

#[async_trait]
impl Defect for Renames {
    fn address(&self, queue: &Address, client: usize) -> Address {
        (self.0)(queue, client)
    }
}
