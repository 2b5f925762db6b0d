//! The embedded backend: a complete coordinator in this process, with real leases and expiry.
//!
//! The store of `memory://` is private to its Coordinator. All coordinators in this process that use
//! `memory://name` share one store. A store has no background task: it computes expiry on access and in the
//! timers of the waiters, so one store works on several runtimes. Each store is created with a clock: the
//! system's clock, or tokio's clock, which a test can pause (on one runtime only).
//!
//! The queue is [`decide::queue`](crate::decide::queue), with which tests compare the Redis scripts.
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
pub use store::{Memory, MemoryCopy};
