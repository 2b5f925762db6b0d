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
    /// Gives everything back at once; the server confirms it.
    Orderly,
    /// Simulates a crash, for tests: nothing more is sent, and the nodes remain until the lease expires. The
    /// client's holds are lost as `Expired` at their deadline.
    Abrupt,
}

/// Whether confirmed data survives an end of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incarnation {
    /// Data is on disk before it is confirmed. A server that has lost some of it has lost all of it,
    /// including cells and leases.
    Durable,
    /// Data may be lost in part when the server ends. This text is another one after a restart or a
    /// replacement.
    Started(String),
    /// Data may be lost, but the server does not identify its incarnation, or no server was reached yet.
    Unknown,
}

/// A connected client of one coordinator: one set of connections, one lease, one inbox. Its background tasks
/// end with [`close`](Backend::close) or with the last handle.
///
/// *Every request* of a backend is one try, bounded by the request timeout. If it fails with `Unavailable`,
/// it was not carried out. After `OutcomeUnknown`, or a drop, it may have been carried out, or may be carried
/// out later. A read of a cell, a queue or a list of keys sees every write that was confirmed to any client
/// before.
#[async_trait]
pub trait Backend: SequentialNodes + Cells + fmt::Debug + 'static {
    /// Returns the name of the backend: `memory`, `redis`, `zookeeper`, `etcd`.
    fn name(&self) -> &'static str;

    /// Returns the promises of the backend beyond the contracts.
    fn capabilities(&self) -> Capabilities;

    /// Returns the client's current lease. After a loss the next join opens a new one (LEASE-REOPEN), so call
    /// this again. If nodes are leased one by one (Redis), this lease is live while every node is renewed in
    /// time, or, without nodes, while the server answers. It is lost when the deadlines of all nodes have
    /// passed.
    fn lease(&self) -> Lease;

    /// Returns the incarnation of the server that gave the last answer, or of a later one.
    fn incarnation(&self) -> Incarnation;

    /// Lists about `most` keys of a kind, starting where the previous page ended (`None`: the first page).
    ///
    /// A key that appears or disappears during the listing may be missed, and a key may be in two pages.
    /// Exact keys are not listed.
    ///
    /// # Errors
    /// `InvalidArgument`: names `after` for text that no page gave, or `kind` for [`KeysWith::Cell`] of a
    /// kind without cells ([`QueuePrefix::check_cells`]).
    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>>;

    /// Reads the server's settings and state for diagnosis. A fact that the login may not read is
    /// [`Fact::Forbidden`](crate::facts::Fact::Forbidden).
    async fn server_facts(&self) -> Result<ServerFacts>;

    /// Closes the client (LEASE-CLOSE): gives every node and lease back. Every hold is lost as `Closed`, and
    /// later calls answer `Closed`.
    ///
    /// A second close answers like the first. Core releases the nodes of a very large client before: usually
    /// at most [1,024](crate::decide::IN_ONE_STEP) are left.
    ///
    /// # Errors
    /// `Unavailable` if the server did not confirm it. The end of the lease then removes everything.
    ///
    /// # Cancel safety
    /// Closing continues in the background.
    async fn close(&self, how: Close) -> Result<()>;
}
