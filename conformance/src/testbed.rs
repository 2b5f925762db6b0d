//! A backend under test: its clients, and the faults that a case may inject.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::stamp_address;
use latchwork_core::{Address, Capabilities, Config, Connector, Coordinator, Error, ErrorKind, Result};
use latchwork_servers::proxy::EventLost;
use tokio::time::{Instant, sleep};

/// A fault or an outside change that a case may ask for. [`Fixture::can`] reports which of them a fixture supports. The
/// suite checks the answer: a fixture must refuse an unsupported fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Cut and heal the link between a client and its server.
    Cut,
    /// Lose the reply to one request.
    DropReply,
    /// Deliver one request late, after later requests.
    Park,
    /// Remove a node from outside.
    Remove,
    /// Put a foreign entry into a queue.
    Plant,
    /// Kill the task that renews the lease.
    KillRenewal,
    /// Run clients as separate processes, which can be stopped and killed.
    Processes,
    /// Count the requests that the server received.
    CountRequests,
    /// Lose the message that would wake one waiter, without breaking its connection.
    DropWake,
    /// Limit the bandwidth of a client's requests, so that many requests take long.
    Narrow,
    /// Compact the server's history up to now.
    Compact,
}

/// A backend under test. A run has one testbed; each case gets a new [`Fixture`].
#[async_trait]
pub trait Testbed: Send + Sync {
    /// Returns the name in the summary.
    fn name(&self) -> &str;

    /// Returns whether cases run under tokio's paused clock.
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns the expected capabilities of the backend. The suite compares them with the capabilities of a client.
    fn capabilities(&self) -> Capabilities;

    /// Creates a separate place for one case: a random namespace, or a new store.
    async fn fixture(&self) -> Result<Box<dyn Fixture>>;

    /// Stops the servers that the testbed has started. The suite calls it at the end of a run; without it they run until
    /// the process exits.
    async fn close(&self) {}

    /// Returns the connectors for client processes of this testbed and for cases about connecting.
    fn connectors(&self) -> Vec<Arc<dyn Connector>>;
}

/// The place of one case on a server, and the faults that it may inject.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Returns whether this fixture supports a fault.
    fn can(&self, fault: Fault) -> bool;

    /// Returns the configuration of a client here. A case changes TTL, label or namespace and passes it to
    /// [`client`](Fixture::client).
    fn config(&self) -> Config;

    /// Connects a client over a separate link.
    async fn client(&self, config: &Config) -> Result<Client>;

    /// Lists the data that must not stay on the server, such as nodes of holders and waiters. It must be empty at the end of
    /// each case.
    async fn contents(&self) -> Result<Vec<String>>;

    /// Removes the node at `sequence` on the server, without the library.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts a foreign entry into the queue, in a form that must do no harm.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// Compacts the server's history up to now, so that no watch can start in the past. The default is for a server without
    /// a history.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "this server keeps no history"))
    }

    /// Returns the number of requests that the server has received from all clients.
    async fn requests(&self) -> Result<u64>;

    /// Ends the lease of the client with this label, which is dead or cut off, on the server at once. Returns the remaining
    /// time of each part of the lease; whole seconds are rounded up. The default is for a server that cannot end a lease: it
    /// waits until the lease has run out.
    async fn end_lease(&self, _label: &str, granted: Duration) -> Result<Vec<Duration>> {
        sleep(granted + self.expiry_bound()).await;
        Ok(Vec::new())
    }

    /// Returns how long after the granted TTL a dead client's node may stay (LEASE-EXPIRY).
    fn expiry_bound(&self) -> Duration;

    /// Returns an unused name for `Key::exact`.
    fn exact_name(&self) -> String;

    /// Returns a configuration with which another process reaches the same server without a fault proxy.
    fn process_config(&self) -> Option<Config>;

    /// Returns a configuration with which another process reaches the same server over a separate link, and that link. `None`
    /// if the testbed has no processes.
    async fn process_link(&self) -> Result<Option<(Config, Arc<dyn Link>)>> {
        Ok(None)
    }
}

