//! Events, from the server to the waiters and holders of this client, over one stream.
//!
//! * *A queue watch* is on a whole queue. It is kept between waits, because a new watch that starts in the
//!   past, even by a millisecond, waits for the server's next sync, up to 100 ms.
//! * *A key watch* is on one key: a waiter's predecessor, or a semaphore's limit.
//! * *Own nodes* are watched from their admission on (NODE-GONE), and [checked](recheck) once a TTL.
//! * *A change watch* is on the key of a cell, or on an observed queue, until its watcher is dropped.
//!
//! When the stream ends, watchers of changes and own nodes start their watches again, and every waiter lists
//! again (CHAIN-LOST-WATCH-LISTS-AGAIN).

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
