//! A real server, or several of one ensemble. Each client has a fault proxy before each server.

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

/// Access of an operator to a server without the library: by the client crate or the server's own tools.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Lists the data that must not stay under `namespace` (as encoded on the server) and under the exact `names`: nodes of holders,
    /// waiters and members. Data that a documented call stores, or that expires, is left out.
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>>;

    /// Removes the node at `sequence`.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts a foreign entry into the queue, which must do no harm.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// Ends the lease of the client with this label, in this namespace and the ones that a case derives from it. Returns the
    /// remaining time of each part of the lease; whole seconds are rounded up.
    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>>;

    /// Returns whether the server has a history that can be compacted.
    fn compacts(&self) -> bool {
        false
    }

    /// Compacts the server's history up to now.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "this server keeps no history"))
    }

    /// Returns the number of requests of the server, without the requests of this call.
    async fn requests(&self) -> Result<u64>;
}

/// Opens an [`Admin`] of the server at this address, on the runtime of the case. Commas separate several addresses.
pub type OpenAdmin = fn(addr: String) -> futures_util::future::BoxFuture<'static, Result<Box<dyn Admin>>>;

/// The prefix of the namespaces of all fixtures.
pub(super) const NAMESPACES: &str = "t";

fn no_port(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "no port for a proxy").because(error)
}

/// A backend on a real server.
#[derive(Clone, Debug)]
pub struct ServerTestbed {
    /// The name of the backend.
    pub name: &'static str,
    /// The connector of the backend.
    pub connector: Arc<dyn Connector>,
    /// The expected capabilities.
    pub capabilities: Capabilities,
    /// The `host:port` of each server for clients.
    pub hosts: Vec<String>,
    /// The number of servers, from the first, whose addresses a client gets. These servers name the others to the client. Each server
    /// has a proxy in any case. By default a client gets all addresses.
    pub doors: usize,
    /// The `host:port` of each server for the operator.
    pub admin_hosts: Vec<String>,
    /// The configuration of a client, without hosts.
    pub config: Config,
    /// The bound of LEASE-EXPIRY, in addition to the TTL.
    pub expiry_bound: Duration,
    /// Opens the access of an operator.
    pub admin: OpenAdmin,
    /// The prefix of names for `Key::exact`.
    pub exact_prefix: &'static str,
    /// TLS, which ends before the proxies and starts again after them.
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<latchwork_servers::Certificates>>,
    // The servers and their files, which must exist during the whole run.
    kept: Arc<Mutex<Vec<Box<dyn fmt::Debug + Send + Sync>>>>,
}

impl ServerTestbed {
    /// Creates a testbed on these `hosts`, which are one coordinator for clients, with a `url` for `connector`.
    ///
    /// # Errors
    /// `InvalidArgument` if the URL is not of this backend, or has a login, or a path other than Redis' database 0.
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

    /// Adds servers or files that end with the testbed.
    pub fn keeping(self, what: impl fmt::Debug + Send + Sync + 'static) -> Self {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(what));
        self
    }

    /// Sets the addresses for clients. The operator's addresses do not change.
    pub fn at(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }

    /// Sets the login of clients. The operator logs in where it is opened.
    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(super) fn logged_in(mut self, user: &str, password: &str) -> Self {
        self.config.user = Some(user.to_owned());
        self.config.password = Some(latchwork_core::Secret::new(password));
        self
    }

    /// Sets another name.
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
        // A container is removed on the runtime that created it.
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        drop(kept);
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::clone(&self.connector)]
    }
}

struct ServerFixture {
    /// The testbed, with the namespace of this case.
    testbed: ServerTestbed,
    admin: Box<dyn Admin>,
    last_name: AtomicU64,
    // They outlive the clients, which send their last requests after a case has dropped them.
    proxies: Mutex<Vec<Arc<Proxy>>>,
    #[cfg(feature = "tls")]
    terminators: Mutex<Vec<Terminator>>,
}

impl ServerFixture {
    /// Creates the link of a client: a proxy to each server. TLS ends before the proxy and starts again after it.
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
        // The renewal task cannot be killed alone from outside. A proxy that reads no protocol can lose a message only with
        // its connection.
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
            // A restarted server has closed the operator's connection too.
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
        // Failovers and moves are judged by requests with the default timeout.
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
