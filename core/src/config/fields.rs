//! What a configuration has, and what it has by default.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backend_options::Options;
use crate::credentials::{CredentialsProvider, Provider};
use crate::decide::layout::LAYOUT;
use crate::decide::moving::gate::Who;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// The backend's name in a configuration of both sides.
pub(crate) const MOVING: &str = "moving";

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
    /// How many replicas must confirm each acquisition (default 0), unless the acquisition says it
    /// ([`Acquire::min_replicas`](crate::recipes::Acquire::min_replicas), which has what that is worth).
    /// Redis has it, and other backends refuse it.
    #[serde(skip_serializing_if = "is_none_asked")]
    pub min_replicas: u32,
    /// The options that only this backend has, such as `tick` of ZooKeeper or `strict` of Redis.
    #[serde(flatten)]
    pub options: Options,
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

/// A move between two coordinators: for a client that [takes part in it](crate::decide::moving).
///
/// As a URL it is `moving:?from=<URL>&to=<URL>&move=<name>`, where each URL is coded: `%26` stands for an
/// `&` in it, `%25` for a `%`.
///
/// ```
/// use latchwork_core::Config;
/// let config = Config::from_url("moving:?from=redis://old/2&to=zookeeper://a,b,c/locks&move=to-zookeeper")?;
/// let sides = config.moving.expect("a move");
/// assert_eq!((&*sides.from.backend, &*sides.to.backend, &*sides.name), ("redis", "zookeeper", "to-zookeeper"));
/// # Ok::<(), latchwork_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveConfig {
    /// The old side: where the locks are before the move.
    pub from: Config,
    /// The new side: where they are after it.
    pub to: Config,
    /// The name of the move, the same for all who take part: 1 to 200 bytes.
    #[serde(rename = "move")]
    pub name: String,
}

pub(super) fn default_namespace() -> String {
    "latchwork".to_owned()
}
pub(super) fn default_ttl() -> Duration {
    Duration::from_secs(10)
}
pub(super) fn default_connect_timeout() -> Duration {
    Duration::from_secs(5)
}
pub(super) fn default_request_timeout() -> Duration {
    Duration::from_secs(2)
}
pub(super) fn default_layout() -> u32 {
    LAYOUT
}
fn is_none_asked(min_replicas: &u32) -> bool {
    *min_replicas == 0
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
            min_replicas: 0,
            options: Options::default(),
            moving: None,
            credentials: Provider::default(),
            layout: LAYOUT,
            operator: false,
            participates: None,
        }
    }

    /// With an option of the backend.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name, value);
        self
    }

    /// With a provider that gives the login at each dial, in the place of `user` and `password`.
    #[must_use]
    pub fn with_credentials(mut self, provider: impl CredentialsProvider + 'static) -> Self {
        self.credentials = Provider(Some(Arc::new(provider)));
        self
    }

    /// For the client of an [`Operator`](crate::Operator). A URL or a file cannot set this.
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
