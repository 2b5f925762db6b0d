use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Backoff, Pauses, connect_within, note_failure};
use latchwork_core::{Address, Clock, Config, Connector, Error, ErrorKind, Result};

use crate::backend::EtcdBackend;
use crate::client::Client;
use crate::config::{NAME, Settings};
use crate::driver::{Compare, Driver, EventKind, Op, Order, Range, Status, StreamEvent, Txn, Watch};
use crate::error::{Answer, Failure, late};
use crate::layout::Layout;
use crate::probe;

/// The first etcd with watch ids that the client chooses, and compares over ranges.
const OLDEST: (u32, u32) = (3, 4);
/// Servers that crash when a transaction of reads alone is cancelled by any client (a dropped future, a
/// timeout): up to 3.5.4 always, 3.5.5 and 3.5.6 if it was also slow.
const CRASHING: ((u32, u32), std::ops::Range<u32>) = ((3, 5), 0..7);

/// Opens clients of etcd: `etcd://[user:password@]host[:port][,host…][?option=value&…]`, and `etcd+tls://`
/// with the feature `tls`.
///
/// [`Config::connect_timeout`] limits all steps: find a server that speaks HTTP/2 (the error names a Redis or
/// ZooKeeper server), log in, check the version (3.4 or later) and the permissions under the namespace, and
/// grant the client's lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdConnector;

/// Returns the connector of `etcd://`.
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(EtcdConnector)
}

/// Deletes the namespace of this configuration, and returns the number of deleted keys.
///
/// Deletes held locks and values without a warning: use it for the namespace of one run, after its clients
/// have ended.
///
/// # Errors
/// * `Unavailable` or `OutcomeUnknown`: a part may be deleted. Call it again.
/// * The errors of the connector.
///
/// # Cancel safety
/// A part may be deleted.
#[doc(hidden)]
pub async fn delete_namespace(config: &Config) -> Result<usize> {
    let settings = Settings::read(config)?;
    let deleting = async {
        settings.transport.prepare().await?;
        let driver = Driver::connect(&settings).await.map_err(Error::from).map_err(not_yet)?;
        Ok(driver.delete_below(&Layout::new(&config.namespace).root()).await?)
    };
    let deleted = connect_within(config.connect_timeout, "etcd", &settings.endpoints, deleting).await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

#[async_trait]
impl Connector for EtcdConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        config.validate()?;
        Settings::read(config).map(|_| ())
    }

    fn speaks_tls(&self) -> bool {
        cfg!(feature = "tls")
    }

    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        Layout::new(&config.namespace).queue(queue).map(drop)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        connect(config, Settings::read(config)?).await
    }
}

/// Returns a connector whose clients use only the plain protocol, for tests.
#[cfg(feature = "controls")]
pub fn connector_without_fast_path() -> Arc<dyn Connector> {
    Arc::new(WithoutFastPath)
}

#[cfg(feature = "controls")]
#[derive(Debug)]
struct WithoutFastPath;

#[cfg(feature = "controls")]
#[async_trait]
impl Connector for WithoutFastPath {
    fn name(&self) -> &'static str {
        EtcdConnector.name()
    }

    fn validate(&self, config: &Config) -> Result<()> {
        EtcdConnector.validate(config)
    }

    fn speaks_tls(&self) -> bool {
        EtcdConnector.speaks_tls()
    }

    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        EtcdConnector.check(config, queue)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        connect(config, Settings { fast_path: false, ..Settings::read(config)? }).await
    }
}

async fn connect(config: &Config, settings: Settings) -> Result<Arc<dyn Backend>> {
    connect_within(config.connect_timeout, "etcd", &settings.endpoints, open(&settings, config)).await
}

async fn open(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>> {
    settings.transport.prepare().await?;
    probe::find_server(&settings.endpoints, &settings.transport).await?;
    let (clock, mut backoff) = (Clock::system(), Backoff::new(Pauses::OUTAGE));
    loop {
        match log_in(settings, config).await {
            // The server has no leader yet, or no time. The caller bounds the time.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                tracing::debug!(%error, "etcd does not serve yet");
                note_failure(&error);
                backoff.wait(&clock).await;
            }
            answer => return answer,
        }
    }
}

