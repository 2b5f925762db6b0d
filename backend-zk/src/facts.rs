use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use latchwork_core::facts::{ClockDifference, Fact, Persistence, Role, ServerFacts, Topology};
use latchwork_core::{Error, ErrorKind, Result};

use crate::error::Fault;
use crate::probe::{self, said};
use crate::queue::Session;

const RESOLUTION: Duration = Duration::from_millis(1);
const SRVR: &str = "the word srvr (4lw.commands.whitelist)";

pub(crate) async fn read(session: &Session) -> Result<ServerFacts> {
    let settings = &session.settings;
    let answers = join_all(settings.hosts.iter().map(|host| said(host, &settings.transport))).await;
    for (host, answer) in settings.hosts.iter().zip(&answers) {
        probe::check_one_group(settings.hosts.len(), host, answer.as_deref().unwrap_or_default())?;
    }
    let members = match session.driver.members().await {
        Err(Fault::NoNode) => Fact::untold("the server has no node /zookeeper/config"),
        answer => {
            let answer = answer.map_err(|fault| fault.error_without_trace("read /zookeeper/config"));
            Fact::of(answer, "READ on /zookeeper/config")?
        }
    };
    let servers: Vec<_> = settings.hosts.iter().map(String::as_str).zip(answers).collect();
    let mut facts = of(&servers, members);
    facts.clock = Fact::of(clock(session).await, "a write of the client's own node")?;
    Ok(facts)
}

/// No request returns the time, but the leader stamps each write with it, so the client writes its own node.
async fn clock(session: &Session) -> Result<ClockDifference> {
    let written = || async {
        let stat = session.driver.write(&session.lease.member, session.settings.label.as_bytes()).await;
        let stat = stat.map_err(|fault| match fault {
            Fault::NoNode => Error::new(ErrorKind::Misconfigured, "the client's own node was removed"),
            fault => fault.error_without_trace("write its own node"),
        })?;
        let since = Duration::from_millis(u64::try_from(stat.mtime).unwrap_or(0));
        Ok(SystemTime::UNIX_EPOCH + since)
    };
    ClockDifference::measured(RESOLUTION, written).await
}

/// `servers`: each host and its answer to `srvr`. `members`: the ensemble's configuration.
fn of(servers: &[(&str, Option<String>)], members: Fact<Vec<u8>>) -> ServerFacts {
    let mut facts = ServerFacts::of("ZooKeeper");
    let state = |answer| Some((probe::version(answer)?, probe::role(answer)?));
    let states = servers.iter().filter_map(|(host, answer)| Some((*host, state(answer.as_deref()?)?)));
    let (versions, roles): (Vec<_>, Vec<_>) =
        states.map(|(host, (version, role))| (version, (host, role))).unzip();
    if roles.is_empty() {
        facts.version = Fact::Forbidden(SRVR.into());
        facts.role = Fact::Forbidden(SRVR.into());
    } else {
        facts.version = Fact::Told(ServerFacts::named(versions));
        facts.role = role(servers.len(), &roles);
    }
    facts.topology = match roles.iter().any(|(_, role)| *role == Role::Alone) {
        true => Fact::Told(Topology::Alone),
        false => members.and_then(|members| ensemble(&members)),
    };
    facts.memory = Fact::untold("only the heap limits the memory of ZooKeeper, and ZooKeeper evicts nothing");
    facts.persistence = Fact::Told(Persistence::BeforeConfirmed);
    facts
}

/// With several hosts, a session does not show its server.
fn role(hosts: usize, known: &[(&str, Role)]) -> Fact<Role> {
    if let (1, [(_, role)]) = (hosts, known) {
        return Fact::Told(*role);
    }
    let leader = known.iter().find(|(_, role)| *role == Role::Leader);
    let leads = leader.map_or("no known host reports that it is the leader".to_owned(), |(host, _)| {
        format!("{host} is the leader")
    });
    Fact::Untold(format!("a session does not show which host serves it; {leads}").into())
}

/// A line for each server: `server.1=host:2888:3888:participant;…`.
fn ensemble(members: &[u8]) -> Fact<Topology> {
    let text = String::from_utf8_lossy(members);
    let (others, voters): (Vec<_>, Vec<_>) =
        text.lines().filter(|line| line.starts_with("server.")).partition(|line| line.contains(":observer"));
    let count = |servers: Vec<_>| u32::try_from(servers.len()).unwrap_or(u32::MAX);
    match (count(voters), count(others)) {
        (0, _) => Fact::untold("/zookeeper/config names no servers"),
        (voters, others) => Fact::Told(Topology::Ensemble { voters, others }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mode: &str) -> Option<String> {
        Some(format!(
            "Zookeeper version: 3.8.0-5a02a05, built on 2022\nZxid: 0x1f\nMode: {mode}\nNode count: 5\n"
        ))
    }

    fn told(members: &str) -> Fact<Vec<u8>> {
        Fact::Told(members.as_bytes().to_vec())
    }

    #[test]
    fn one_host_shows_its_role_and_several_show_who_leads() {
        let facts = of(&[("a:1", answer("standalone"))], told(""));
        assert_eq!(facts.version.told().expect("a version"), "3.8.0");
        assert_eq!((facts.role.told(), facts.topology.told()), (Some(&Role::Alone), Some(&Topology::Alone)));
        let three = "server.1=a:2:3:participant;0.0.0.0:1\nserver.2=b:2:3:participant\n\
            server.3=c:2:3\nserver.4=d:2:3:observer;1\nversion=0\n";
        let facts = of(&[("d:1", answer("observer"))], told(three));
        assert_eq!(facts.role.told(), Some(&Role::Observer));
        assert_eq!(facts.topology.told(), Some(&Topology::Ensemble { voters: 3, others: 1 }));
        let hosts = [("a:1", answer("follower")), ("b:1", None), ("c:1", answer("leader"))];
        let facts = of(&hosts, told(three));
        assert!(facts.role.to_string().contains("c:1 is the leader"), "{}", facts.role);
    }

    #[test]
    fn missing_facts_are_reported_with_their_reason() {
        let refused = Some("srvr is not executed because it is not in the whitelist.\n".to_owned());
        let facts = of(&[("a:1", refused)], Fact::Forbidden("READ".into()));
        assert!(facts.version.to_string().contains("srvr"), "{}", facts.version);
        assert_eq!(facts.topology, Fact::Forbidden("READ".into()));
        assert_eq!(of(&[("a:1", None)], told("version=0\n")).topology.told(), None);
    }
}
