//! A coordinator under measure.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, connect};

use crate::Result;
use crate::requests::Counter;
use latchwork_servers::{Origin, Server};

/// All keys are below this, or below names that begin so: a run leaves the same few behind, however
/// often it is repeated.
pub(super) const NAMESPACE: &str = "latchwork-bench";

/// A coordinator under measure, and how to look at its server from outside.
#[derive(Debug)]
pub struct Target {
    connectors: Vec<Arc<dyn Connector>>,
    pub(super) config: Config,
    // Kept, since a server of ours ends with it.
    server: Option<Server>,
    pid: Option<u32>,
    counter: Counter,
    // Where its locks move to in MOVE.
    others: Vec<Target>,
}

impl Target {
    /// The store of this process.
    pub fn memory(connectors: Vec<Arc<dyn Connector>>) -> Self {
        let mut config = Config::new("memory");
        config.hosts.push(NAMESPACE.to_owned());
        Self { connectors, config, server: None, pid: None, counter: Counter::None, others: Vec::new() }
    }

    /// A server. `pid` names its process where the server itself does not know it: its share of the
    /// processor is read from there.
    ///
    /// # Errors
    /// When the server's URL is malformed, or the server does not answer.
    pub async fn on(server: Server, pid: Option<u32>, connectors: Vec<Arc<dyn Connector>>) -> Result<Self> {
        let mut config = Config::from_url(server.url())?;
        config.namespace = NAMESPACE.to_owned();
        let pid = server.pid().or(pid);
        let counter = Counter::of(&server).await?;
        Ok(Self { connectors, config, server: Some(server), pid, counter, others: Vec::new() })
    }

    /// A coordinator among others that are compared, on these terms; the store of this process where
    /// there is no server. What a server that was given is asked for is not counted: others may ask
    /// it too.
    ///
    /// # Errors
    /// When a server that was started here does not answer.
    pub async fn compared(
        config: Config,
        server: Option<Server>,
        connectors: Vec<Arc<dyn Connector>>,
    ) -> Result<Self> {
        let counter = match &server {
            Some(server) if server.origin() != Origin::Environment => Counter::of(server).await?,
            _ => Counter::None,
        };
        Ok(Self { connectors, config, server, pid: None, counter, others: Vec::new() })
    }

    /// The same, with another side for MOVE: locks move from this one to that one. It may be this very server,
    /// since each side has a namespace of its own.
    #[must_use]
    pub fn moving_to(mut self, other: Target) -> Self {
        self.others.push(other);
        self
    }

    pub(super) fn others(&self) -> &[Target] {
        &self.others
    }

    pub(super) fn connectors(&self) -> &[Arc<dyn Connector>] {
        &self.connectors
    }

    /// The terms of its clients.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether it is a server that was given, and not started here.
    pub fn is_given(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.origin() == Origin::Environment)
    }

    /// The program that it is, where it was started here.
    pub(super) fn program(&self) -> Option<&Server> {
        self.server.as_ref().filter(|server| server.origin() == Origin::Binary)
    }

    /// Whether its hosts name other servers, to which its clients connect: Sentinels, and a Redis Cluster.
    pub(super) fn names_its_servers(&self) -> bool {
        ["sentinel_service", "cluster"].iter().any(|option| self.config.options.get(option).is_some())
    }

    /// A client whose way leads over this address. TLS goes through it, to the server's own name.
    pub(super) async fn open_at(&self, addr: impl std::fmt::Display, ttl: Duration) -> Result<Coordinator> {
        let mut config = self.config.clone();
        if config.tls && config.server_name.is_none() {
            config.server_name = self.addr().map(host_of);
        }
        (config.hosts, config.ttl) = (vec![addr.to_string()], ttl);
        Ok(connect(&self.connectors, &config).await?)
    }

    /// The backend's name.
    pub fn name(&self) -> &str {
        &self.config.backend
    }

    /// The server's URL and process, for a benchmark in another process; nothing for the store of
    /// this one.
    pub fn server(&self) -> Option<(&str, Option<u32>)> {
        self.server.as_ref().map(|server| (server.url(), self.pid))
    }

    pub(super) fn addr(&self) -> Option<&str> {
        self.server.as_ref().map(Server::addr)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(Server::pid).or(self.pid)
    }

    pub(super) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Opens a client of its own: connection, lease and all.
    ///
    /// # Errors
    /// As `connect`.
    ///
    /// # Cancel safety
    /// As `connect`.
    pub async fn open(&self) -> Result<Coordinator> {
        Ok(connect(&self.connectors, &self.config).await?)
    }

    /// A client for the member of this number of a quorum: with a name and a namespace of its own.
    pub(super) async fn open_member(&self, number: usize) -> Result<Coordinator> {
        let mut config = self.config.clone();
        config.name = Some(format!("member-{number}"));
        config.namespace = format!("{NAMESPACE}-member-{number}");
        Ok(connect(&self.connectors, &config).await?)
    }

    /// A client on this TTL, which may be opened elsewhere.
    pub(super) fn open_with(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<Coordinator>> + Send + use<> {
        let (connectors, mut config) = (self.connectors.clone(), self.config.clone());
        config.ttl = ttl;
        async move { Ok(connect(&connectors, &config).await?) }
    }
}

/// The host of an address, without its port and brackets.
fn host_of(addr: &str) -> String {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}
