use latchwork_core::facts::{Fact, MemoryPolicy, Persistence, Role, ServerFacts, Topology, WhenFull};
use latchwork_core::{Error, Result};

use crate::driver::{Driver, Status};

pub(crate) async fn read(driver: &Driver) -> Result<ServerFacts> {
    let status = Fact::of(driver.status().await.map_err(Error::from), "the Status request")?;
    let members = Fact::of(driver.members().await.map_err(Error::from), "the MemberList request")?;
    Ok(of(status, members))
}

fn of(status: Fact<Status>, members: Fact<(u32, u32)>) -> ServerFacts {
    let mut facts = ServerFacts::of("etcd");
    facts.version = status.as_ref().map(|status| status.version.clone());
    facts.topology = members.map(|members| match members {
        (1, 0) => Topology::Alone,
        (voters, others) => Topology::Ensemble { voters, others },
    });
    facts.role = status.as_ref().map(|status| match status {
        Status { is_learner: true, .. } => Role::Learner,
        Status { member, leader, .. } if member == leader => Role::Leader,
        _ => Role::Follower,
    });
    facts.clock = Fact::untold("etcd has no request for the time; leases do not depend on it");
    facts.memory = status.and_then(|status| match status.quota {
        0 => Fact::untold("etcd before 3.6 does not report its quota; when it is full, it refuses writes"),
        quota => Fact::Told(MemoryPolicy { limit: Some(quota), when_full: WhenFull::RefusesWrites }),
    });
    facts.persistence = Fact::Told(Persistence::BeforeConfirmed);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(member: u64, is_learner: bool, quota: u64) -> Fact<Status> {
        Fact::Told(Status { version: "3.6.1".to_owned(), member, leader: 7, is_learner, quota })
    }

    #[test]
    fn member_facts_show_role_topology_and_quota() {
        for (member, learns, role) in
            [(7, false, Role::Leader), (8, false, Role::Follower), (9, true, Role::Learner)]
        {
            let facts = of(status(member, learns, 1 << 31), Fact::Told((3, 1)));
            assert_eq!(facts.role.told(), Some(&role));
            assert_eq!(facts.topology.told(), Some(&Topology::Ensemble { voters: 3, others: 1 }));
            assert_eq!(facts.memory.told().expect("a quota").limit, Some(1 << 31));
        }
        let facts = of(status(7, false, 0), Fact::Told((1, 0)));
        assert_eq!((facts.topology.told(), facts.memory.told()), (Some(&Topology::Alone), None));
        let facts = of(Fact::Forbidden("it".into()), Fact::Forbidden("the list".into()));
        assert_eq!(facts.role, Fact::Forbidden("it".into()));
        assert_eq!(facts.topology, Fact::Forbidden("the list".into()));
    }
}
