use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Hosts, NodeId, Scheme, Transport};
use latchwork_core::{Config, Credentials, ENDLESS, Error, ErrorKind, Logins, Result, encode};

use crate::driver::Replaced;

pub(crate) const NAME: &str = "redis";

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// How long a queue's last token outlives the queue's last use, and so how wrong a clock may be set.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
const REMEMBER_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);

pub(crate) const OPTIONS: [&str; 7] = [
    "strict",
    "remember",
    "min_replicas",
    "cluster",
    SENTINEL_OPTIONS[0],
    SENTINEL_OPTIONS[1],
    SENTINEL_OPTIONS[2],
];
const SENTINEL_OPTIONS: [&str; 3] = ["sentinel_service", "sentinel_user", "sentinel_password"];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    /// Parses a host that a server of a cluster names. Without a name it is that server's host.
    pub(crate) fn named(address: &str, by: &Host) -> Result<Self> {
        // IPv6 addresses come without brackets.
        let unusable = || {
            let what =
                format!("the cluster's server at {by} announces {address:?}, which is not a host and a port");
            Error::new(ErrorKind::Misconfigured, what)
        };
        let (name, port) = split(address).ok_or_else(unusable)?;
        Ok(by.beside(name, port))
    }

    /// The host with this name and port, as this server of a cluster knows it.
    pub(crate) fn beside(&self, name: &str, port: u16) -> Self {
        let name = if name.is_empty() || name == "?" { &self.name } else { name };
        Self { name: name.to_owned(), port }
    }

    pub(crate) fn parse(address: &str) -> Result<Self> {
        let bad_port = || Error::invalid("url", format!("{address:?} has no port from 1 to 65535"));
        let (name, port) = split(address).ok_or_else(bad_port)?;
        Ok(Self { name: name.to_owned(), port })
    }
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (name, port) = address.rsplit_once(':')?;
    Some((name.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Servers {
    One(Host),
    /// The master that these Sentinels name.
    Watched(Sentinels),
    Cluster(Arc<[Host]>),
    Shard(Host),
}

#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    pub(crate) hosts: Arc<[Host]>,
    pub(crate) service: String,
    pub(crate) login: Option<Credentials>,
    pub(crate) transport: Transport,
    pub(crate) replaced: Arc<Replaced>,
}

impl Servers {
    pub(crate) fn scheme(&self, tls: bool) -> Scheme<'static> {
        let hosts = match self {
            Servers::One(_) => Hosts::Servers,
            Servers::Watched(_) => Hosts::Sentinels,
            Servers::Cluster(_) | Servers::Shard(_) => Hosts::Cluster,
        };
        Scheme { backend: NAME, hosts, tls }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Servers::One(host) | Servers::Shard(host) => host.fmt(f),
            Servers::Watched(sentinels) => sentinels.fmt(f),
            Servers::Cluster(hosts) => list(f, hosts),
        }
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.hosts)?;
        write!(f, "/{}", self.service)
    }
}

fn list(f: &mut fmt::Formatter<'_>, hosts: &[Host]) -> fmt::Result {
    let hosts: Vec<_> = hosts.iter().map(Host::to_string).collect();
    f.write_str(&hosts.join(","))
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) servers: Servers,
    pub(crate) transport: Transport,
    pub(crate) database: i64,
    pub(crate) logins: Logins,
    pub(crate) ttl: Duration,
    /// See [`REMEMBER`].
    pub(crate) remember: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) strict: bool,
    /// The replicas that confirm an acquisition that sets no number.
    pub(crate) min_replicas: u32,
    /// An operator also reads on a server that refuses writes.
    pub(crate) operator: bool,
    pub(crate) client_name: String,
    pub(crate) inbox: String,
    /// The prefix of the self-test's keys, before their hash tag, and that tag.
    pub(crate) scratch: (String, String),
}

impl Settings {
    pub(crate) fn scratch_keys(&self, tag: &str) -> [String; 3] {
        ["z", "h", "s"].map(|part| format!("{}:{{{tag}}}:{part}", self.scratch.0))
    }

    pub(crate) fn of_shard(&self, host: Host) -> Self {
        Self { servers: Servers::Shard(host), transport: self.transport.apart(), ..self.clone() }
    }

    pub(crate) fn of(config: &Config) -> Result<Self> {
        let transport = Transport::of(config, None)?;
        let servers = servers(config, &transport)?;
        let database = match config.path.as_str() {
            "" => 0,
            path => path.parse().ok().filter(|database| *database >= 0).ok_or_else(|| {
                let example = "redis://host/2 or redis-sentinel://h1,h2/service?db=2";
                Error::invalid("url", format!("{path:?} is not a database number: write {example}"))
            })?,
        };
        if config.options.flag("cluster")? && database != 0 {
            return Err(Error::invalid("url", "a Redis Cluster has one database: remove the path"));
        }
        if config.user.is_some() && config.password.is_none() {
            let why = "is missing: write redis://user:password@host (any password if the user has `nopass`)";
            return Err(Error::invalid("password", why));
        }
        let remember = config.options.duration("remember")?.unwrap_or(REMEMBER);
        if !REMEMBER_RANGE.contains(&remember) {
            return Err(Error::invalid("remember", "must be from 1 s to 366 days"));
        }
        let (namespace, client) = (encode(&config.namespace), NodeId::random());
        Ok(Self {
            servers,
            transport,
            database,
            logins: Logins::of(config),
            ttl: config.ttl,
            remember,
            connect_timeout: config.connect_timeout.min(ENDLESS),
            request_timeout: config.request_timeout.min(ENDLESS),
            strict: config.options.flag("strict")?,
            min_replicas: config.min_replicas,
            operator: config.is_operator(),
            client_name: format!("latchwork:{client}"),
            inbox: format!("{namespace}:inbox:{client}"),
            scratch: (format!("{namespace}:selftest"), client.to_string()),
        })
    }
}

