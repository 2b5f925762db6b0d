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

/// Describes how to reach a coordinator, and its settings.
///
/// It is parsed from a URL ([`Config::from_url`], [`str::parse`]). serde reads it from a table of these
/// fields or from a URL, and writes a table without the password.
///
/// No error of this library quotes a password, but the error of a file parser may quote the file. (With the
/// crate `toml`, show `error.message()`, which does not.)
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
    /// The servers, as `host` or `host:port`. For `memory` at most one: the name of the shared store.
    pub hosts: Vec<String>,
    /// The path after the hosts: a Redis database number, or a ZooKeeper chroot.
    pub path: String,
    /// The user name.
    pub user: Option<String>,
    /// The password, which serde never writes.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Whether the client uses TLS with all servers, including Sentinels and each server of a cluster. The
    /// URL schemes are `rediss://`, `rediss-sentinel://`, `rediss-cluster://`, `zookeeper+tls://` and
    /// `etcd+tls://`. Needs the crate feature `tls`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// TLS: a PEM file with the authorities that may sign the server's certificate (default: the authorities
    /// of the system).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// TLS: a PEM file with the client's certificate and its intermediate certificates. Needs
    /// [`key`](Self::key). The client reads all TLS files at each dial, so a new connection uses renewed
    /// files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// TLS: a PEM file with the private key of [`cert`](Self::cert).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// TLS: the name in the certificate of each server, if it is not the host name: for example with a
    /// tunnel, or if the URL has an address. Applies also to servers that Sentinels and a Redis Cluster
    /// announce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The namespace of all keys (default `latchwork`).
    pub namespace: String,
    /// The coordinator's name, 1 to 255 bytes. It identifies the coordinator if a program has several, and
    /// orders their locks in a [`MultiLock`](crate::recipes::MultiLock). Use the same name in all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The TTL of the lease, 1 s to 1 h (default 10 s).
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// The deadline of a connect with all its steps (default 5 s).
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The timeout of one request (default 2 s).
    #[serde(with = "humantime_serde")]
    pub request_timeout: Duration,
    /// The label shown in listings (default: host, process id and a short random client id).
    pub label: Option<String>,
    /// The number of replicas that must confirm each acquisition (default 0; only Redis).
    /// [`Acquire::min_replicas`](crate::recipes::Acquire::min_replicas) sets it for one acquisition, and
    /// explains its limits.
    #[serde(skip_serializing_if = "is_none_asked")]
    pub min_replicas: u32,
    /// The options of this backend, such as `tick` of ZooKeeper or `strict` of Redis.
    #[serde(flatten)]
    pub options: Options,
    /// The two coordinators of a move, if the backend is `moving`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Box<MoveConfig>>,
    #[serde(skip)]
    pub(crate) credentials: Provider,
    #[serde(skip)]
    pub(crate) layout: u32,
    #[serde(skip)]
    pub(crate) operator: bool,
    #[serde(skip)]
    pub(crate) participates: Option<Participates>,
}

/// A move in which a client takes part, and the number that its clients of both sides share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Participates {
    pub(crate) name: Arc<str>,
    pub(crate) client: Arc<str>,
}

/// Names both coordinators of a move, for a client that [takes part in it](crate::decide::moving).
///
/// The URL form is `moving:?from=<URL>&to=<URL>&move=<name>`. The two URLs inside write `&` as `%26` and `%`
/// as `%25`.
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
    /// The old side: the coordinator before the move.
    pub from: Config,
    /// The new side: the coordinator after the move.
    pub to: Config,
    /// The name of the move, the same in all participants: 1 to 200 bytes.
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

/// The timeout that a backend uses for `Duration::MAX`, if its client crate adds the timeout to an instant.
pub const ENDLESS: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// Returns a configuration with default values for a backend.
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

    /// Sets an [option of the backend](Self::options).
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name, value);
        self
    }

    /// Sets a provider of the login for each dial, which replaces `user` and `password`.
    #[must_use]
    pub fn with_credentials(mut self, provider: impl CredentialsProvider + 'static) -> Self {
        self.credentials = Provider(Some(Arc::new(provider)));
        self
    }

    /// Makes this the configuration of an [`Operator`](crate::Operator)'s client. A URL or a file cannot set this.
    #[must_use]
    pub fn as_operator(mut self) -> Self {
        self.operator = true;
        self
    }

    /// Returns whether this is the configuration of an [`Operator`](crate::Operator)'s client, which may
    /// connect to a server that refuses writes. For backends.
    pub fn is_operator(&self) -> bool {
        self.operator
    }

    pub(crate) fn who(&self) -> Who<'_> {
        Who::of(self.operator, self.participates.as_ref().map(|of| &*of.name))
    }

    /// Makes this the configuration of one of a participant's two clients, which share the number `client`.
    /// For tests. A participant connects to [both sides](Self::of_move).
    #[doc(hidden)]
    #[must_use]
    pub fn as_participant(mut self, name: &str, client: &str) -> Self {
        self.participates = Some(Participates { name: name.into(), client: client.into() });
        self
    }

    /// Makes the client register as a build that supports layouts up to `layout`, and accept only these in
    /// the [stamp](crate::registry). For tests of rolling upgrades.
    #[doc(hidden)]
    #[must_use]
    pub fn as_of_layout(mut self, layout: u32) -> Self {
        self.layout = layout;
        self
    }

    /// Returns the hosts as `host:port`. A host without a port gets `port`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `url` if there are no hosts.
    pub fn hosts_with_port(&self, port: u16) -> Result<Vec<String>> {
        if self.hosts.is_empty() {
            return Err(Error::invalid(
                "url",
                format!("{0}:// needs a host: write {0}://host", self.backend),
            ));
        }
        let has_port = |host: &str| host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
        Ok(self
            .hosts
            .iter()
            .map(|host| if has_port(host) { host.clone() } else { format!("{host}:{port}") })
            .collect())
    }
}
