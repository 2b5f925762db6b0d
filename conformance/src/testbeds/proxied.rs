use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::{Address, Capabilities, Config, Connector, Error, ErrorKind, Result, connect};

use super::proxy_link::ProxyLink;
use crate::bounds::{ANSWER, CONNECT};
use crate::testbed::{Client, Fault, Fixture, Link, Testbed};
#[cfg(feature = "tls")]
use latchwork_servers::Terminator;
use latchwork_servers::proxy::Proxy;

/// An operator's access without the library.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Lists data that must not stay under `namespace` (as encoded) and the exact `names`.
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>>;

    /// Removes the node at `sequence`.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts a harmless foreign entry into the queue.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// Ends the lease of a client. Returns the remaining time of each part, in whole seconds rounded up.
    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>>;

    /// Returns whether it has a history to compact.
    fn compacts(&self) -> bool {
        false
    }

    /// Compacts the history.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "this server keeps no history"))
    }

    /// Returns the number of requests, without this call's.
    async fn requests(&self) -> Result<u64>;
}

/// Opens an [`Admin`] of addresses, separated by commas, on the case's runtime.
pub type OpenAdmin = fn(addr: String) -> futures_util::future::BoxFuture<'static, Result<Box<dyn Admin>>>;

pub(super) const NAMESPACES: &str = "t";

fn no_port(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "no port for a proxy").because(error)
}

/// A backend on a server.
#[derive(Clone, Debug)]
pub struct ServerTestbed {
    /// Its name.
    pub name: &'static str,
    /// Its connector.
    pub connector: Arc<dyn Connector>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Each `host:port` for clients.
    pub hosts: Vec<String>,
    /// Clients get this many first addresses; these servers name the others. All have proxies.
    pub doors: usize,
    /// Each `host:port` for the operator.
    pub admin_hosts: Vec<String>,
    /// A client's configuration without hosts.
    pub config: Config,
    /// LEASE-EXPIRY's bound after the TTL.
    pub expiry_bound: Duration,
    /// Opens an operator.
    pub admin: OpenAdmin,
    /// The prefix of exact names.
    pub exact_prefix: &'static str,
    /// TLS ends before the proxies and starts again after them.
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<latchwork_servers::Certificates>>,
    // They must exist during the run.
    kept: Arc<Mutex<Vec<Box<dyn fmt::Debug + Send + Sync>>>>,
}

impl ServerTestbed {
    /// Creates a testbed on `hosts`, which are one coordinator.
    ///
    /// # Errors
    /// `InvalidArgument` if the URL is of another backend, or has a login, or a path other than Redis' database 0.
    pub fn new(
        url: &str,
        hosts: Vec<String>,
        connector: Arc<dyn Connector>,
        capabilities: Capabilities,
        expiry_bound: Duration,
        exact_prefix: &'static str,
        admin: OpenAdmin,
    ) -> Result<Self> {
        let config = Config::from_url(url)?;
        if config.user.is_some() || config.password.is_some() || !["", "0"].contains(&config.path.as_str()) {
            return Err(Error::invalid(
                "url",
                "the suite reads the server without the library: use a URL without a login and a path",
            ));
        }
        Ok(Self {
            name: connector.name(),
            connector,
            capabilities,
            doors: hosts.len(),
            admin_hosts: hosts.clone(),
            hosts,
            config,
            expiry_bound,
            admin,
            exact_prefix,
            #[cfg(feature = "tls")]
            certificates: None,
            kept: Arc::default(),
        })
    }

    async fn open_admin(&self) -> Result<Box<dyn Admin>> {
        (self.admin)(self.admin_hosts.join(",")).await
    }

    /// Adds servers or files to keep.
    pub fn keeping(self, what: impl fmt::Debug + Send + Sync + 'static) -> Self {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(what));
        self
    }

    /// Sets the clients' addresses.
    pub fn at(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }

    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(super) fn logged_in(mut self, user: &str, password: &str) -> Self {
        self.config.user = Some(user.to_owned());
        self.config.password = Some(latchwork_core::Secret::new(password));
        self
    }