/// Waits until nothing is left on the server. After this time, returns the rest. A listing takes time: one that started
/// before the end may show data that is gone by now, so the last listing starts after the end.
pub(crate) async fn left_at(fixture: &dyn Fixture, time: Duration) -> Result<Vec<String>> {
    let deadline = Instant::now() + time;
    loop {
        let began = Instant::now();
        let contents = fixture.contents().await?;
        if contents.is_empty() || began >= deadline {
            return Ok(contents);
        }
        // Dropped guards are released in the background, without an event of the server.
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the namespaces of one case: the fixture's, and two more for cases that need several.
pub(crate) fn of_a_case(namespace: &str) -> [String; 3] {
    ["", "-2", "-3"].map(|suffix| format!("{namespace}{suffix}"))
}

/// Returns the cells that stay in a fixture's `namespace` and in the namespaces that a case derives from it: their layouts.
/// [`Fixture::contents`] must list everything except these.
///
/// # Errors
/// `InvalidArgument` if `namespace` is not valid.
pub fn stamps(namespace: &str) -> Result<Vec<Address>> {
    of_a_case(namespace).iter().map(|namespace| stamp_address(namespace)).collect()
}

/// A client of the backend under test, and its link.
#[derive(Clone)]
pub struct Client {
    /// The client.
    pub coordinator: Coordinator,
    /// The link to the server.
    pub link: Arc<dyn Link>,
}

impl Client {
    /// Returns the TTL of its lease.
    pub(crate) fn ttl(&self) -> Duration {
        self.coordinator.lease().ttl()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("coordinator", &self.coordinator).finish_non_exhaustive()
    }
}

/// The link between one client and its server.
#[async_trait]
pub trait Link: Send + Sync {
    /// Stops all traffic.
    fn cut(&self);

    /// Lets all traffic pass again.
    fn heal(&self);

    /// Refuses new connections until [`heal`](Link::heal), and serves open ones: a client that loses its connection cannot
    /// reconnect. Does nothing on a link without connections.
    fn refuse(&self) {}

    /// Delivers requests, and holds replies until [`heal`](Link::heal). Returns false if the link cannot do that.
    fn silence(&self) -> bool {
        false
    }

    /// Drops the reply to the next request that names `key`, after the server has executed it. Plain reads of ZooKeeper do not
    /// count.
    fn drop_reply(&self, key: &str) -> Box<dyn Armed>;

    /// Catches the next request that names `key`, to deliver it late. Plain reads of ZooKeeper do not count.
    fn park(&self, key: &str) -> Box<dyn Armed>;

    /// Delays each request and its reply by `delay` in total, half in each direction, until [`heal`](Link::heal).
    fn delay(&self, delay: Duration);

    /// Drops the next message that would wake the waiter at `sequence`. Returns false if the link cannot do that.
    fn drop_wake(&self, queue: &Address, sequence: u64) -> bool;

    /// Limits requests to this many bytes a second, one after the other, until [`heal`](Link::heal). Returns false if the link
    /// cannot do that.
    fn narrow(&self, _bytes_a_second: u32) -> bool {
        false
    }

    /// Returns the traffic of requests up to now: bytes, or requests if they have no bytes. Each request adds to it.
    fn asked(&self) -> u64;

    /// Kills the task that renews the lease. Returns false if the link cannot do that.
    fn kill_renewal(&self) -> bool;
}

/// A fault that waits for its request.
#[async_trait]
pub trait Armed: Send {
    /// Waits until the request has come (and, for a dropped reply, was executed).
    ///
    /// # Errors
    /// [`EventLost`] if its connection broke for another reason.
    async fn caught(&mut self) -> std::result::Result<(), EventLost>;

    /// Delivers a parked request, and waits until the server has executed it.
    async fn deliver(self: Box<Self>);
}
