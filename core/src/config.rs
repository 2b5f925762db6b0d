//! How to reach a coordinator: what a URL says, as fields.

mod file;
mod moving;
mod scheme;
mod shared;
mod shown;
mod url;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::url::Url;
use serde::Serialize;

use crate::address::check_length;
use crate::credentials::{CredentialsProvider, Provider};
use crate::decide::check_ttl;
use crate::decide::layout::LAYOUT;
use crate::decide::moving::gate::Who;
use crate::error::{Error, Result};
use crate::label::check_visible;
use crate::secret::Secret;

pub(crate) use self::moving::MOVING;
pub use self::moving::MoveConfig;
pub use self::scheme::{Hosts, Scheme};

/// How to reach a coordinator, and with which settings. Parsed from a URL ([`Config::from_url`],
/// [`str::parse`]), or read from a file by serde, as a table of these fields or as a URL in a
/// string. It is written as a table, without the password.
///
/// No error of this library quotes a password, but the error of a file's parser may quote the file.
/// (With the crate `toml`, show `error.message()`, which does not.)
///
/// ```
/// use latchwork_core::Config;
/// let config: Config = "redis://app:secret@cache:6380/2?ttl=5s&namespace=billing".parse()?;
/// assert_eq!(config.hosts, ["cache:6380"]);
/// assert_eq!(config.ttl.as_secs(), 5);
/// # Ok::<(), latchwork_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Config {
    /// `memory`, `redis`, `zookeeper` or `etcd`; `moving` for a client of two [sides](Self::moving).
    pub backend: String,
    /// `host` or `host:port`; for `memory` at most one, the shared store's name.
    pub hosts: Vec<String>,
    /// What follows the host: a Redis database number, a ZooKeeper chroot.
    pub path: String,
    /// The user name.
    pub user: Option<String>,
    /// The password. Read, never written.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Whether the client speaks TLS: what `rediss://` (and `rediss-sentinel://`,
    /// `rediss-cluster://`), `zookeeper+tls://` and `etcd+tls://` ask for. It is for all servers:
    /// the Sentinels, the master that they name, each server of a cluster. It needs the crate
    /// feature `tls`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// TLS: a file with the certificates (PEM) of those who may sign the server's; without it, those
    /// that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// TLS: a file with the client's certificate (PEM), and those between it and a CA. It goes with
    /// [`key`](Self::key). All these files are read again at each dial, so that what is renewed on
    /// disk is used from the next connection on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// TLS: a file with the private key (PEM) of [`cert`](Self::cert).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// TLS: the name that the server's certificate must have, where it is not the host's: a tunnel, or
    /// an address instead of a name. Of several servers each must have it, those too that Sentinels
    /// and a Redis Cluster name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The namespace of all keys (default `latchwork`).
    pub namespace: String,
    /// The coordinator's name, 1 to 255 bytes: tells several coordinators of one program apart, and
    /// orders their locks in a [`MultiLock`](crate::recipes::MultiLock). Use the same name in all
    /// processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The TTL to ask for, 1 s to 1 h (default 10 s).
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// One deadline for all of connecting (default 5 s).
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The timeout of one request (default 2 s).
    #[serde(with = "humantime_serde")]
    pub request_timeout: Duration,
    /// The label shown in listings (default: host, process id and a short random client id).
    pub label: Option<String>,
    /// ZooKeeper: an upper bound of the server's tickTime (default 2 s). A TTL of one and a half
    /// ticks or less is refused. For another backend, anything but the default is refused.
    #[serde(with = "humantime_serde", skip_serializing_if = "is_default_tick")]
    pub tick: Duration,
    /// ZooKeeper: log in by SASL (DIGEST-MD5) with the login, and not by the digest scheme. It needs
    /// the crate feature `sasl`. Refused for another backend.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sasl: bool,
    /// Redis: refuse a server that may evict locks, rather than warn. Refused for another backend.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Redis: how long a key's last token is kept after its last use, 1 s to 366 days (default 24
    /// h). Tokens rise without it too, unless the server's clock is set back by more than the time
    /// for which the key lay idle. Refused for another backend, which needs to keep none.
    #[serde(with = "humantime_serde::option", skip_serializing_if = "Option::is_none")]
    pub remember: Option<Duration>,
    /// Redis: how many replicas must confirm each acquisition (default 0: none is asked), unless the
    /// acquisition says it ([`Acquire::min_replicas`](crate::recipes::Acquire::min_replicas), which
    /// has what that is worth). Refused for another backend.
    #[serde(skip_serializing_if = "is_none_asked")]
    pub min_replicas: u32,
    /// Redis: the hosts are Sentinels, and this is the name under which they watch the master
    /// (`redis-sentinel://h1,h2/service`). Refused for another backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel_service: Option<String>,
    /// Redis: the user of the Sentinels themselves; that of the master is `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel_user: Option<String>,
    /// Redis: the password of the Sentinels themselves. Read, never written.
    #[serde(skip_serializing)]
    pub sentinel_password: Option<Secret>,
    /// Redis: the hosts are some of a Redis Cluster, which know the others (`redis-cluster://h1,h2`).
    /// Refused for another backend.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cluster: bool,
    /// The two coordinators of a move, where the backend is `moving`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Box<MoveConfig>>,
    /// Gives the login at each dial, in the place of `user` and `password`.
    #[serde(skip)]
    pub(crate) credentials: Provider,
    /// The highest layout that its clients work with.
    #[serde(skip)]
    pub(crate) layout: u32,
    /// Whether its clients are an operator's.
    #[serde(skip)]
    pub(crate) operator: bool,
    /// The move in which its clients take part.
    #[serde(skip)]
    pub(crate) participates: Option<Arc<str>>,
}

