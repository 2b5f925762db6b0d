//! From a configuration to a connected backend.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Backend;
use latchwork_core::{Address, Config, Connector, ENDLESS, Error, ErrorKind, Result, Secret};

use crate::backend::EtcdBackend;
use crate::backoff::Backoff;
use crate::driver::Driver;
use crate::keys::Layout;
use crate::lease::Leases;
use crate::probe;
use crate::terms::{Guard, Order, Range, Step};

/// The oldest etcd that has what is used here: client-chosen watch ids, comparisons over ranges.
const OLDEST: (u32, u32) = (3, 4);
const DEFAULT_PORT: u16 = 2379;

/// Opens clients of etcd: `etcd://[user:password@]host[:port][,host…][?option=value&…]`.
///
/// Connecting is one deadline ([`Config::connect_timeout`]) over: finding a server that speaks HTTP/2
/// (so that a Redis or ZooKeeper behind the URL is told by name), the log-in, the version (3.4 or later), a self-test of the
/// permissions under the namespace, and the client's lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdConnector;

/// The connector of `etcd://`.
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(EtcdConnector)
}

/// What the driver needs of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoints: Vec<String>,
    pub(crate) login: Option<(String, Secret)>,
    pub(crate) request_timeout: Duration,
}

impl Settings {
    fn new(config: &Config) -> Result<Self> {
        let login = match (&config.user, &config.password) {
            (Some(user), Some(password)) => Some((user.clone(), password.clone())),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Error::invalid(
                    "password",
                    "etcd logs in with user and password: the password is missing",
                ));
            }
            (None, Some(_)) => {
                return Err(Error::invalid(
                    "user",
                    "etcd logs in with user and password: the user is missing",
                ));
            }
        };
        if !config.path.is_empty() {
            return Err(Error::invalid("url", "etcd:// takes no path; use the option namespace"));
        }
        Ok(Self {
            endpoints: config.hosts_with_port(DEFAULT_PORT)?,
            login,
            request_timeout: config.request_timeout.min(ENDLESS),
        })
    }
}

#[async_trait]
impl Connector for EtcdConnector {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn validate(&self, config: &Config) -> Result<()> {
        config.validate()?;
        Settings::new(config).map(|_| ())
    }

    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        Layout::new(&config.namespace).queue(queue).map(drop)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let settings = Settings::new(config)?;
        match tokio::time::timeout(config.connect_timeout, open(&settings, config)).await {
            Ok(backend) => backend,
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("no etcd answered at {:?} within {:?}", settings.endpoints, config.connect_timeout),
            )),
        }
    }
}

async fn open(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>> {
    probe::find_server(&settings.endpoints).await?;
    let mut backoff = Backoff::new();
    loop {
        match log_in(settings, config).await {
            // A server is there, but has no leader yet, or no time. The caller bounds the time.
            Err(error) if *error.kind() == ErrorKind::Unavailable => {
                tracing::debug!(%error, "etcd does not serve yet");
                backoff.pause().await;
            }
            answer => return answer,
        }
    }
}

async fn log_in(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>> {
    let driver = Driver::connect(settings).await.map_err(Error::from).map_err(not_yet)?;
    check_server(&driver).await?;
    let layout = Layout::new(&config.namespace);
    check_permissions(&driver, &layout).await?;
    let leases = Leases::open(driver.clone(), config.ttl).await?;
    Ok(Arc::new(EtcdBackend::new(driver, layout, leases)))
}

async fn check_server(driver: &Driver) -> Result<()> {
    let (version, has_leader) =
        driver.status().await.map_err(Error::from).map_err(|error| match error.kind() {
            // It speaks gRPC, and does not know etcd's methods.
            ErrorKind::Misconfigured => {
                let saw = "a gRPC server that is no etcd".to_owned();
                Error::new(ErrorKind::WrongServer { expected: "etcd", saw }, "").because(error)
            }
            _ => not_yet(error),
        })?;
    if !has_leader {
        return Err(Error::new(ErrorKind::Unavailable, "the etcd servers have no leader"));
    }
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found < OLDEST {
        let floor = format!("etcd {version} is too old: {}.{} or later is needed", OLDEST.0, OLDEST.1);
        return Err(Error::new(ErrorKind::Misconfigured, floor));
    }
    Ok(())
}

/// Asks for everything that is needed, and does none of it: etcd checks the permissions of both branches
/// of a transaction, whichever runs.
async fn check_permissions(driver: &Driver, layout: &Layout) -> Result<()> {
    let scratch = layout.scratch();
    let all = Range { prefix: layout.root(), order: Order::ByKey, limit: 1, keys_only: true };
    // Nobody else knows this key.
    let never = vec![Guard::Present(scratch.clone())];
    let then = vec![Step::Put { key: scratch.clone(), value: Vec::new(), lease: 0 }, Step::Range(all)];
    driver.transact(never, then, vec![Step::Delete(scratch.into())]).await.map_err(Error::from).map_err(
        |error| match error.kind() {
            ErrorKind::Forbidden { what } => {
                let what = format!("{what}: reading and writing all keys under {:?}", layout.root());
                Error::new(ErrorKind::Forbidden { what }, "").because(error)
            }
            _ => not_yet(error),
        },
    )?;
    Ok(())
}

/// While connecting nothing can have been carried out that matters: what is unknown is only not there.
fn not_yet(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, "etcd does not answer").because(error),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_etcd_has_no_use_for_is_refused_by_name() {
        for (url, argument) in [("etcd://", "url"), ("etcd://h/path", "url"), ("etcd://user@h", "password")] {
            let config = Config::from_url(url).unwrap();
            assert_eq!(EtcdConnector.validate(&config).unwrap_err().argument(), Some(argument), "{url}");
        }
        let config = Config::from_url("etcd://u:p@a,b:1?ttl=30s").unwrap();
        let settings = Settings::new(&config).unwrap();
        assert_eq!(settings.endpoints, ["a:2379", "b:1"]);
    }
}
