//! Parts that the clients of all backends share, in addition to the contracts.

mod backoff;
mod bounds;
mod close;
mod idle_cells;
mod link_log;
mod name_pool;
mod or_pending;
mod probe;
mod replicas;
mod single_flight;
mod sweeps;
mod throttle;
mod transport;
mod unobserved;

pub(crate) use backoff::random_part;
pub use backoff::{Backoff, Pauses};
pub use bounds::{connect_within, note_failure, opening_bound};
pub use close::CloseOnce;
pub use idle_cells::no_idle_cells;
pub use link_log::LinkLog;
pub use name_pool::NamePool;
pub use or_pending::or_pending;
pub use probe::{
    OF_SILENCE, PATIENCE, Probed, Stranger, exchange, find_server, greet, is_of_zookeeper, stranger,
};
pub use replicas::no_replicas;
pub use single_flight::{SharedTask, SingleFlight};
pub(crate) use sweeps::Sweeps;
pub use throttle::{AT_ONCE, Pass, Throttle};
pub(crate) use transport::no_tls;
pub use transport::{Stream, Transport};
pub use unobserved::Unobserved;

pub use crate::config::{Hosts, Scheme};
