mod balancer;
mod connection;
mod encode;
mod history;
mod keys;
mod lease;
mod request;
mod request_kind;
#[cfg(test)]
mod tests;
mod txn;
mod watch;

pub(crate) use connection::{Driver, Status};
pub(crate) use encode::end_of;
pub(crate) use lease::{Renewal, RenewalStream};
pub(crate) use txn::{Compare, Found, Op, Order, Range, StoredKey, Txn, TxnResult};
pub(crate) use watch::{Change, EndReason, EventKind, StreamEvent, Watch, WatchEvents, WatchRequests};
