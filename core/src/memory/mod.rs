//! The embedded backend: a full coordinator in this process, with real leases and expiry.
//!
//! `memory://` is private to its Coordinator; `memory://name` is shared by all that name it in this
//! process. A store owns no task: expiry is computed on access and in the waiters' own timers, so
//! that handles of one store work on several runtimes. Its clock is chosen when it is made: the
//! system's, or tokio's, with which a test can pause time (one runtime only).
//!
//! A queue is the value that Redis' scripts are tested against,
//! [`decide::queue`](crate::decide::queue).
//!
//! # Testing a service on memory
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! use latchwork_core::{Clock, Config, Ended, LostReason, memory::Memory};
//!
//! let store = Memory::new(Clock::tokio());
//! let (coordinator, link) = store.connect(&Config::new("memory"))?;
//! let hold = coordinator.mutex("invoices")?.acquire().await?;
//! link.cut(); // the server cannot be reached any more …
//! let ended = hold.lost().await; // … so the hold is lost in time: no real second passes
//! assert_eq!(ended, Ended::Lost(LostReason::Expired));
//! # Ok::<(), latchwork_core::Error>(())
//! # }).unwrap();
//! ```

mod backend;
mod cells;
mod client;
mod connector;
mod link;
mod queue;
mod renewal;
mod state;
mod store;
mod stored_node;

pub use connector::connector;
pub use link::Link;
pub use store::Memory;
