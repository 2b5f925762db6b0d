//! A backend under test: how to get clients of it, and what faults it lets a case lay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::stamp_address;
use latchwork_core::{Address, Capabilities, Config, Connector, Coordinator, Error, ErrorKind, Result};
use latchwork_servers::proxy::EventLost;
use tokio::time::{Instant, sleep};

/// A fault or an outside hand that a case may ask for. A testbed answers "can you?" by
/// [`Fixture::can`], and the suite checks the answer: what it cannot do, it must refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Cut and heal the link between a client and its server.
    Cut,
    /// Lose the reply to one request.
    DropReply,
    /// Deliver one request late, after others that were sent since.
    Park,
    /// Remove a node from outside.
    Remove,
    /// Put something foreign under a queue.
    Plant,
    /// Let the task that renews the lease die.
    KillRenewal,
    /// Run clients as processes of their own, to be stopped and killed.
    Processes,
    /// Count the requests that the server got.
    CountRequests,
    /// Lose the message that would wake one waiter, while its connection lives.
    DropWake,
    /// Make the way of a client's requests so narrow that many take their time.
    Narrow,
    /// Forget the server's history of what is there now.
    Compact,
}

/// A backend under test. One exists for a run; each case gets a [`Fixture`] of its own.
#[async_trait]
pub trait Testbed: Send + Sync {
    /// The name that the summary shows.
    fn name(&self) -> &str;

    /// Whether cases run under tokio's paused clock.
    fn is_paused(&self) -> bool {
        false
    }

    /// What the backend is expected to promise: compared with what a connected client says.
    fn capabilities(&self) -> Capabilities;

    /// A place of its own for one case: a random namespace, or a store of its own.
    async fn fixture(&self) -> Result<Box<dyn Fixture>>;

    /// The run is over: ends what the testbed has started. It lives as long as the process else.
    async fn close(&self) {}

    /// The connectors by which a client process of this testbed, or a case about connecting,
    /// reaches a server.
    fn connectors(&self) -> Vec<Arc<dyn Connector>>;
}

/// The place where one case plays.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Whether it can lay this fault.
    fn can(&self, fault: Fault) -> bool;

    /// The configuration of a client here: change TTL, label or namespace and hand it to
    /// [`client`](Fixture::client).
    fn config(&self) -> Config;

    /// Connects a client, over a link of its own.
    async fn client(&self, config: &Config) -> Result<Client>;

    /// The nodes (of holders and waiters) and whatever else must not stay on the server: empty at
    /// the end of every case.
    async fn contents(&self) -> Result<Vec<String>>;

    /// Removes the node at `sequence` from outside, past the library.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts an entry under the queue that is no node of ours, such that it must do no harm.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// The server forgets its history up to now, so that no watch can begin in the past. The default
    /// is of a server that keeps none.
    async fn compact(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "compact" }, "no history is kept"))
    }

    /// How many requests the server got up to now, from all clients.
    async fn requests(&self) -> Result<u64>;

    /// Ends on the server, now, what hangs on the lease of the client with this label, which is dead or cut off; and
    /// answers how long each part of it had left. Whole seconds are rounded up. The default is of a server on which no
    /// lease can be ended: it waits until this one has run out.
    async fn end_lease(&self, _label: &str, granted: Duration) -> Result<Vec<Duration>> {
        sleep(granted + self.expiry_bound()).await;
        Ok(Vec::new())
    }

    /// How long after its TTL a dead client's node may stay, beyond the TTL that was granted
    /// (LEASE-EXPIRY).
    fn expiry_bound(&self) -> Duration;

    /// A name for `Key::exact`, unused so far.
    fn exact_name(&self) -> String;

    /// A configuration with which another process reaches the same server without a fault proxy.
    fn process_config(&self) -> Option<Config>;

    /// The configuration with which another process reaches the same server over a link of its own,
    /// and that link; `None` where there are no processes.
    async fn process_link(&self) -> Result<Option<(Config, Arc<dyn Link>)>> {
        Ok(None)
    }
}

/// What is on the server at last: nothing, as soon as that is so, or what is left after this time. No reading is an
/// instant: one that began before the time was over may show in part what has gone since.
pub(crate) async fn left_at(fixture: &dyn Fixture, time: Duration) -> Result<Vec<String>> {
    let deadline = Instant::now() + time;
    loop {
        let began = Instant::now();
        let contents = fixture.contents().await?;
        if contents.is_empty() || began >= deadline {
            return Ok(contents);
        }
        // What was dropped goes in the background, and the server has no event for it.
        sleep(Duration::from_millis(50)).await;
    }
}

/// The namespaces of one case: its fixture's, and those of cases that need several.
pub(crate) fn of_a_case(namespace: &str) -> [String; 3] {
    ["", "-2", "-3"].map(|suffix| format!("{namespace}{suffix}"))
}

/// The cells that stay in a fixture's `namespace`, and in those that a case makes of it: their
/// layouts. [`Fixture::contents`] leaves them out, and nothing beside them.
///
/// # Errors
/// `InvalidArgument` for what is no namespace.
pub fn stamps(namespace: &str) -> Result<Vec<Address>> {
    of_a_case(namespace).iter().map(|namespace| stamp_address(namespace)).collect()
}

/// A client of the backend under test, and the link that it talks over.
#[derive(Clone)]
pub struct Client {
    /// The client.
    pub coordinator: Coordinator,
    /// Its link.
    pub link: Arc<dyn Link>,
}

impl Client {
    /// The TTL of its lease.
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
    /// Nothing passes any more.
    fn cut(&self);

    /// Everything passes again.
    fn heal(&self);

    /// Open connections are served, and new ones are refused until [`heal`](Link::heal): a client that loses its connection
    /// cannot reconnect. Does nothing on a link without connections.
    fn refuse(&self) {}

    /// Requests arrive, and replies are held until [`heal`](Link::heal). Returns false if the link cannot do that.
    fn silence(&self) -> bool {
        false
    }

    /// The reply to the next request that names `key`, and no mere read of ZooKeeper, is lost, after the server has carried it out.
    fn drop_reply(&self, key: &str) -> Box<dyn Armed>;

    /// The next request that names `key`, and no mere read of ZooKeeper, is caught, and delivered late.
    fn park(&self, key: &str) -> Box<dyn Armed>;

    /// Every request and its reply take so long from now on, half of it on each way, until
    /// [`heal`](Link::heal).
    fn delay(&self, delay: Duration);

    /// The next message that would wake the waiter at `sequence` is lost; false where that cannot
    /// be done.
    fn drop_wake(&self, queue: &Address, sequence: u64) -> bool;

    /// Requests pass one after the other, so many bytes in a second, until [`heal`](Link::heal);
    /// false where that cannot be done.
    fn narrow(&self, _bytes_a_second: u32) -> bool {
        false
    }

    /// How much has been asked on it up to now: bytes, or requests if they take no bytes. Each request adds to it.
    fn asked(&self) -> u64;

    /// Kills the task that renews the lease; false where that cannot be done.
    fn kill_renewal(&self) -> bool;
}

/// A fault that waits for its request.
#[async_trait]
pub trait Armed: Send {
    /// Waits until the request came (and, for a dropped reply, was carried out).
    ///
    /// # Errors
    /// [`EventLost`] when its connection broke otherwise.
    async fn caught(&mut self) -> std::result::Result<(), EventLost>;

    /// Delivers a parked request, and waits until the server has carried it out.
    async fn deliver(self: Box<Self>);
}
