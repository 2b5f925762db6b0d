//! A connected client of one coordinator.

use std::fmt;

use async_trait::async_trait;

use super::cells::Cells;
use super::lease::Lease;
use super::listed_key::{KeysWith, ListedKey};
use super::nodes::SequentialNodes;
use crate::address::QueuePrefix;
use crate::capabilities::Capabilities;
use crate::error::Result;
use crate::facts::ServerFacts;
use crate::listing::Page;

/// How a client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Everything is given back at once, and the server confirms it.
    Orderly,
    /// The client crashes: nothing more is sent, and its nodes are left to the lease. Its holds are
    /// lost as `Expired` at their deadline. For tests of crashes.
    Abrupt,
}

/// What becomes of what a server has confirmed when the server ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incarnation {
    /// It is on disk before it is confirmed: a server that has forgotten any of it has lost all of
    /// it, cells and leases included.
    Durable,
    /// It may be lost in part when the server ends. A server that was started again, or replaced,
    /// has another text here.
    Started(String),
    /// It may be lost, and the server does not say which one it is; or none was reached yet.
    Unknown,
}

/// A connected client of one coordinator: one set of connections, one lease, one inbox.
///
/// A backend owns its background tasks (renewal, inbox, watches); they end with
/// [`close`](Backend::close) or when the last handle is dropped.
#[async_trait]
pub trait Backend: SequentialNodes + Cells + fmt::Debug + 'static {
    /// The backend's name: `memory`, `redis`, `zookeeper`, `etcd`.
    fn name(&self) -> &'static str;

    /// What the backend promises beyond the contracts.
    fn capabilities(&self) -> Capabilities;

    /// The client's current lease. After a loss the next join opens a new one (LEASE-REOPEN), so
    /// call this again.
    ///
    /// If nodes are leased one by one (Redis), this lease is live while every node was renewed in
    /// time, or, without nodes, while the server answers. It is lost when the deadlines of all
    /// nodes have passed.
    fn lease(&self) -> Lease;

    /// Which incarnation of the server this client talks to. Read after an answer, it is that of the
    /// server that has answered, or of a later one.
    fn incarnation(&self) -> Incarnation;

    /// Lists the keys of a kind: about `most` of them at most, from where the page before ended (`None`:
    /// the first page). It sees every write that was confirmed to any client before the call. A key that
    /// comes or goes during the listing may be missed. The order is the backend's, and a key may be in two
    /// pages. Exact keys are not listed.
    ///
    /// # Errors
    /// `Unavailable`; `InvalidArgument` naming `after` for text that no page gave, or `kind` for
    /// [`KeysWith::Cell`] of a kind that keeps no cells ([`QueuePrefix::check_cells`]).
    ///
    /// # Cancel safety
    /// Reads only.
    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>>;

    /// Asks the server what it says of itself: for diagnosis, with a few requests of its own, bounded by
    /// the request timeout each. Nothing else depends on it. It needs no right that a client does not
    /// need anyway: where the login may not ask for a fact, that fact says so
    /// ([`Fact::Forbidden`](crate::facts::Fact::Forbidden)).
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer; `Closed`.
    ///
    /// # Cancel safety
    /// Changes nothing that counts.
    async fn server_facts(&self) -> Result<ServerFacts>;

    /// Ends the client (LEASE-CLOSE): every node and lease is given back, every hold is lost as
    /// `Closed`, and later calls answer `Closed`. Bounded by the request timeout, with retries
    /// within it. A second close answers like the first. Core has left most of very many nodes before,
    /// so that there are mostly [1,024](crate::decide::IN_ONE_STEP) at most.
    ///
    /// # Errors
    /// `Unavailable` when the server did not confirm it: the lease then takes everything back.
    ///
    /// # Cancel safety
    /// Closing goes on in the background.
    async fn close(&self, how: Close) -> Result<()>;
}
