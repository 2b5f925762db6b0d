//! The client crate `etcd-client`, in the terms of this backend. No other module calls it.

mod connection;
mod encode;
mod history;
mod keys;
mod lease;
#[cfg(feature = "tls")]
mod secured;
#[cfg(all(test, feature = "tls"))]
mod tests;
mod txn;
mod watch;

pub(crate) use connection::{Driver, Status};
pub(crate) use encode::end_of;
pub(crate) use lease::RenewalStream;
#[cfg(feature = "tls")]
pub(crate) use secured::NotConnected;
pub(crate) use txn::{Compare, Found, Op, Order, Range, StoredKey, Txn, TxnResult};
pub(crate) use watch::{Change, EndReason, EventKind, StreamEvent, Watch, WatchEvents, WatchRequests};
