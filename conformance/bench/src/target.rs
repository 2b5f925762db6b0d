use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, connect};

use crate::Result;
use crate::requests::Counter;
use latchwork_servers::{Origin, Server};

/// A repeated run leaves the same few keys.
pub(super) const NAMESPACE: &str = "latchwork-bench";

/// A measured coordinator.
#[derive(Debug)]
pub struct Target {
    connectors: Vec<Arc<dyn Connector>>,
    pub(super) config: Config,
    // A server that was started here ends with it.
    server: Option<Server>,
    pid: Option<u32>,
    counter: Counter,
    others: Vec<Target>,
}

impl Target {
    /// Creates a target for the store of this process.
    pub fn memory(connectors: Vec<Arc<dyn Connector>>) -> Self {
        let mut config = Config::new("memory");
        config.hosts.push(NAMESPACE.to_owned());
        Self { connectors, config, server: None, pid: None, counter: Counter::None, others: Vec::new() }
    }

    /// Creates a target for a server. `pid` is its process, for the share of the processor, if the server
    /// does not know it.
    ///
    /// # Errors
    /// If the server's URL is malformed, or the server does not answer.
    pub async fn on(server: Server, pid: Option<u32>, connectors: Vec<Arc<dyn Connector>>) -> Result<Self> {
        let mut config = Config::from_url(server.url())?;
        config.namespace = NAMESPACE.to_owned();
        let pid = server.pid().or(pid);
        let counter = Counter::of(&server).await?;
        Ok(Self { connectors, config, server: Some(server), pid, counter, others: Vec::new() })
    }

    /// Creates a target of a comparison; without a server, for the store of this process. Requests to a given
    /// server are not counted, because other programs use it too.
    ///
    /// # Errors
    /// If a server that was started here does not answer.
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

    /// Adds another side for MOVE. It may be the same server, because each side has its own namespace.
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

    /// Returns the configuration of its clients.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the server was given.
    pub fn is_given(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.origin() == Origin::Environment)
    }

    pub(super) fn program(&self) -> Option<&Server> {
        self.server.as_ref().filter(|server| server.origin() == Origin::Binary)
    }

    /// Sentinels and a Redis Cluster.
    pub(super) fn names_its_servers(&self) -> bool {
        ["sentinel_service", "cluster"].iter().any(|option| self.config.options.get(option).is_some())
    }

    /// TLS has the server's own name.
    pub(super) async fn open_at(&self, addr: impl std::fmt::Display, ttl: Duration) -> Result<Coordinator> {
        let mut config = self.config.clone();
        if config.tls && config.server_name.is_none() {
            config.server_name = self.addr().map(host_of);
        }
        (config.hosts, config.ttl) = (vec![addr.to_string()], ttl);
        Ok(connect(&self.connectors, &config).await?)
    }

    /// Returns the name of the backend.
    pub fn name(&self) -> &str {
        &self.config.backend
    }

    /// Returns the server's URL and process, for a benchmark in another process.
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

    /// Opens a client.
    ///
    /// # Errors
    /// As for `connect`.
    ///
    /// # Cancel safety
    /// As for `connect`.
    pub async fn open(&self) -> Result<Coordinator> {
        Ok(connect(&self.connectors, &self.config).await?)
    }

    pub(super) async fn open_member(&self, number: usize) -> Result<Coordinator> {
        let mut config = self.config.clone();
        config.name = Some(format!("member-{number}"));
        config.namespace = format!("{NAMESPACE}-member-{number}");
        Ok(connect(&self.connectors, &config).await?)
    }

    pub(super) fn open_with(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<Coordinator>> + Send + use<> {
        let (connectors, mut config) = (self.connectors.clone(), self.config.clone());
        config.ttl = ttl;
        async move { Ok(connect(&connectors, &config).await?) }
    }
}

fn host_of(addr: &str) -> String {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}
