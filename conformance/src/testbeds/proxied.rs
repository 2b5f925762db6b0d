//! A real server, or several of one ensemble, each behind one fault proxy per client.

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

/// An operator's hands on a server, past the library: written with the client crate or the server's
/// own tools.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Everything under `namespace` (as it is coded on the server) and under the exact `names` that
    /// must not stay: nodes of holders and waiters, member nodes. What a documented call stores, or
    /// goes by itself, is left out.
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>>;

    /// Removes the node at `sequence`.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts an entry under the queue that is no node of ours and must do no harm.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// Ends what hangs on the lease of the client with this label, in this namespace and those that a case makes of it.
    /// Answers how long each part had left before; whole seconds are rounded up.
    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>>;

    /// Whether the server keeps a history that it can be made to forget.
    fn compacts(&self) -> bool {
        false
    }

    /// The server forgets its history up to now.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "no history is kept"))
    }

    /// How many requests the server got, those of this call not counted.
    async fn requests(&self) -> Result<u64>;
}

/// Opens an [`Admin`] of the server at this address (of several: with commas between them), on the
/// runtime of the case.
pub type OpenAdmin = fn(addr: String) -> futures_util::future::BoxFuture<'static, Result<Box<dyn Admin>>>;

/// What the namespaces of all fixtures begin with.
pub(super) const NAMESPACES: &str = "t";

fn no_port(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "no port for a proxy").because(error)
}

/// A backend on a real server.
#[derive(Clone, Debug)]
pub struct ServerTestbed {
    /// The backend's name.
    pub name: &'static str,
    /// Its connector.
    pub connector: Arc<dyn Connector>,
    /// What it is expected to promise.
    pub capabilities: Capabilities,
    /// `host:port` of each of its servers, for clients.
    pub hosts: Vec<String>,
    /// How many of them a client is told of, the first ones: it hears of the others from these, and
    /// a proxy stands before each all the same. By default all of them.
    pub doors: usize,
    /// The same for the operator.
    pub admin_hosts: Vec<String>,
    /// The configuration of a client, hosts apart.
    pub config: Config,
    /// LEASE-EXPIRY's bound beyond the TTL.
    pub expiry_bound: Duration,
    /// An operator's hands.
    pub admin: OpenAdmin,
    /// The prefix of names for `Key::exact`.
    pub exact_prefix: &'static str,
    /// TLS, which ends before the proxies and begins again behind them.
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<latchwork_servers::Certificates>>,
    // What must live as long as the run: its servers, and their files.
    kept: Arc<Mutex<Vec<Box<dyn fmt::Debug + Send + Sync>>>>,
}

impl ServerTestbed {
    /// A testbed on these `hosts`, which are one for their clients, behind a `url` of the kind that
    /// `connector` connects to.
    ///
    /// # Errors
    /// `InvalidArgument` when the URL is none of ours, or has a login, or a path other than Redis'
    /// database 0.
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
                "the suite looks at the server by itself: it needs one without a login and a path",
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

    /// With its servers, or files of theirs, which go with it.
    pub fn keeping(self, what: impl fmt::Debug + Send + Sync + 'static) -> Self {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(what));
        self
    }

    /// With clients that come at these addresses; the operator stays where it is.
    pub fn at(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }

    /// With clients that log in so. How the operator comes in is said where it is opened.
    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(super) fn logged_in(mut self, user: &str, password: &str) -> Self {
        self.config.user = Some(user.to_owned());
        self.config.password = Some(latchwork_core::Secret::new(password));
        self
    }

    /// Under another name.
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
        // A container is removed on the runtime that it was made on.
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        drop(kept);
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::clone(&self.connector)]
    }
}

struct ServerFixture {
    /// In a namespace of its own.
    testbed: ServerTestbed,
    admin: Box<dyn Admin>,
    last_name: AtomicU64,
    // They outlive the clients, whose last words are said after a case has dropped them.
    proxies: Mutex<Vec<Arc<Proxy>>>,
    #[cfg(feature = "tls")]
    terminators: Mutex<Vec<Terminator>>,
}

impl ServerFixture {
    /// The way of a client: a proxy to each server. TLS ends before the proxy, and begins again behind it.
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
        // The task that renews cannot be killed alone, from outside; and a proxy that reads no
        // protocol can lose a message only with its connection.
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
            // A server that was started again has hung up on the operator too.
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
            true => Err(Error::invalid("label", format!("no client {label:?} is on the server"))),
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
        // Failovers and moves are judged by what requests cost that wait no longer than by default.
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
