//! Distributed locks and other coordination recipes with the same guarantees on Redis, ZooKeeper,
//! etcd and memory.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> latchwork::Result<()> {
//! latchwork::with("memory://", async |coordinator| { // or redis://, zookeeper://, etcd://
//!     let invoices = coordinator.mutex("invoices/2026-11")?; // validates, no I/O, cheap to clone
//!     let hold = invoices.acquire().await?; // waits its turn, fair
//!     println!("write with token {}", hold.token()); // the database refuses a lower token
//!     hold.release().await // fails with `Lost` if another client may have held the lock
//! })
//! .await // releases everything, also after an early `?` or a panic
//! # }
//! ```
//!
//! [`with`] connects and closes, as [`connect`] and [`Coordinator::close`] do in two calls.
//!
//! The cargo features `redis`, `zookeeper` and `etcd` (which needs `protoc` to build) add the backends; the
//! URL selects one. Latchwork runs on tokio only. The feature `blocking` adds `block_on()` to every future,
//! for threads without a runtime.
//!
//! **A lock with a lease alone does not protect data**: a process can pause between its check of the lock and
//! its write. Every exclusive hold has a *fencing token* ([`Fenced::token`]) that rises from holder to
//! holder. Claim it in the database before the first read, and check it at each write:
//! [fencing](guide::fencing).
//!
//! # The guide
//! | to | read |
//! |---|---|
//! | start | [choosing a backend](guide::choosing), [connecting](guide::connecting), [recipes](guide::recipes), [glossary](guide::glossary) |
//! | change from another library | [coming from](guide::coming_from) Redisson, Curator, kazoo, etcd or Redlock; [sharing](guide::sharing) locks with Curator and `etcdctl` |
//! | protect data | [promises of a lock](guide::promises), [fencing](guide::fencing), [errors](guide::errors) |
//! | test | [testing your service](guide::testing) with simulated time and planned faults |
//! | operate | [on call](guide::on_call), [events and metrics](guide::observing), [trust and access control](guide::trust), [data that remains on a server](guide::left_on_servers), [moving](guide::moving) to another coordinator |
//! | extend | [your own backend](guide::own_backend) |

// docs.rs shows which feature an item needs. Other builds ignore it.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Only for builds of the documentation and its tests.
#[cfg(any(doc, doctest))]
pub mod guide;

#[cfg(feature = "blocking")]
pub use latchwork_core::blocking;

use std::sync::Arc;

pub use latchwork_core::recipes::{
    Acquire, Acquired, Barrier, Compared, CountDownLatch, Counter, DoubleBarrier, Election, Fenced, Group,
    GroupChanges, GroupMember, Guard, Hold, IdGenerator, Inside, Leader, Leadership, Membership, MultiGuard,
    MultiLock, MultiMember, Mutex, MutexGuard, Permit, QuorumGuard, QuorumLock, ReadGuard, Reentrant, RwLock,
    Semaphore, SharedValue, Watch, WriteGuard,
};
pub use latchwork_core::{
    Address, Capabilities, CellLife, Claim, ClientRecord, Clock, Config, Connector, Coordinator, Credentials,
    CredentialsProvider, Ended, Error, ErrorKind, Eviction, Expected, HoldState, Key, Kind, Lease,
    LeaseState, Limit, ListedKey, Listing, Loss, LostReason, Moment, MoveConfig, Options, Owner, Page,
    Result, Secret, TimeToIdle, Token, Version, facts, seen as telemetry,
};

/// Tests a service on memory: simulated time, planned faults, and crashes.
pub mod testing {
    pub use latchwork_core::memory::{Link, Memory};
    pub use latchwork_core::{Clock, crash};
}

/// Operates namespaces: raises the layout, retires or moves a namespace.
pub mod operator {
    use crate::{Config, Error, Result};

    pub use latchwork_core::backend::decide::moving::gate::{Course, GateMarker};
    pub use latchwork_core::backend::decide::moving::{MovePhase, Side};
    pub use latchwork_core::{
        Move, MoveAway, MoveBlocker, MoveClient, MoveLate, MoveOutsider, MovePlan, MoveProgress,
        MovePromises, MoveState, MoveStatus, Operator, QueuesInUse, ValuesInUse,
    };

