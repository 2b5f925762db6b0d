//! Events, from the server to the waiters and holders of this client. All watches of a client share
//! one stream.
//!
//! * *A queue watch* is on a whole queue. It is kept between waits, so that it is prompt.
//! * *A key watch* is on one key: a waiter's predecessor, or a semaphore's limit. The server serves
//!   a watch that starts in the past, even by a millisecond, only at its next sync, up to 100 ms
//!   later.
//! * *Own nodes* are watched from their admission on, so that a removal by another client is
//!   noticed promptly (NODE-GONE), and [checked](recheck) once a TTL. A waiter notices its own
//!   removal by a queue watch, or by the re-check that ends every wait once a TTL.
//!
//! * *A change watch* is on the key of a cell, or on an observed queue, for both kinds of events,
//!   from now on. It exists until its watcher is dropped.
//!
//! When the stream ends, every watcher of changes starts its watch again, every waiter lists its
//! queue again, and own nodes are watched again (CHAIN-LOST-WATCH-LISTS-AGAIN).

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
