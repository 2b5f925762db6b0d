//! A backend under test.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::stamp_address;
use latchwork_core::{Address, Capabilities, Config, Connector, Coordinator, Error, ErrorKind, Result};
use latchwork_servers::proxy::EventLost;
use tokio::time::{Instant, sleep};

/// A fault or an outside change. A fixture must refuse an [unsupported](Fixture::can) one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Cut and heal a link.
    Cut,
    /// Lose the reply to one request.
    DropReply,
    /// Deliver a request late.
    Park,
    /// Remove a node.
    Remove,
    /// Put a foreign entry into a queue.
    Plant,
    /// Kill the task of renewals.
    KillRenewal,
    /// Run clients as processes.
    Processes,
    /// Count the server's requests.
    CountRequests,
    /// Lose the wake of a waiter, and keep its connection.
    DropWake,
    /// Limit the bandwidth of requests.
    Narrow,
    /// Compact the server's history.
    Compact,
}

/// A backend under test. Each case gets a new [`Fixture`].
#[async_trait]
pub trait Testbed: Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns whether tokio's clock is paused.
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns the capabilities of its clients.
    fn capabilities(&self) -> Capabilities;

    /// Creates a separate place for a case.
    async fn fixture(&self) -> Result<Box<dyn Fixture>>;

    /// Stops its servers at the end of a run.
    async fn close(&self) {}

    /// Returns the connectors for client processes.
    fn connectors(&self) -> Vec<Arc<dyn Connector>>;
}

/// The place of one case on a server.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Returns whether it supports a fault.
    fn can(&self, fault: Fault) -> bool;

    /// Returns the configuration of a client.
    fn config(&self) -> Config;

    /// Connects a client over its own link.
    async fn client(&self, config: &Config) -> Result<Client>;

    /// Lists data that must not stay after a case.
    async fn contents(&self) -> Result<Vec<String>>;

    /// Removes the node at `sequence`, without the library.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts a harmless foreign entry into the queue.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// Compacts the history, so that no watch starts in the past.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "this server keeps no history"))
    }

    /// Returns the requests of all clients.
    async fn requests(&self) -> Result<u64>;

    /// Ends the lease of a dead or cut-off client. Returns the remaining time of each part, in whole seconds rounded up. By default
    /// waits for the end.
    async fn end_lease(&self, _label: &str, granted: Duration) -> Result<Vec<Duration>> {
        sleep(granted + self.expiry_bound()).await;
        Ok(Vec::new())
    }

    /// Returns how long a dead client's node may outlast the TTL (LEASE-EXPIRY).
    fn expiry_bound(&self) -> Duration;

    /// Returns an unused name.
    fn exact_name(&self) -> String;

    /// Returns a configuration for another process, without a fault proxy.
    fn process_config(&self) -> Option<Config>;

    /// Returns a configuration for another process, and its link. `None` without processes.
    async fn process_link(&self) -> Result<Option<(Config, Arc<dyn Link>)>> {
        Ok(None)
    }
}

/// A listing may show data that is gone by its end, so the last one starts after the deadline.
pub(crate) async fn left_at(fixture: &dyn Fixture, time: Duration) -> Result<Vec<String>> {
    let deadline = Instant::now() + time;
    loop {
        let began = Instant::now();
        let contents = fixture.contents().await?;
        if contents.is_empty() || began >= deadline {
            return Ok(contents);
        }
        // Dropped guards are released in the background.
        sleep(Duration::from_millis(50)).await;
    }
}

/// A case may need several namespaces.
pub(crate) fn of_a_case(namespace: &str) -> [String; 3] {
    ["", "-2", "-3"].map(|suffix| format!("{namespace}{suffix}"))
}

/// Returns the stamp cells of a fixture's namespaces, which [`Fixture::contents`] leaves out.
///
/// # Errors
/// If `namespace` is not valid.
pub fn stamps(namespace: &str) -> Result<Vec<Address>> {
    of_a_case(namespace).iter().map(|namespace| stamp_address(namespace)).collect()
}

/// A client and its link.
#[derive(Clone)]
pub struct Client {
    /// The client.
    pub coordinator: Coordinator,
    /// Its link.
    pub link: Arc<dyn Link>,
}

impl Client {
    pub(crate) fn ttl(&self) -> Duration {
        self.coordinator.lease().ttl()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("coordinator", &self.coordinator).finish_non_exhaustive()
    }
}

/// The link of a client.
#[async_trait]
pub trait Link: Send + Sync {
    /// Stops all traffic.
    fn cut(&self);

    /// Ends all faults.
    fn heal(&self);

    /// Refuses new connections until [`heal`](Link::heal), if the link has connections.
    fn refuse(&self) {}

    /// Holds replies until [`heal`](Link::heal). Returns false without support.
    fn silence(&self) -> bool {
        false
    }

    /// Drops the reply to the next request that names `key`, except ZooKeeper's plain reads.
    fn drop_reply(&self, key: &str) -> Box<dyn Armed>;

    /// Catches the next request that names `key`, except ZooKeeper's plain reads.
    fn park(&self, key: &str) -> Box<dyn Armed>;

    /// Delays requests and replies by `delay` in total, half in each direction, until [`heal`](Link::heal).
    fn delay(&self, delay: Duration);

    /// Drops the next wake of a waiter. Returns false without support.
    fn drop_wake(&self, queue: &Address, sequence: u64) -> bool;

    /// Limits requests to this bandwidth until [`heal`](Link::heal). Returns false without support.
    fn narrow(&self, _bytes_a_second: u32) -> bool {
        false
    }

    /// Returns the bytes of all requests, or their number.
    fn asked(&self) -> u64;

    /// Kills the task of renewals. Returns false without support.
    fn kill_renewal(&self) -> bool;
}

/// A fault that waits for its request.
#[async_trait]
pub trait Armed: Send {
    /// Waits for the request (for a dropped reply, its execution).
    ///
    /// # Errors
    /// [`EventLost`] if the connection broke otherwise.
    async fn caught(&mut self) -> std::result::Result<(), EventLost>;

    /// Delivers a parked request, and awaits its execution.
    async fn deliver(self: Box<Self>);
}