    /// Connects as an [`Operator`] to the coordinator that a URL or a [`Config`] names.
    ///
    /// Errors and cancel safety are as for [`latchwork::connect`](crate::connect()).
    pub async fn connect(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Operator> {
        Operator::connect(&crate::connectors(), &to.try_into().map_err(Into::into)?).await
    }
}

/// Connects to the coordinator that a URL or a [`Config`] names.
///
/// | URL | coordinator |
/// |---|---|
/// | `memory://`, `memory://name` | a store in this process |
/// | `redis://host[:port][/db]`, `redis-sentinel://h1,h2,h3/service`, `redis-cluster://h1,h2` | Redis or Valkey |
/// | `zookeeper://h1,h2,h3/chroot` | ZooKeeper |
/// | `etcd://h1,h2,h3` | etcd |
///
/// [Options](guide::connecting) such as user, password, namespace, TTL and timeouts are parts of the URL or
/// fields of [`Config`]. One deadline (`connect_timeout`, 5 s by default) covers the whole call.
///
/// # Errors
/// * `InvalidArgument`: the URL or a field is not valid; the error names it.
/// * `Unavailable`: no server answers in time.
/// * `WrongServer`: the server is another product.
/// * `Forbidden`: the login is wrong, or lacks a right.
/// * `Misconfigured`: the server or the URL needs a change, which the text names.
///
/// # Cancel safety
/// A dropped call leaves at most a lease on the server, which expires.
pub async fn connect(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    latchwork_core::connect(&connectors(), &to.try_into().map_err(Into::into)?).await
}

/// Connects like [`connect`], runs `work`, and releases everything when the work succeeds, fails (an early
/// `?`) or panics. So the next process does not wait for a lease of this one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> latchwork::Result<()> {
/// latchwork::with("memory://", async |coordinator| {
///     let hold = coordinator.mutex("invoices/2026-11")?.acquire().await?;
///     println!("write with token {}", hold.token());
///     Ok(())
/// })
/// .await
/// # }
/// ```
///
/// # Errors
/// An error of [`connect`] or of the work, otherwise of [`Coordinator::close`].
///
/// # Panics
/// Panics if the work panics, after everything is released.
///
/// # Cancel safety
/// A dropped call releases everything in the background while the runtime runs.
pub async fn with<T, E>(
    to: impl TryInto<Config, Error = impl Into<Error>>,
    work: impl AsyncFnOnce(Coordinator) -> std::result::Result<T, E>,
) -> std::result::Result<T, E>
where
    E: From<Error>,
{
    connect(to).await?.close_after(work).await
}

/// Returns a coordinator at once, and connects in its first operation: for services that must start without
/// their server. An operation can then also fail with an error of [`connect`]. Before, the
/// [`lease`](Coordinator::lease) is suspended; its handles follow the real lease later.
///
/// # Errors
/// `InvalidArgument`: the URL or a field is not valid; the error names it.
///
/// # Panics
/// Panics outside of a tokio runtime.
pub fn connect_lazy(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    latchwork_core::connect_lazy(&connectors(), &to.try_into().map_err(Into::into)?)
}

/// Checks a URL or a [`Config`] without I/O, with the options of its backend.
///
/// # Errors
/// `InvalidArgument`: the error names the field or the option.
pub fn check(config: impl TryInto<Config, Error = impl Into<Error>>) -> Result<()> {
    latchwork_core::check(&connectors(), &config.try_into().map_err(Into::into)?)
}

/// Returns the names of the backends in this build, which cargo features select.
pub fn compiled_backends() -> Vec<&'static str> {
    connectors().iter().map(|connector| connector.name()).collect()
}

/// Returns the connectors of the backends in this build.
pub fn connectors() -> Vec<Arc<dyn Connector>> {
    vec![
        #[cfg(feature = "memory")]
        latchwork_core::memory::connector(),
        #[cfg(feature = "redis")]
        latchwork_redis::connector(),
        #[cfg(feature = "zookeeper")]
        latchwork_zookeeper::connector(),
        #[cfg(feature = "etcd")]
        latchwork_etcd::connector(),
    ]
}

// Runs the programs of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