async fn log_in(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>> {
    let driver = Driver::connect(settings).await.map_err(Error::from).map_err(not_yet)?;
    check_server(&driver, &settings.endpoints).await?;
    let layout = Layout::new(&config.namespace);
    let (permitted, direct) = tokio::join!(
        check_permissions(&driver, &layout, &settings.scratch, config.is_operator()),
        check_no_proxy(&driver, &settings.scratch)
    );
    permitted?;
    direct?;
    let client = Client::open(driver, layout, config.ttl, settings.fast_path, config.is_operator()).await?;
    Ok(Arc::new(EtcdBackend::new(client)))
}

async fn check_server(driver: &Driver, hosts: &[String]) -> Result<()> {
    let mut learners = 0;
    let version = loop {
        let Status { version, leader, is_learner, .. } =
            driver.status().await.map_err(Error::from).map_err(|error| match error.kind() {
                // The server speaks gRPC, but not etcd's.
                ErrorKind::Misconfigured => {
                    Error::wrong_server("etcd", "a gRPC server that is not etcd", "").because(error)
                }
                _ => not_yet(error),
            })?;
        if leader == 0 {
            return Err(Error::new(ErrorKind::Unavailable, "the etcd servers have no leader"));
        }
        if !is_learner {
            break version;
        }
        // The next request goes to the next host.
        learners += 1;
        if learners == hosts.len() {
            let what = format!(
                "no voting member answers at {}: a learner serves no clients: promote it, or name voting members",
                hosts.join(",")
            );
            return Err(Error::new(ErrorKind::Misconfigured, what));
        }
    };
    check_version(&version)
}

fn check_version(version: &str) -> Result<()> {
    // For example 3.5.0-rc.1.
    let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    let mut parts = version.split('.').map(|part| number(part).unwrap_or(0));
    let [major, minor, patch]: [u32; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    let refused = if (major, minor) < OLDEST {
        format!("etcd {version} is too old: {}.{} or later is needed", OLDEST.0, OLDEST.1)
    } else if (major, minor) == CRASHING.0 && CRASHING.1.contains(&patch) {
        format!(
            "etcd {version} crashes when a client cancels a read (etcd-io/etcd#14110, #14891): {}.{}.{} or later is needed",
            major, minor, CRASHING.1.end
        )
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Misconfigured, refused))
}

/// Asks for every permission, and changes nothing: etcd checks both branches, and the write is in the branch
/// that does not run.
async fn check_permissions(driver: &Driver, layout: &Layout, scratch: &str, operator: bool) -> Result<()> {
    let all = Range { prefix: layout.root(), order: Order::ByKey, limit: 1, keys_only: true };
    let txn = Txn {
        compares: vec![Compare::Present(scratch.to_owned())],
        then: vec![Op::Put { key: scratch.to_owned(), value: Vec::new(), lease: 0 }, Op::Range(all)],
        or_else: vec![Op::Delete(scratch.into())],
    };
    let answer = match driver.txn(txn).await {
        // The server is full, and an operator only reads.
        Err(Failure::Full(_)) if operator => return Ok(()),
        answer => answer.map_err(Error::from),
    };
    answer.map(drop).map_err(|error| match error.kind() {
        ErrorKind::Forbidden => {
            let what = format!("reading and writing all keys under {:?}", layout.root());
            Error::forbidden(&what, "").because(error)
        }
        _ => not_yet(error),
    })
}

/// Checks that the client talks to a member. etcd's grpc-proxy answers renewals from what it knows, so its
/// answers prove no contact. It also replaces the ids of watches, which shows that it is a proxy.
async fn check_no_proxy(driver: &Driver, scratch: &str) -> Result<()> {
    const ID: i64 = 1 << 40;
    let key = scratch.as_bytes().into();
    let watch = Watch { id: ID, key, prefix: false, from: 0, only: EventKind::Deletes };
    let watching = async {
        let (_requests, mut events) = driver.watch(watch).await?;
        Answer::Ok(events.next().await)
    };
    let answer = tokio::time::timeout(driver.request_timeout, watching).await;
    match answer.unwrap_or_else(|_| Err(late())).map_err(Error::from).map_err(not_yet)? {
        Some(StreamEvent::Created { id: ID, .. }) => Ok(()),
        Some(StreamEvent::Created { .. }) => {
            let what = "the host is a grpc-proxy of etcd, which answers renewals without asking a member: name the members";
            Err(Error::new(ErrorKind::Misconfigured, what))
        }
        other => {
            let what = format!("etcd did not create a watch: {other:?}");
            Err(Error::new(ErrorKind::Unavailable, what))
        }
    }
}

/// No request of a connect changes anything that matters, so an unknown outcome only means that no server
/// answers.
fn not_yet(error: Error) -> Error {
    error.of_harmless("etcd does not answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_crashes_is_refused() {
        for (version, says) in [
            ("3.3.27", "3.4 or later"),
            ("3.5.0-rc.1", "3.5.7 or later"),
            ("3.5.1", "crashes when a client cancels a read"),
            ("3.5.6", "3.5.7 or later"),
        ] {
            let error = check_version(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{version}");
            assert!(error.to_string().contains(says), "{version}: {error}");
        }
        for version in ["3.4.0", "3.4.23", "3.5.7", "3.5.28", "3.6.0", "4.0.0"] {
            check_version(version).unwrap();
        }
    }

    #[test]
    fn a_url_that_etcd_has_no_use_for_is_refused_by_name() {
        for (url, argument) in [("etcd://", "url"), ("etcd://h/path", "url"), ("etcd://user@h", "password")] {
            let config = Config::from_url(url).unwrap();
            assert_eq!(EtcdConnector.validate(&config).unwrap_err().argument(), Some(argument), "{url}");
        }
    }
}