    /// Sets the name.
    pub fn called(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

#[async_trait]
impl Testbed for ServerTestbed {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn fixture(&self) -> Result<Box<dyn Fixture>> {
        let mut testbed = self.clone();
        let random = latchwork_core::backend::NodeId::random().to_string();
        testbed.config.namespace = format!("{NAMESPACES}{}", &random[..12]);
        Ok(Box::new(ServerFixture {
            admin: self.open_admin().await?,
            testbed,
            last_name: AtomicU64::new(0),
            proxies: Mutex::default(),
            #[cfg(feature = "tls")]
            terminators: Mutex::default(),
        }))
    }

    async fn close(&self) {
        // A container needs the runtime that created it.
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        drop(kept);
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::clone(&self.connector)]
    }
}

struct ServerFixture {
    testbed: ServerTestbed,
    admin: Box<dyn Admin>,
    last_name: AtomicU64,
    proxies: Mutex<Vec<Arc<Proxy>>>,
    #[cfg(feature = "tls")]
    terminators: Mutex<Vec<Terminator>>,
}

impl ServerFixture {
    async fn way(&self) -> std::io::Result<(Vec<String>, ProxyLink)> {
        let (mut hosts, mut proxies) = (Vec::new(), Vec::new());
        for host in &self.testbed.hosts {
            #[cfg(feature = "tls")]
            if let Some(certificates) = &self.testbed.certificates {
                let behind = Terminator::behind(host.clone(), certificates).await?;
                let proxy = Arc::new(Proxy::start(behind.addr().to_string()).await?);
                let before = Terminator::before(proxy.addr(), certificates).await?;
                hosts.push(before.addr().to_string());
                proxies.push(proxy);
                self.terminators.lock().unwrap_or_else(PoisonError::into_inner).extend([behind, before]);
                continue;
            }
            let proxy = Arc::new(Proxy::start(host).await?);
            hosts.push(proxy.addr().to_string());
            proxies.push(proxy);
        }
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner).extend(proxies.iter().cloned());
        if self.testbed.doors < hosts.len() {
            let port = |host: &String| host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let named = self.testbed.hosts.iter().filter_map(port);
            let ports: Vec<_> = named.zip(proxies.iter().map(|proxy| proxy.addr().port())).collect();
            proxies.iter().for_each(|proxy| proxy.readdress(ports.iter().copied()));
            hosts.truncate(self.testbed.doors);
        }
        Ok((hosts, ProxyLink(proxies)))
    }

    fn exact(&self, number: u64) -> String {
        format!("{}{}-{number}", self.testbed.exact_prefix, self.testbed.config.namespace)
    }
}

#[async_trait]
impl Fixture for ServerFixture {
    fn can(&self, fault: Fault) -> bool {
        // A proxy cannot kill the renewal task, and loses messages only with their connection.
        match fault {
            Fault::KillRenewal | Fault::DropWake => false,
            Fault::Compact => self.admin.compacts(),
            _ => true,
        }
    }

    fn config(&self) -> Config {
        let mut config = self.testbed.config.clone();
        config.connect_timeout = config.connect_timeout.max(CONNECT);
        config.request_timeout = config.request_timeout.max(ANSWER);
        config
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        let (hosts, link) = self.way().await.map_err(no_port)?;
        let mut config = config.clone();
        config.hosts = hosts;
        let coordinator = connect(&[Arc::clone(&self.testbed.connector)], &config).await?;
        Ok(Client { coordinator, link: Arc::new(link) })
    }

    async fn contents(&self) -> Result<Vec<String>> {
        let names: Vec<_> =
            (1..=self.last_name.load(Ordering::Acquire)).map(|number| self.exact(number)).collect();
        let namespace = &self.testbed.config.namespace;
        match self.admin.contents(namespace, &names).await {
            // A restarted server has closed the connection.
            Err(error) if error.may_pass() => {
                self.testbed.open_admin().await?.contents(namespace, &names).await
            }
            contents => contents,
        }
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        self.admin.remove(queue, sequence).await
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        self.admin.plant(queue).await
    }

    async fn compact(&self) -> Result<()> {
        self.admin.compact().await
    }

    async fn end_lease(&self, label: &str, _granted: Duration) -> Result<Vec<Duration>> {
        let left = self.admin.end_lease(&self.testbed.config.namespace, label).await?;
        match left.is_empty() {
            true => Err(Error::invalid("label", format!("the server has no client {label:?}"))),
            false => Ok(left),
        }
    }

    async fn requests(&self) -> Result<u64> {
        self.admin.requests().await
    }

    fn expiry_bound(&self) -> Duration {
        self.testbed.expiry_bound
    }

    fn exact_name(&self) -> String {
        self.exact(self.last_name.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn process_config(&self) -> Option<Config> {
        // Failovers and moves are judged at the default timeout.
        let mut config = self.testbed.config.clone();
        config.connect_timeout = config.connect_timeout.max(CONNECT);
        config.hosts = self.testbed.hosts[..self.testbed.doors].to_vec();
        Some(config)
    }

    async fn process_link(&self) -> Result<Option<(Config, Arc<dyn Link>)>> {
        let (hosts, link) = self.way().await.map_err(no_port)?;
        let mut config = self.config();
        config.hosts = hosts;
        Ok(Some((config, Arc::new(link))))
    }
}
