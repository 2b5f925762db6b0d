//! What this backend reads from a [`Config`].

use std::ops::RangeInclusive;
use std::time::Duration;

use latchwork_core::contracts::NodeId;
use latchwork_core::support::Transport;
use latchwork_core::{Config, ENDLESS, Error, Logins, Result, encode};

/// Redis' own port.
const PORT: u16 = 6379;
/// How long a queue's last token outlives the queue's last use by default: a clock set to the wrong
/// day goes back by no more than this.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// The shortest and the longest time that a user may set.
const REMEMBER_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);

/// What a client needs of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What secures the connections.
    pub(crate) transport: Transport,
    pub(crate) database: i64,
    pub(crate) logins: Logins,
    pub(crate) ttl: Duration,
    /// How long a queue's last token outlives the queue's last use.
    pub(crate) remember: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) strict: bool,
    /// How many replicas confirm an acquisition that does not say.
    pub(crate) min_replicas: u32,
    /// The name that CLIENT LIST shows.
    pub(crate) client_name: String,
    /// The channel of this client's messages.
    pub(crate) inbox: String,
    /// The keys that the self-test writes.
    pub(crate) scratch: [String; 3],
}

impl Settings {
    /// Host and port, as a URL has them.
    pub(crate) fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(crate) fn of(config: &Config) -> Result<Self> {
        let hosts = config.hosts_with_port(PORT)?;
        let [address] = hosts.as_slice() else {
            return Err(Error::invalid(
                "url",
                "redis:// takes one host: Redis Cluster and Sentinel are not supported yet",
            ));
        };
        let bad_port = || Error::invalid("url", format!("{address:?} has no valid port"));
        let (host, port) = address.rsplit_once(':').ok_or_else(bad_port)?;
        let database = match config.path.as_str() {
            "" => 0,
            path => path.parse().ok().filter(|database| *database >= 0).ok_or_else(|| {
                Error::invalid("url", format!("{path:?} is no database number: redis://host/2"))
            })?,
        };
        if config.user.is_some() && config.password.is_none() {
            let why = "Redis logs in with a password: redis://user:password@host (any, where the user has `nopass`)";
            return Err(Error::invalid("password", why));
        }
        let remember = config.remember.unwrap_or(REMEMBER);
        if !REMEMBER_RANGE.contains(&remember) {
            return Err(Error::invalid("remember", "must be from 1 s to 366 days"));
        }
        let (namespace, client) = (encode(&config.namespace), NodeId::random());
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: port.parse().map_err(|_| bad_port())?,
            transport: Transport::of(config, None)?,
            database,
            logins: Logins::of(config),
            ttl: config.ttl,
            remember,
            connect_timeout: config.connect_timeout.min(ENDLESS),
            request_timeout: config.request_timeout.min(ENDLESS),
            strict: config.strict,
            min_replicas: config.min_replicas,
            client_name: format!("latchwork:{client}"),
            inbox: format!("{namespace}:inbox:{client}"),
            scratch: ["z", "h", "s"].map(|part| format!("{namespace}:selftest:{{{client}}}:{part}")),
        })
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
        assert_eq!((read.host.as_str(), read.port, read.database), ("::1", 7000, 3));
        assert_eq!(read.address(), "[::1]:7000");
        assert!(read.inbox.starts_with("a%2Fb:inbox:"));
        assert_eq!(settings("redis://h").unwrap().port, 6379);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for url in ["redis://", "redis://a,b", "redis://h/x", "redis://h/-1"] {
            assert_eq!(settings(url).unwrap_err().argument(), Some("url"), "{url}");
        }
        // The client crate would log in as `default`, and report nothing.
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
