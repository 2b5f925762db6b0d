//! A connected client of one coordinator.

use std::fmt;

use async_trait::async_trait;

use super::lease::Lease;
use super::nodes::SequentialNodes;
use crate::capabilities::Capabilities;
use crate::error::Result;

/// How a client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Everything is given back at once, with an answer.
    Orderly,
    /// The client dies: nothing more is sent, and what it has is left to its lease. Its
    /// holds are lost as `Expired` when their deadline comes. For tests of crashes.
    Abrupt,
}

/// A connected client of one coordinator: one set of connections, one lease, one inbox.
///
/// A backend owns its background tasks (renewal, inbox, watches); they end with [`close`](Backend::close) or
/// when the last handle is dropped.
#[async_trait]
pub trait Backend: SequentialNodes + fmt::Debug + 'static {
    /// The backend's name: `memory`, `redis`, `zookeeper`, `etcd`.
    fn name(&self) -> &'static str;

    /// What it promises beyond the contract.
    fn capabilities(&self) -> Capabilities;

    /// The client's lease as it is now. After a loss the next join opens a new one (LEASE-REOPEN), so ask again.
    ///
    /// Where nodes are leased one by one (Redis): live while every node was renewed in time, or, with no
    /// node, while the server answers; lost when the deadlines of all nodes have passed.
    fn lease(&self) -> Lease;

    /// Ends the client (LEASE-CLOSE): every node and lease is given back, every hold is lost as `Closed`, later calls
    /// answer `Closed`. Bounded by the request timeout, within which a server that cannot be reached is asked again. A second
    /// close answers like the first.
    ///
    /// # Errors
    /// `Unavailable` when the server could not be told: the lease then takes everything back.
    ///
    /// # Cancel safety
    /// Closing goes on in the background.
    async fn close(&self, how: Close) -> Result<()>;
}
