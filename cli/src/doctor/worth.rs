//! What a lock is worth there, by what the backend promises.

use latchwork::facts::{Persistence, ServerFacts};
use latchwork::{Coordinator, Eviction};
use latchwork_core::backend::Incarnation;

use super::finding::Finding;

/// What the capabilities say, and what the server says of its memory and its disk.
pub(super) fn of(coordinator: &Coordinator, facts: Option<&ServerFacts>) -> Vec<Finding> {
    let can = coordinator.capabilities();
    let mut findings = Vec::new();
    findings.push(match can.eviction {
        Eviction::Never => {
            let memory = facts.and_then(|facts| facts.memory.told());
            let memory = memory.map(|memory| format!(" (memory: {memory})")).unwrap_or_default();
            Finding::good("eviction", format!("the server evicts no locks{memory}"))
        }
        Eviction::Possible => Finding::fault(
            "eviction",
            "the server may evict locks when its memory is full",
        )
        .next(
            "set maxmemory-policy noeviction on it, and ?strict=true in the URL, which refuses such a server",
        ),
        Eviction::Unknown => {
            Finding::note("eviction", "the server does not say whether it evicts locks, or is a replica")
                .next("allow the login INFO")
        }
    });
    findings.push(match can.survives_failover {
        true => Finding::good("failover", "a lock survives the loss of one server of a group"),
        false => Finding::note(
            "failover",
            "a failover may forget a lock, and two hold then; tokens protect data that checks them",
        )
        .next(match can.confirms_on_replicas {
            true => {
                "check tokens; ?min_replicas=N makes an acquisition wait for N replicas; or use a QuorumLock"
            }
            false => "check tokens, or use a QuorumLock",
        }),
    });
    findings.push(restart(coordinator, facts.and_then(|facts| facts.persistence.told())));
    findings.push(match can.prompt_revocation {
        true => Finding::good("removal", "a holder that an operator removes hears of it at once"),
        false => Finding::note("removal", "a holder that is removed by hand hears of it within a TTL"),
    });
    if !can.clean_try {
        findings.push(
            Finding::note(
                "tries",
                "several tries at one instant may all be refused, though the lock is free",
            )
            .next("for jobs of many hosts use `latchwork cron`, which allows for it"),
        );
    }
    findings
}

/// What a restart forgets.
fn restart(coordinator: &Coordinator, kept: Option<&Persistence>) -> Finding {
    let shown = kept.map(|kept| format!(" ({kept})")).unwrap_or_default();
    match (coordinator.backend().incarnation(), kept) {
        (Incarnation::Durable, Some(Persistence::Nothing)) => {
            Finding::note("restart", "all locks end with this process").next("nothing for tests")
        }
        (Incarnation::Durable, _) | (Incarnation::Started(_), Some(Persistence::BeforeConfirmed)) => {
            Finding::good("restart", format!("a restart forgets no lock{shown}"))
        }
        (Incarnation::Started(_), _) => Finding::note(
            "restart",
            format!("a restart may forget locks; holders hear of it, as `Forgotten`{shown}"),
        )
        .next("set appendonly yes and appendfsync always where that matters, or check tokens"),
        (Incarnation::Unknown, _) => {
            Finding::note("restart", format!("the server does not say what a restart forgets{shown}"))
                .next("allow the login INFO; check tokens")
        }
    }
}
