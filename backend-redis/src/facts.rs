use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::facts::{
    ClockDifference, Fact, MemoryPolicy, Persistence, Role, ServerFacts, Topology, WhenFull,
};

use crate::client::Client;
use crate::driver::{Info, Said};

const NO_FIELD: &str = "INFO has no such field";

pub(crate) async fn read(client: &Client) -> Result<ServerFacts> {
    let asked = async { Ok(client.driver.said(client.request_timeout).await) };
    let said = client.until_closed(asked).await?;
    let cluster = client.driver.is_cluster();
    let facts: Vec<_> = said.into_iter().map(OneServer::of).collect::<Result<_>>()?;
    Ok(all_of(facts, cluster, client.driver.is_watched()))
}

#[derive(Clone, Debug)]
struct OneServer {
    product: String,
    version: Fact<String>,
    replicas: Fact<u32>,
    clock: Fact<ClockDifference>,
    memory: Fact<MemoryPolicy>,
    persistence: Fact<Persistence>,
}

impl OneServer {
    fn of(said: Said) -> Result<Self> {
        let info = Fact::of(said.info, "INFO")?;
        let settings = Fact::of(said.settings, "CONFIG GET")?;
        let clock = Fact::of(said.clock, "TIME")?;
        let product = info.told().and_then(|info| Info(info).get("server_name")).unwrap_or("redis");
        Ok(Self {
            product: match product {
                "valkey" => "Valkey".to_owned(),
                "redis" => "Redis".to_owned(),
                other => other.to_owned(),
            },
            version: field(&info, |info| {
                info.get("valkey_version").or_else(|| info.get("redis_version")).map(str::to_owned)
            }),
            replicas: field(&info, |info| info.get("connected_slaves")?.parse().ok()),
            clock: clock.map(|clock| ClockDifference { ends_leases: true, ..clock }),
            memory: field(&info, memory),
            persistence: field(&info, |info| persistence(info, settings.told())),
        })
    }
}

