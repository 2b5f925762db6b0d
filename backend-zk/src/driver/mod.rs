//! One session of the client crate, with its requests and watches. Only this module uses the crate, except
//! for its [`Stat`].
//!
//! The crate queues requests without a bound while it is disconnected, so this module bounds each request by
//! the request timeout and the lease. The crate reports an expired session late, so no code waits for that
//! report. The crate cannot end a connection without closing the session, so this module can end the crate's
//! tasks.

mod acls;
mod dial;
mod kind;
mod node_mode;
mod reads;
mod relay;
mod request;
mod sasl;
mod session;
mod tasks;
mod transaction;
mod watch;
mod watch_budget;
mod writes;

pub(crate) use acls::Grant;
pub(crate) use node_mode::NodeMode;
pub(crate) use reads::{CellReply, QueueReply};
pub(crate) use session::{Connected, Driver};
pub(crate) use transaction::{Beside, Commit, InDirectory, Operation, Refusal};
pub(crate) use watch::{Armed, Connection, Event, Watch};
pub(crate) use watch_budget::WatchBudget;
pub(crate) use writes::{Children, JoinReply, JoinRequest};
pub(crate) use zookeeper_client::Stat;
