//! Events, from the server to the waiters and holders of this client. All watches of a client share one
//! stream.
//!
//! * *A queue watch* is on a whole queue. It is kept between waits, because the server serves a new watch
//!   that starts in the past, even by a millisecond, only at its next sync, up to 100 ms later.
//! * *A key watch* is on one key: a waiter's predecessor, or a semaphore's limit.
//! * *Own nodes* are watched from their admission on, so that a removal by another client is noticed promptly
//!   (NODE-GONE), and [checked](recheck) once a TTL.
//! * *A change watch* is on the key of a cell, or on an observed queue, until its watcher is dropped.
//!
//! When the stream ends, watchers of changes and own nodes start their watches again, and every waiter lists
//! its queue again (CHAIN-LOST-WATCH-LISTS-AGAIN).

mod armed;
mod change_watch;
mod events;
mod inbox;
mod own_node;
mod queue_watch;
pub(crate) mod recheck;
mod state;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod watches;

pub(crate) use change_watch::{EtcdChangeWatch, Watched};
pub(crate) use own_node::OwnNode;
pub(crate) use queue_watch::{Notified, Until};
pub(crate) use watches::{SHORT_HOLD, Subscription, Watches};