/// Without INFO, the field is unknown for the same reason.
fn field<T>(info: &Fact<String>, read: impl FnOnce(Info<'_>) -> Option<T>) -> Fact<T> {
    info.as_ref().and_then(|info| read(Info(info)).map_or_else(|| Fact::untold(NO_FIELD), Fact::Told))
}

fn memory(info: Info<'_>) -> Option<MemoryPolicy> {
    let limit: u64 = info.get("maxmemory")?.parse().ok()?;
    let when_full = match info.get("maxmemory_policy")? {
        "noeviction" => WhenFull::RefusesWrites,
        policy => WhenFull::Evicts(policy.to_owned()),
    };
    Some(MemoryPolicy { limit: (limit > 0).then_some(limit), when_full })
}

fn persistence(info: Info<'_>, settings: Option<&(String, String)>) -> Option<Persistence> {
    Some(match (info.get("aof_enabled")?, settings) {
        ("1", Some((fsync, _))) => match fsync.as_str() {
            "always" => Persistence::BeforeConfirmed,
            "everysec" => Persistence::LogBehind(Duration::from_secs(1)),
            _ => Persistence::LogSometime,
        },
        ("1", None) => Persistence::LogSometime,
        (_, Some((_, save))) if save.is_empty() => Persistence::Nothing,
        _ => Persistence::Snapshots,
    })
}

/// The worst value of all servers.
fn all_of(servers: Vec<OneServer>, cluster: bool, watched: bool) -> ServerFacts {
    let mut facts = ServerFacts::of("Redis");
    let masters = u32::try_from(servers.len()).unwrap_or(u32::MAX);
    if !servers.is_empty() {
        facts.product = ServerFacts::named(servers.iter().map(|server| server.product.as_str()));
    }
    let versions = gathered(&servers, |server| &server.version);
    facts.version = versions.map(|versions| ServerFacts::named(versions.iter().map(String::as_str)));
    facts.topology = gathered(&servers, |server| &server.replicas).map(|replicas| {
        let replicas = replicas.iter().sum();
        match (cluster, replicas) {
            (true, replicas) => Topology::Cluster { masters, replicas },
            (false, 0) if !watched => Topology::Alone,
            (false, replicas) => Topology::Primary { replicas, watched },
        }
    });
    facts.role = Fact::Told(Role::Primary);
    let clocks = gathered(&servers, |server| &server.clock);
    facts.clock = worst(clocks, |clock| clock.micros.unsigned_abs());
    facts.memory = worst(gathered(&servers, |server| &server.memory), |memory: &MemoryPolicy| {
        (memory.may_evict(), memory.limit.is_none())
    });
    facts.persistence = worst(gathered(&servers, |server| &server.persistence), |kept| *kept);
    facts
}

fn gathered<T: Clone>(servers: &[OneServer], fact: impl Fn(&OneServer) -> &Fact<T>) -> Fact<Vec<T>> {
    servers.iter().map(fact).fold(Fact::Told(Vec::new()), |all, fact| {
        all.and_then(|mut all| {
            fact.as_ref().map(|told| {
                all.push(told.clone());
                all
            })
        })
    })
}

fn worst<T, R: Ord>(all: Fact<Vec<T>>, rank: impl Fn(&T) -> R) -> Fact<T> {
    all.and_then(|all| {
        let worst = all.into_iter().max_by_key(rank);
        worst.map_or_else(|| Fact::untold("no server was asked"), Fact::Told)
    })
}

#[cfg(test)]
mod tests {
    use latchwork_core::{Error, ErrorKind};

    use super::*;

    const INFO: &str = "redis_version:7.0.15\r\nconnected_slaves:2\r\nmaxmemory:1048576\r\n\
        maxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n";

    fn forbidden<T>() -> Result<T> {
        Err(Error::forbidden("a command", "NOPERM"))
    }

    fn said(info: Result<&str>, settings: Result<(&str, &str)>, micros: i64) -> Said {
        Said {
            info: info.map(str::to_owned),
            settings: settings.map(|(fsync, save)| (fsync.to_owned(), save.to_owned())),
            clock: Ok(ClockDifference { micros, ..ClockDifference::NONE }),
        }
    }

    fn one(said: Said) -> OneServer {
        OneServer::of(said).expect("answered")
    }

    #[test]
    fn facts_show_product_version_topology_and_persistence() {
        let facts = all_of(vec![one(said(Ok(INFO), Ok(("everysec", "")), 7))], false, false);
        assert_eq!((facts.product.as_str(), facts.version.told().unwrap().as_str()), ("Redis", "7.0.15"));
        assert_eq!(facts.topology.told(), Some(&Topology::Primary { replicas: 2, watched: false }));
        assert!(facts.memory.told().unwrap().may_evict());
        assert_eq!(facts.persistence.told(), Some(&Persistence::LogBehind(Duration::from_secs(1))));
        assert!(facts.clock.told().unwrap().ends_leases);
        let valkey = format!("server_name:valkey\r\nvalkey_version:8.1.0\r\n{INFO}");
        let facts = all_of(vec![one(said(Ok(&valkey), forbidden(), 0))], false, true);
        assert_eq!((facts.product.as_str(), facts.version.told().unwrap().as_str()), ("Valkey", "8.1.0"));
        assert_eq!(facts.persistence.told(), Some(&Persistence::LogSometime));
    }

    #[test]
    fn persistence_follows_from_log_and_snapshot_settings() {
        for (log, settings, kept) in [
            ("1", Some(("always", "")), Persistence::BeforeConfirmed),
            ("1", Some(("no", "")), Persistence::LogSometime),
            ("0", Some(("always", "")), Persistence::Nothing),
            ("0", Some(("always", "3600 1")), Persistence::Snapshots),
            ("0", None, Persistence::Snapshots),
        ] {
            let settings = settings.map(|(fsync, save)| (fsync.to_owned(), save.to_owned()));
            let info = format!("aof_enabled:{log}\r\n");
            assert_eq!(persistence(Info(&info), settings.as_ref()), Some(kept), "{log} {settings:?}");
        }
    }

    #[test]
    fn a_missing_right_is_named_and_silence_is_an_error() {
        let facts = all_of(vec![one(said(forbidden(), forbidden(), 0))], false, false);
        assert_eq!(facts.version, Fact::Forbidden("INFO".into()));
        assert_eq!(facts.topology.told(), None);
        assert!(facts.clock.told().is_some(), "scripts need TIME anyway");
        let silent = Error::new(ErrorKind::Unavailable, "no answer");
        assert!(OneServer::of(said(Err(silent), forbidden(), 0)).is_err());
    }

    #[test]
    fn of_a_cluster_the_worst_counts() {
        let safe = INFO.replace("allkeys-lru", "noeviction").replace("7.0.15", "7.2.4");
        let servers = vec![
            one(said(Ok(&safe), Ok(("always", "")), 3)),
            one(said(Ok(INFO), Ok(("no", "")), -60_000_000)),
            one(said(Ok(&safe), Ok(("always", "")), 5)),
        ];
        let facts = all_of(servers, true, false);
        assert_eq!(facts.topology.told(), Some(&Topology::Cluster { masters: 3, replicas: 6 }));
        assert_eq!(facts.version.told().unwrap(), "7.0.15, 7.2.4");
        assert_eq!(facts.clock.told().unwrap().micros, -60_000_000);
        assert!(facts.memory.told().unwrap().may_evict());
        assert_eq!(facts.persistence.told(), Some(&Persistence::LogSometime));
    }
}
