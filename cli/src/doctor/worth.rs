use latchwork::facts::{Persistence, ServerFacts};
use latchwork::{Coordinator, Eviction};
use latchwork_core::backend::Incarnation;

use super::finding::Finding;

pub(super) fn of(coordinator: &Coordinator, facts: Option<&ServerFacts>) -> Vec<Finding> {
    let can = coordinator.capabilities();
    let mut findings = Vec::new();
    findings.push(match can.eviction {
        Eviction::Never => {
            let memory = facts.and_then(|facts| facts.memory.told());
            let memory = memory.map(|memory| format!(" (memory: {memory})")).unwrap_or_default();
            Finding::good("eviction", format!("the server evicts no locks{memory}"))
        }
        Eviction::Possible => {
            Finding::fault("eviction", "the server can evict locks when its memory is full")
                .next("set maxmemory-policy noeviction on the server; ?strict=true in the URL refuses a server that can evict locks")
        }
        Eviction::Unknown => Finding::note(
            "eviction",
            "the server does not report whether it evicts locks, or whether it is a replica",
        )
        .next("grant +info to the login"),
    });
    findings.push(match can.survives_failover {
        true => Finding::good("failover", "a lock survives the loss of one server of a group"),
        false => Finding::note(
            "failover",
            "a failover can forget a lock, and then two clients can hold; fencing protects the data",
        )
        .next(match can.confirms_on_replicas {
            true => {
                "fence the data; make acquisitions wait for N replicas with ?min_replicas=N, or use a QuorumLock"
            }
            false => "fence the data, or use a QuorumLock",
        }),
    });
    findings.push(restart(coordinator, facts.and_then(|facts| facts.persistence.told())));
    findings.push(match can.prompt_revocation {
        true => Finding::good("removal", "a holder learns at once that an operator removed its node"),
        false => Finding::note("removal", "a holder learns within a TTL that its node was removed by hand"),
    });
    if !can.clean_try {
        findings.push(
            Finding::note(
                "tries",
                "several tries at one instant can all be refused although the lock is free",
            )
            .next("for a job that many hosts start, use `latchwork cron`: a host whose try is refused waits in the queue"),
        );
    }
    findings
}

fn restart(coordinator: &Coordinator, kept: Option<&Persistence>) -> Finding {
    let shown = kept.map(|kept| format!(" ({kept})")).unwrap_or_default();
    match (coordinator.backend().incarnation(), kept) {
        (Incarnation::Durable, Some(Persistence::Nothing)) => {
            Finding::note("restart", "all locks end with this process").next("nothing in tests")
        }
        (Incarnation::Durable, _) | (Incarnation::Started(_), Some(Persistence::BeforeConfirmed)) => {
            Finding::good("restart", format!("a restart forgets no lock{shown}"))
        }
        (Incarnation::Started(_), _) => Finding::note(
            "restart",
            format!("a restart can forget locks; their holders learn of it as `Forgotten`{shown}"),
        )
        .next("set appendonly yes and appendfsync always, or fence the data"),
        (Incarnation::Unknown, _) => Finding::note(
            "restart",
            format!("the server does not report whether a restart forgets locks{shown}"),
        )
        .next("grant +info to the login, and fence the data"),
    }
}