fn default_namespace() -> String {
    "latchwork".to_owned()
}
fn default_ttl() -> Duration {
    Duration::from_secs(10)
}
fn default_connect_timeout() -> Duration {
    Duration::from_secs(5)
}
fn default_request_timeout() -> Duration {
    Duration::from_secs(2)
}
fn default_tick() -> Duration {
    Duration::from_secs(2)
}
fn default_layout() -> u32 {
    LAYOUT
}
fn is_default_tick(tick: &Duration) -> bool {
    *tick == default_tick()
}

fn is_none_asked(min_replicas: &u32) -> bool {
    *min_replicas == 0
}

/// Options that only one backend has, and which. A third-party backend may use them as it likes.
const ONLY_FOR: [(&str, &str); 9] = [
    ("cluster", "redis"),
    ("strict", "redis"),
    ("remember", "redis"),
    ("min_replicas", "redis"),
    ("sentinel_service", "redis"),
    ("sentinel_user", "redis"),
    ("sentinel_password", "redis"),
    ("tick", "zookeeper"),
    ("sasl", "zookeeper"),
];
const OURS: [&str; 4] = ["memory", "redis", "zookeeper", "etcd"];

/// The name of a backend of ours, for an error that outlives the configuration.
#[cfg(feature = "tls")]
pub(crate) fn backend_name(backend: &str) -> &'static str {
    OURS.into_iter().find(|ours| *ours == backend).unwrap_or("the server of this URL")
}

/// Refuses an option that has no effect on `backend`: the user would rely on it in vain.
fn check_applies(backend: &str, option: &'static str) -> Result<()> {
    match ONLY_FOR.into_iter().find(|(name, _)| *name == option) {
        Some((_, only)) if only != backend && OURS.contains(&backend) => Err(Error::invalid(
            option,
            format!("is an option of {only}://, and means nothing to {backend}://"),
        )),
        _ => Ok(()),
    }
}

