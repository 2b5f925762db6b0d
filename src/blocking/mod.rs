//! The recipes for threads without a runtime of their own: the same names and methods, and each
//! call returns when it is done.
//!
//! ```
//! use latchwork::{Release, blocking};
//!
//! # fn main() -> latchwork::Result<()> {
//! blocking::with("memory://", |coordinator| { // or redis://, zookeeper://, etcd://
//!     let invoices = coordinator.mutex("invoices/2026-11")?;
//!     let hold = invoices.acquire()?; // stops this thread until it is its turn
//!     println!("writing with fence {}", hold.token());
//!     assert_eq!(hold.release()?, Release::Released);
//!     Ok(())
//! })
//! # }
//! ```
//!
//! Each method means what the async method of the same name means, which its documentation links to:
//! its errors, what happens at a loss, how often it asks the server. What differs:
//!
//! * **Nothing is cancelled from outside.** Where async code drops a future, a thread gives a bound:
//!   `acquire_within`, [`Barrier::wait_within`], [`ValueWatch::changed_within`].
//! * **Work is not stopped at a loss.** [`Guard::run`] and `with_lock` run a closure, and answer
//!   `Lost` behind it. Work that takes long must look at [`Guard::check`], or a thread beside it
//!   waits for [`Guard::lost`].
//! * **Streams are iterators**, whose items are results: [`Answers`].
//!
//! # The thread behind it
//! Each [`Coordinator`] has one thread with a tokio runtime of its own, which renews the lease and
//! serves the connections; the calling thread does the rest of the work, and sleeps meanwhile. (One
//! thread for all coordinators would be one fate for all: what stops it would lose the leases of
//! all.) It ends behind the last handle, guard and watch of its coordinator, after it has given
//! everything back as [`Coordinator::close`] does. A process that ends does not wait for that: end
//! `main` by [`close`](Coordinator::close), or run it in [`with`].
//!
//! # In async code
//! A call in async code of a tokio runtime would stop a thread of that runtime, and with it every
//! task there. It answers [`InAsyncCode`](crate::ErrorKind::InAsyncCode) at once, and sends nothing.
//! Guards may be dropped there. In [`spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html)
//! and `block_in_place`, and on a thread that has only entered a runtime, calls work as everywhere
//! else. (In code that tokio runs as `unconstrained` a call cannot tell, and blocks.)

mod barrier;
mod coordinator;
mod count_down_latch;
mod counter;
mod election;
mod forward;
mod group;
mod guard;
mod home;
mod id_generator;
mod in_async_code;
mod iter;
mod listing;
mod loss;
mod multi_lock;
mod mutex;
mod observer;
mod park;
mod quorum_lock;
mod reentrant;
mod rwlock;
mod semaphore;
mod shared_value;

pub use barrier::{Barrier, DoubleBarrier, Inside};
pub use coordinator::Coordinator;
pub use count_down_latch::CountDownLatch;
pub use counter::Counter;
pub use election::{Election, Leader};
pub use group::{Group, GroupWatch, Membership};
pub use guard::Guard;
pub use id_generator::IdGenerator;
pub use iter::Answers;
pub use listing::{Clients, Queues, Values};
pub use loss::Loss;
pub use multi_lock::{Member, MultiGuard, MultiLock};
pub use mutex::{Mutex, MutexGuard};
pub use observer::Observer;
pub use quorum_lock::{QuorumGuard, QuorumLock};
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use shared_value::{SharedValue, ValueWatch};

use crate::{Config, Error, Result};

/// Connects to the coordinator that a URL (or a [`Config`]) names, and starts its thread. As
/// [`latchwork::connect`](crate::connect).
///
/// # Errors
/// As [`latchwork::connect`](crate::connect); `InAsyncCode`; `Unavailable` when the system gives no
/// thread.
pub fn connect(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    Coordinator::opened_by(crate::connect(to))
}

/// As [`connect`], but returns at once and connects in the first call. As
/// [`latchwork::connect_lazy`](crate::connect_lazy).
///
/// # Errors
/// `InvalidArgument`; `InAsyncCode`; `Unavailable` when the system gives no thread.
pub fn connect_lazy(to: impl TryInto<Config, Error = impl Into<Error>>) -> Result<Coordinator> {
    Coordinator::opened_by(async { crate::connect_lazy(to) })
}

/// Connects as [`connect`], runs `work`, and gives everything back on each way out: when the work
/// succeeds, fails (an early `?`) or panics. As [`latchwork::with`](crate::with).
///
/// # Errors
/// As [`connect`]; the work's; else the close's, as [`Coordinator::close`].
///
/// # Panics
/// As the work, once everything is given back.
pub fn with<T, E: From<Error>>(
    to: impl TryInto<Config, Error = impl Into<Error>>,
    work: impl FnOnce(Coordinator) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    connect(to)?.close_after(work)
}
