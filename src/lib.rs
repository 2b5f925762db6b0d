//! Distributed coordination recipes over Redis, ZooKeeper, etcd and memory: one meaning, any
//! coordinator.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> latchwork::Result<()> {
//! latchwork::with("memory://", async |coordinator| { // or redis://, zookeeper://, etcd://
//!     let invoices = coordinator.mutex("invoices/2026-11")?; // validates, no I/O, cheap to clone
//!     let hold = invoices.acquire().await?; // waits its turn, fair
//!     println!("writing with fence {}", hold.token()); // the fence travels with the write
//!     hold.release().await // `Lost`, and why, if another may have held since
//! })
//! .await // gives everything back on each way out, bounded
//! # }
//! ```
//!
//! [`with`] connects and closes; by hand it is [`connect`] and [`Coordinator::close`].
//!
//! The cargo features `redis`, `zookeeper` and `etcd` (which needs `protoc` to build) choose the
//! backends; the URL chooses among them. Latchwork runs on tokio only. The feature `blocking` adds
//! `block_on()` to every future, for threads without a runtime of their own.
//!
//! # The guide
//! * [Choosing a backend](guide::choosing): what each promises, and its limits.
//! * [Connecting](guide::connecting): cargo features, URLs and their options, settings files.
//! * [What a lock can and cannot promise](guide::promises). In short: a lease lock alone does not
//!   keep data safe, since a process may be paused between its look at the lock and its write.
//!   Every exclusive hold has a *fencing token* ([`Fenced::token`]) that rises from holder to
//!   holder: send it with each write, and let the resource refuse a lower one.
//! * [Fencing with SQL](guide::fencing): `UPDATE ledger SET total = $2, fence = $1 WHERE id = 7 AND
//!   fence <= $1`.
//! * [Recipes](guide::recipes): [`Mutex`], [`RwLock`] with downgrade,
//!   [`Semaphore`] with weights; how a job ends.
//! * [Coming from](guide::coming_from) Redisson, Curator, kazoo, etcd or Redlock: their words, and
//!   ours.
//! * [Testing your service](guide::testing) on memory, with simulated time and planned faults.
//! * [Every error, and what to do](guide::errors); [on call](guide::on_call);
//!   [events and metrics](guide::observing).
//! * [Trust between clients](guide::trust), and the access control that enforces it.
//! * [Sharing locks](guide::sharing) with Curator and `etcdctl`.
//! * [Moving to another coordinator](guide::moving) while locks are held.
//! * [What may stay on a server](guide::left_on_servers), and what idle keys cost.
//! * [A backend of your own](guide::own_backend), and the suite that it must pass.

// docs.rs shows which feature an item needs; everywhere else this is nothing.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Only builds of the documentation and its tests include the guide.
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

/// Tests of your service on memory: simulated time, planned faults, and crashes.
pub mod testing {
    pub use latchwork_core::memory::{Link, Memory};
    pub use latchwork_core::{Clock, crash};
}

/// What operators do: raise the layout, retire a namespace, move locks and values to another coordinator.
pub mod operator {
    use crate::{Config, Error, Result};

    pub use latchwork_core::backend::decide::moving::gate::{Course, GateMarker};
    pub use latchwork_core::backend::decide::moving::{MovePhase, Side};
    pub use latchwork_core::{
        Move, MoveBlocker, MoveClient, MoveLate, MoveOutsider, MovePlan, MoveProgress, MovePromises,
        MoveState, MoveStatus, Operator, QueuesInUse, ValuesInUse,
    };

    /// Connects as an [`Operator`] to the coordinator that a URL (or a [`Config`]) names.
    ///
    /// # Errors
    /// As [`latchwork::connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`latchwork::connect`](crate::connect()).
    pub async fn connect(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Operator> {
        Operator::connect(&crate::connectors(), &to.try_into().map_err(Into::into)?).await
    }
}

/// Connects to the coordinator that a URL (or a [`Config`]) names.
///
/// `memory://`, `memory://name`, `redis://host[:port][/db]`, `zookeeper://h1,h2,h3/chroot`,
/// `etcd://h1,h2,h3`; user, password, namespace, TTL and timeouts are parts of the URL or fields of
/// [`Config`]. One deadline (`connect_timeout`, default 5 s) covers all of it.
///
/// # Errors
/// `InvalidArgument` naming `url` or the field; `Unavailable`, `WrongServer`, `Forbidden` or
/// `Misconfigured`.
///
/// # Cancel safety
/// A dropped connect leaves nothing on the server beyond a lease that runs out.
pub async fn connect(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    latchwork_core::connect(&connectors(), &to.try_into().map_err(Into::into)?).await
}

/// Connects as [`connect`], runs `work`, and gives everything back on each way out: when the work
/// succeeds, fails (an early `?`) or panics. For `main` and for jobs: the next process need not
/// wait for anything of this one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> latchwork::Result<()> {
/// latchwork::with("memory://", async |coordinator| {
///     let hold = coordinator.mutex("invoices/2026-11")?.acquire().await?;
///     println!("write with fence {}", hold.token());
///     Ok(())
/// })
/// .await
/// # }
/// ```
///
/// # Errors
/// As [`connect`]; the work's; else the close's, as [`Coordinator::close`].
///
/// # Panics
/// As the work, once everything is given back.
///
/// # Cancel safety
/// When dropped, it gives everything back in the background, as long as the runtime lives.
pub async fn with<T, E>(
    to: impl TryInto<Config, Error = impl Into<Error>>,
    work: impl AsyncFnOnce(Coordinator) -> std::result::Result<T, E>,
) -> std::result::Result<T, E>
where
    E: From<Error>,
{
    connect(to).await?.close_after(work).await
}

/// As [`connect`], but returns at once and connects in the first operation: for services that must
/// start without their coordinator. An operation may then also fail as [`connect`] does. Until it
/// is connected, the [`lease`](Coordinator::lease) is suspended; handles taken meanwhile follow the
/// real lease afterwards.
///
/// # Errors
/// `InvalidArgument` only.
///
/// # Panics
/// Outside a tokio runtime.
pub fn connect_lazy(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    latchwork_core::connect_lazy(&connectors(), &to.try_into().map_err(Into::into)?)
}

/// Checks a URL (or a [`Config`]) without I/O, also the options that only its backend has: for services that
/// read their settings before they connect.
///
/// # Errors
/// `InvalidArgument` naming the field or the option.
pub fn check(config: impl TryInto<Config, Error = impl Into<Error>>) -> Result<()> {
    latchwork_core::check(&connectors(), &config.try_into().map_err(Into::into)?)
}

/// The names of the backends in this build, chosen by cargo features.
pub fn compiled_backends() -> Vec<&'static str> {
    connectors().iter().map(|connector| connector.name()).collect()
}

/// The connectors of the backends in this build.
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

// Runs the README's programs as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