pub(crate) fn share_of(time: Duration, hosts: &[Host]) -> Duration {
    time / u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1)
}

fn servers(config: &Config, transport: &Transport) -> Result<Servers> {
    let [service, user, password] = SENTINEL_OPTIONS.map(|name| config.options.get(name));
    let is_cluster = config.options.flag("cluster")?;
    if let Some(service) = service {
        if service.is_empty() {
            return Err(Error::invalid("sentinel_service", "is empty: write redis-sentinel://h1,h2/service"));
        }
        if is_cluster {
            return Err(Error::invalid(
                "cluster",
                "a Redis Cluster has no Sentinels: remove `cluster` or `sentinel_service`",
            ));
        }
        if user.is_some() && password.is_none() {
            return Err(Error::invalid("sentinel_password", "is missing: `sentinel_user` needs a password"));
        }
        let hosts = config.hosts_with_port(SENTINEL_PORT)?;
        let hosts = hosts.iter().map(|host| Host::parse(host)).collect::<Result<_>>()?;
        let login = password.map(|password| match user {
            Some(user) => Credentials::new(user, password),
            None => Credentials::of_default_user(password),
        });
        return Ok(Servers::Watched(Sentinels {
            hosts,
            service: service.to_owned(),
            login,
            transport: transport.clone(),
            replaced: Arc::default(),
        }));
    }
    if let Some(option) = SENTINEL_OPTIONS.into_iter().find(|name| config.options.get(name).is_some()) {
        let why = "is an option of redis-sentinel://h1,h2/service only: remove it, or change the scheme";
        return Err(Error::invalid(option, why));
    }
    let hosts = config.hosts_with_port(PORT)?;
    if is_cluster {
        return hosts.iter().map(|host| Host::parse(host)).collect::<Result<_>>().map(Servers::Cluster);
    }
    match hosts.as_slice() {
        [host] => Host::parse(host).map(Servers::One),
        _ => Err(Error::invalid(
            "url",
            "redis:// takes one host: for several, write redis-cluster://h1,h2 or redis-sentinel://h1,h2/service",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::life;

    fn settings(url: &str) -> Result<Settings> {
        Settings::of(&url.parse()?)
    }

    #[test]
    fn host_port_and_database() {
        let read = settings("redis://u:p@[::1]:7000/3?namespace=a/b").unwrap();
        assert_eq!((read.servers.to_string().as_str(), read.database), ("[::1]:7000", 3));
        assert!(read.inbox.starts_with("a%2Fb:inbox:"));
        assert_eq!(settings("redis://h").unwrap().servers.to_string(), "h:6379");
    }

    #[test]
    fn sentinel_url_has_a_service_and_a_separate_login() {
        let read = settings("redis-sentinel://u:p@a,[::1]:5/s?db=3&sentinel_password=q").unwrap();
        assert_eq!((read.servers.to_string().as_str(), read.database), ("a:26379,[::1]:5/s", 3));
        let Servers::Watched(sentinels) = read.servers else { panic!("Sentinels") };
        let login = sentinels.login.expect("given");
        assert_eq!((login.user.as_deref(), login.password.expose()), (None, "q"));
        assert!(read.logins.are_given(), "at the master");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for url in ["redis://", "redis://a,b", "redis://h/x", "redis://h/-1", "redis-sentinel://h/s?db=x"] {
            assert_eq!(settings(url).unwrap_err().argument(), Some("url"), "{url}");
        }
        for (url, argument) in [
            ("redis://h?remember=long", "remember"),
            ("redis://h?strict=maybe", "strict"),
            ("redis://h?cluster=1", "cluster"),
            ("redis-cluster://h?sentinel_service=x", "cluster"),
            ("redis://h?sentinel_service=", "sentinel_service"),
            ("redis://h?sentinel_password=x", "sentinel_password"),
            ("redis-sentinel://a/service?sentinel_user=x", "sentinel_password"),
        ] {
            assert_eq!(settings(url).unwrap_err().argument(), Some(argument), "{url}");
        }
        // The client crate would log in as `default` without an error.
        assert_eq!(settings("redis://app@h").unwrap_err().argument(), Some("password"));
        assert!(settings("redis://:p@h").is_ok(), "the default user");
    }

    #[test]
    fn how_long_a_token_is_remembered_is_a_day_unless_it_is_said() {
        assert_eq!(settings("redis://h").unwrap().remember, REMEMBER);
        let read = settings("redis://h?remember=1m&ttl=1h").unwrap();
        assert_eq!(read.remember, Duration::from_secs(60));
        assert!(life(read.remember, read.ttl) > 2 * read.ttl.as_millis(), "what is held outlives its lease");
        for url in ["redis://h?remember=0s", "redis://h?remember=999ms", "redis://h?remember=367d"] {
            assert_eq!(settings(url).unwrap_err().argument(), Some("remember"), "{url}");
        }
    }

    #[test]
    fn a_timeout_without_an_end_overflows_nothing() {
        let mut config: Config = "redis://h".parse().unwrap();
        (config.connect_timeout, config.request_timeout) = (Duration::MAX, Duration::MAX);
        let settings = Settings::of(&config).unwrap();
        assert_eq!((settings.connect_timeout, settings.request_timeout), (ENDLESS, ENDLESS));
    }

    #[test]
    fn a_password_is_never_shown() {
        assert!(!format!("{:?}", settings("redis://u:hunter2@h").unwrap()).contains("hunter2"));
    }
}
