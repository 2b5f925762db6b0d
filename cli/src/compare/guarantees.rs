use std::collections::BTreeMap;

use latchwork::{Coordinator, Eviction};
use latchwork_core::backend::Incarnation;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Guarantee {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) cases: Vec<String>,
    /// `yes`, `no`, or words, by the name of the coordinator.
    pub(super) values: BTreeMap<String, String>,
}

pub(super) type Promised = BTreeMap<String, BTreeMap<&'static str, String>>;

/// Id, title, cases. Every backend must give the first four.
const ALL: [(&str, &str, &[&str]); 14] = [
    (
        "excludes",
        "one holder at a time, while its lease lasts",
        &["mutex_excludes", "process_killed_while_holding", "mutex_under_chaos"],
    ),
    ("fair", "first come, first served", &["mutex_is_fair", "mutex_try_never_waits_or_overtakes"]),
    ("fences", "tokens rise from holder to holder", &["node_token_rises_from_holder_to_holder"]),
    (
        "loss_in_time",
        "a holder learns of the end of its lease before another client holds",
        &["lease_deadline_is_known_before_another_is_admitted", "lease_deadline_loss_is_final"],
    ),
    (
        "survives_failover",
        "a lock survives the loss of one server of a group",
        &["capabilities_match_the_testbed"],
    ),
    ("restart", "locks that a restart of this server forgets", &[]),
    ("eviction", "the server evicts no locks when its memory is full", &["capabilities_match_the_testbed"]),
    (
        "clean_try",
        "one of several simultaneous tries on a free lock succeeds",
        &["mutex_try_of_several_at_one_instant"],
    ),
    (
        "prompt_revocation",
        "a holder learns at once that an operator removed its node",
        &["node_gone_by_a_forced_release_is_reported"],
    ),
    (
        "confirms_on_replicas",
        "an acquisition can wait until replicas confirm it",
        &["node_confirm_is_demanded_or_refused"],
    ),
    ("lease_per_node", "a client loses single holds, not all holds together", &[]),
    (
        "minimum_outlives_close",
        "the least time of a hold outlives a client that closes at once",
        &["mutex_at_least_outlives_a_close_as_promised"],
    ),
    (
        "idle_cells",
        "unused values and counters can be deleted by the server",
        &["cell_idle_expires_without_use"],
    ),
    (
        "exact_addresses",
        "locks can be shared with other programs",
        &["key_exact_is_shared_across_namespaces"],
    ),
];

pub(super) fn of(client: &Coordinator) -> BTreeMap<&'static str, String> {
    let can = client.capabilities();
    let yes = |promised: bool| if promised { "yes" } else { "no" }.to_owned();
    let restart = match client.backend().incarnation() {
        _ if client.backend().name() == "memory" => "all: it ends with the process",
        Incarnation::Durable => "none",
        Incarnation::Started(_) => "perhaps some",
        Incarnation::Unknown => "the server does not report it",
    };
    let eviction = match can.eviction {
        Eviction::Never => "yes",
        Eviction::Possible => "no",
        Eviction::Unknown => "the server does not report it",
    };
    [
        ("excludes", yes(true)),
        ("fair", yes(true)),
        ("fences", yes(true)),
        ("loss_in_time", yes(true)),
        ("survives_failover", yes(can.survives_failover)),
        ("restart", restart.to_owned()),
        ("eviction", eviction.to_owned()),
        ("clean_try", yes(can.clean_try)),
        ("prompt_revocation", yes(can.prompt_revocation)),
        ("confirms_on_replicas", yes(can.confirms_on_replicas)),
        ("lease_per_node", yes(can.lease_per_node)),
        ("minimum_outlives_close", yes(can.minimum_outlives_close)),
        ("idle_cells", yes(can.idle_cells)),
        ("exact_addresses", yes(can.exact_addresses)),
    ]
    .into()
}

pub(super) fn all(promised: &Promised) -> Vec<Guarantee> {
    let row = |(id, title, cases): &(&'static str, &str, &[&str])| {
        let values = promised.iter().filter_map(|(name, said)| Some((name.clone(), said.get(id)?.clone())));
        let cases = cases.iter().map(|case| (*case).to_owned()).collect();
        Guarantee { id: (*id).to_owned(), title: (*title).to_owned(), cases, values: values.collect() }
    };
    ALL.iter().map(row).filter(|row| !row.values.is_empty()).collect()
}
