use std::fmt;
use std::time::Duration;

use latchwork::facts::{ClockDifference, Fact, Role, ServerFacts, Topology};

use super::finding::Finding;

/// A holder gives up `margin` earlier than the server ends its lease.
pub(super) fn of(facts: &ServerFacts, margin: Duration) -> Vec<Finding> {
    vec![
        judged("server", &facts.version, |version| server_of(facts, version)),
        judged("topology", &facts.topology, |topology| topology_of(*topology)),
        judged("role", &facts.role, |role| role_of(*role)),
        judged("clock", &facts.clock, |clock| clock_of(clock, margin)),
    ]
}

fn judged<T: fmt::Display>(about: &'static str, fact: &Fact<T>, judge: impl Fn(&T) -> Finding) -> Finding {
    match fact {
        Fact::Told(fact) => judge(fact),
        Fact::Untold(_) => Finding::good(about, fact.to_string()),
        Fact::Forbidden(right) => Finding::note(about, fact.to_string())
            .next(format!("allow {right}, so that the server reports this")),
    }
}

fn server_of(facts: &ServerFacts, version: &str) -> Finding {
    let what = format!("{} {version}", facts.product);
    let is_alone = facts.topology.told() == Some(&Topology::Alone);
    match facts.product == "etcd" && !is_alone && revokes_wrongly(version) {
        // Clients confirm each renewal, but cannot prevent the revocation.
        true => Finding::note(
            "server",
            format!(
                "{what} has the fault etcd-io/etcd#15247: a leader that recovers from a stalled disk revokes leases of live \
                 clients, and then two clients can hold until the holder is notified"
            ),
        )
        .next("use etcd 3.4.31, 3.5.13 or later, or fence the data"),
        false => Finding::good("server", what),
    }
}

/// Fault #15247.
fn revokes_wrongly(version: &str) -> bool {
    // For example 3.5.0-rc.1.
    let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    let mut parts = version.split('.').map(|part| number(part).unwrap_or(0));
    let [major, minor, patch]: [u32; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    match (major, minor) {
        (3, 5) => patch < 13,
        (3, 4) => patch < 31,
        older => older < (3, 4),
    }
}

fn topology_of(topology: Topology) -> Finding {
    let what = topology.to_string();
    let note = |next: &str| Finding::note("topology", what.clone()).next(next);
    match topology {
        Topology::InProcess => note("nothing in tests; several processes need a server"),
        Topology::Alone => note(
            "nothing, if locks may be unavailable while it is down; otherwise use an ensemble of three servers, a Redis \
             with replicas and Sentinels, or a QuorumLock over several servers",
        ),
        Topology::Primary { watched: false, .. } => note(
            "if Sentinels watch it, use redis-sentinel://, which follows a failover; a client of redis:// stays \
             with this server",
        ),
        Topology::Primary { replicas: 0, watched: true } => {
            note("start a replica: without one no failover is possible")
        }
        Topology::Cluster { masters, replicas } if replicas < masters => note(
            "give each master a replica: the keys of a master without one are unavailable while it is down",
        ),
        Topology::Ensemble { voters, .. } if voters % 2 == 0 => note(
            "use an odd number of servers: for example, four servers tolerate one failure, as three servers do",
        ),
        Topology::Primary { .. } | Topology::Cluster { .. } | Topology::Ensemble { .. } => {
            Finding::good("topology", what)
        }
    }
}

fn role_of(role: Role) -> Finding {
    let what = role.to_string();
    match role {
        Role::Learner => {
            Finding::note("role", what).next("promote this member, or name voting members in the URL")
        }
        Role::Alone | Role::Primary | Role::Leader | Role::Follower | Role::Observer => {
            Finding::good("role", what)
        }
    }
}

/// A step of the server's clock below the margin ends no lease before its holder gives up.
fn clock_of(clock: &ClockDifference, margin: Duration) -> Finding {
    let what = format!("{clock}");
    if clock.may_be_within(margin) {
        return Finding::good("clock", what);
    }
    const MEND: &str = "find the wrong clock, and synchronize both by NTP";
    match clock.ends_leases {
        true => {
            let consequence = match clock.micros < 0 {
                true => "a correction in one step ends leases early, and then two clients can hold",
                false => "after a correction in one step, the lock of a dead holder can stay held for longer",
            };
            Finding::fault(
                "clock",
                format!("{what}: the difference alone affects no lock, but {consequence}"),
            )
            .next(format!("{MEND}, without steps (chronyd and ntpd slew), or while no lock is held"))
        }
        false => {
            Finding::note("clock", format!("{what}: it affects no lock, but the ages in listings are wrong"))
                .next(MEND)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_is_a_fault_where_a_step_of_it_would_end_leases() {
        let level = |micros, ends_leases| {
            let clock = ClockDifference { micros, error: Duration::from_millis(1), ends_leases };
            clock_of(&clock, Duration::from_secs(1)).level
        };
        for micros in [-60_000_000, 60_000_000] {
            assert_eq!(level(micros, true), Level::Fault);
            assert_eq!(level(micros, false), Level::Note);
        }
        assert_eq!(level(1_000_500, true), Level::Good, "the difference is not known so exactly");
        assert_eq!(level(-1_002_000, true), Level::Fault);
    }

    #[test]
    fn etcd_cluster_with_a_known_fault_gets_a_note() {
        let ensemble = Topology::Ensemble { voters: 3, others: 0 };
        for (product, version, topology, level) in [
            ("etcd", "3.4.23", ensemble, Level::Note),
            ("etcd", "3.4.31", ensemble, Level::Good),
            ("etcd", "3.5.12", ensemble, Level::Note),
            ("etcd", "3.5.13", ensemble, Level::Good),
            ("etcd", "3.6.0-rc.1", ensemble, Level::Good),
            ("etcd", "3.4.23", Topology::Alone, Level::Good),
            ("ZooKeeper", "3.4.23", ensemble, Level::Good),
        ] {
            let mut facts = ServerFacts::of(product);
            (facts.version, facts.topology) = (Fact::Told(version.to_owned()), Fact::Told(topology));
            let [server, ..] = &of(&facts, Duration::from_secs(1))[..] else { panic!("no finding") };
            assert_eq!((server.about, server.level), ("server", level), "{product} {version}");
            assert!(
                server.what.contains(version) && server.next.is_some() == (level == Level::Note),
                "{server:?}"
            );
        }
    }

    #[test]
    fn finding_below_good_has_a_next_step() {
        for (topology, level) in [
            (Topology::Alone, Level::Note),
            (Topology::Primary { replicas: 2, watched: false }, Level::Note),
            (Topology::Primary { replicas: 0, watched: true }, Level::Note),
            (Topology::Primary { replicas: 2, watched: true }, Level::Good),
            (Topology::Cluster { masters: 3, replicas: 2 }, Level::Note),
            (Topology::Cluster { masters: 3, replicas: 3 }, Level::Good),
            (Topology::Ensemble { voters: 4, others: 0 }, Level::Note),
            (Topology::Ensemble { voters: 3, others: 2 }, Level::Good),
        ] {
            let finding = topology_of(topology);
            assert_eq!(finding.level, level, "{topology}");
            assert_eq!(finding.next.is_some(), level != Level::Good, "{topology}");
        }
        let missing = judged("server", &Fact::<String>::Forbidden("INFO".into()), |_| unreachable!());
        assert_eq!(
            (missing.level, missing.next.as_deref()),
            (Level::Note, Some("allow INFO, so that the server reports this"))
        );
    }
}
