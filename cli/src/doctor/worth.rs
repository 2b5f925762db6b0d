//! What a lock is worth there, by what the backend promises.

use latchwork::contracts::Incarnation;
use latchwork::{Coordinator, Eviction};

use super::finding::Finding;

/// What the capabilities say.
pub(super) fn of(coordinator: &Coordinator) -> Vec<Finding> {
    let can = coordinator.capabilities();
    let mut findings = Vec::new();
    findings.push(match can.eviction {
        Eviction::Never => Finding::good("eviction", "the server evicts no locks"),
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
    findings.push(match coordinator.backend().incarnation() {
        Incarnation::Durable => {
            Finding::good("restart", "what is confirmed is on disk: a restart forgets no lock")
        }
        Incarnation::Started(_) => {
            Finding::note("restart", "a restart may forget locks; holders hear of it, as `Forgotten`")
                .next("set appendonly yes and appendfsync always where that matters, or check tokens")
        }
        Incarnation::Unknown => Finding::note("restart", "the server does not say what a restart forgets"),
    });
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