/// Replaces an endless timeout (`Duration::MAX`) in a backend whose client adds it to an instant.
pub const ENDLESS: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// The defaults for a backend.
    pub fn new(backend: impl Into<String>) -> Self {
        Self {
            backend: backend.into(),
            hosts: Vec::new(),
            path: String::new(),
            user: None,
            password: None,
            tls: false,
            ca: None,
            cert: None,
            key: None,
            server_name: None,
            namespace: default_namespace(),
            name: None,
            ttl: default_ttl(),
            connect_timeout: default_connect_timeout(),
            request_timeout: default_request_timeout(),
            label: None,
            tick: default_tick(),
            sasl: false,
            strict: false,
            remember: None,
            min_replicas: 0,
            sentinel_service: None,
            sentinel_user: None,
            sentinel_password: None,
            cluster: false,
            moving: None,
            credentials: Provider::default(),
            layout: LAYOUT,
            operator: false,
            participates: None,
        }
    }

    /// With a provider that gives the login at each dial, in the place of `user` and `password`.
    #[must_use]
    pub fn with_credentials(mut self, provider: impl CredentialsProvider + 'static) -> Self {
        self.credentials = Provider(Some(Arc::new(provider)));
        self
    }

    /// For an operator's client: it holds nothing, is let in wherever a namespace [moves or is
    /// retired](crate::Coordinator::retire), and is no reason for another to wait. Its acquisitions and
    /// writes of values are refused (`Misconfigured`); it lists, watches, releases by force, and raises
    /// the layout. A URL or a file does not say it: a program does, for its own clients.
    #[must_use]
    pub fn as_operator(mut self) -> Self {
        self.operator = true;
        self
    }

    /// As what its clients register.
    pub(crate) fn who(&self) -> Who<'_> {
        Who::of(self.operator, self.participates.as_deref())
    }

    /// For one of the two clients of who takes part in a move: for tests that play one. Others connect to
    /// both sides [at once](Self::of_move).
    #[doc(hidden)]
    #[must_use]
    pub fn as_participant(mut self, name: &str) -> Self {
        self.participates = Some(name.into());
        self
    }

    /// As a build that works with layouts up to this one: for tests of rolling upgrades. It changes
    /// what a client says of itself and demands of the [stamp](crate::registry), and nothing else.
    #[doc(hidden)]
    #[must_use]
    pub fn as_of_layout(mut self, layout: u32) -> Self {
        self.layout = layout;
        self
    }

    /// Checks what every backend requires of a configuration.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field.
    pub fn validate(&self) -> Result<()> {
        check_ttl(self.ttl)?;
        match (&self.moving, self.backend == MOVING) {
            (Some(sides), true) => sides.validate()?,
            (Some(_), false) => return Err(Error::invalid("moving", "is of the backend \"moving\"")),
            (None, true) => return Err(Error::invalid("moving", "is missing: a move has two sides")),
            (None, false) => {}
        }
        for (name, timeout) in [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
            ("tick", self.tick),
        ] {
            if timeout.is_zero() {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        self.check_tls()?;
        if self.credentials.0.is_some() && (self.user.is_some() || self.password.is_some()) {
            return Err(Error::invalid("credentials", "a provider and a fixed login: give one of them"));
        }
        if self.credentials.0.is_some() && self.backend == "memory" {
            return Err(Error::invalid("credentials", "memory:// has no login"));
        }
        if self.tick != default_tick() {
            check_applies(&self.backend, "tick")?;
        }
        if self.sasl {
            check_applies(&self.backend, "sasl")?;
        }
        if self.strict {
            check_applies(&self.backend, "strict")?;
        }
        if self.remember.is_some() {
            check_applies(&self.backend, "remember")?;
        }
        if self.min_replicas != 0 {
            check_applies(&self.backend, "min_replicas")?;
        }
        self.check_sentinels()?;
        if self.cluster {
            check_applies(&self.backend, "cluster")?;
            if self.sentinel_service.is_some() {
                return Err(Error::invalid("cluster", "has no Sentinels: its own servers watch each other"));
            }
        }
        crate::address::Address::new(&self.namespace, crate::address::Kind::Mutex, "probe")?;
        for (name, text) in [
            ("namespace", Some(self.namespace.as_str())),
            ("user", self.user.as_deref()),
            ("password", self.password.as_ref().map(Secret::expose)),
            ("path", Some(self.path.as_str())),
            ("sentinel_service", self.sentinel_service.as_deref()),
            ("sentinel_user", self.sentinel_user.as_deref()),
            ("sentinel_password", self.sentinel_password.as_ref().map(Secret::expose)),
        ] {
            check_visible(name, text.unwrap_or_default())?;
        }
        if let Some(name) = &self.name {
            check_length("name", name)?;
            check_visible("name", name)?;
        }
        if let Some(label) = &self.label {
            crate::label::check(label)?;
        }
        self.hosts.iter().try_for_each(|host| check_host("hosts", host))
    }

    /// A login of Sentinels means nothing without them.
    fn check_sentinels(&self) -> Result<()> {
        let given = [
            ("sentinel_service", self.sentinel_service.is_some()),
            ("sentinel_user", self.sentinel_user.is_some()),
            ("sentinel_password", self.sentinel_password.is_some()),
        ];
        for (option, _) in given.into_iter().filter(|(_, given)| *given) {
            check_applies(&self.backend, option)?;
            if self.sentinel_service.is_none() {
                let why = "is for redis-sentinel://h1,h2/service (the field `sentinel_service`)";
                return Err(Error::invalid(option, why));
            }
        }
        if self.sentinel_service.as_deref() == Some("") {
            return Err(Error::invalid("sentinel_service", "is empty: redis-sentinel://h1,h2/service"));
        }
        if self.sentinel_user.is_some() && self.sentinel_password.is_none() {
            return Err(Error::invalid("sentinel_password", "is missing: a Sentinel's user has one too"));
        }
        Ok(())
    }

    /// Refuses half an identity, and what belongs to TLS without TLS: the user would rely on it in vain.
    fn check_tls(&self) -> Result<()> {
        let given = [
            ("ca", self.ca.is_some()),
            ("cert", self.cert.is_some()),
            ("key", self.key.is_some()),
            ("server_name", self.server_name.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given && !self.tls) {
            let plain = Scheme::of(self);
            let tls = plain.with_tls();
            return Err(Error::invalid(
                name,
                format!("is of TLS, which {plain}:// does not speak: write {tls}://"),
            ));
        }
        for (name, missing) in [("key", self.cert.is_some()), ("cert", self.key.is_some())] {
            if missing && self.cert.is_some() != self.key.is_some() {
                return Err(Error::invalid(name, "is missing: a client certificate is `cert` and `key`"));
            }
        }
        for (name, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            check_visible(name, &path.as_deref().unwrap_or("".as_ref()).to_string_lossy())?;
        }
        check_visible("server_name", self.server_name.as_deref().unwrap_or_default())
    }

    /// The hosts, with `port` added to those without one.
    ///
    /// # Errors
    /// `InvalidArgument` naming `url` when there is no host.
    pub fn hosts_with_port(&self, port: u16) -> Result<Vec<String>> {
        if self.hosts.is_empty() {
            return Err(Error::invalid("url", format!("{}:// needs a host", self.backend)));
        }
        let has_port = |host: &str| host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
        Ok(self
            .hosts
            .iter()
            .map(|host| if has_port(host) { host.clone() } else { format!("{host}:{port}") })
            .collect())
    }
}

/// Checks a host by parsing it alone, as the url crate does for the schemes it knows.
///
/// What follows a colon is a port, or the password of a login whose `@host` was forgotten: it is
/// never quoted.
fn check_host(argument: &'static str, host: &str) -> Result<()> {
    let refuse = |why: String| Err(Error::invalid(argument, why));
    if host.contains("://") {
        return refuse(
            "a host has no scheme: give a URL instead of the fields, or a field for each part of it"
                .to_owned(),
        );
    }
    if host.contains('@') {
        return refuse(
            "a host must not hold a login (user and password have fields of their own)".to_owned(),
        );
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    if name.contains(':') && !name.starts_with('[') {
        return refuse("a host has more than one colon: an IPv6 address stands in brackets".to_owned());
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return refuse(format!("what follows {name:?}: is not a port from 1 to 65535"));
    }
    // The url crate silently drops line ends, and name resolution does not.
    let blank = name.contains(|c: char| c.is_whitespace() || c.is_control());
    match Url::parse(&format!("http://{name}/")) {
        Ok(url) if !blank && url.path() == "/" && url.host_str().is_some() => Ok(()),
        _ => refuse(format!("{name:?} is no host")),
    }
}
