//! Servers for tests and demonstrations: found or started, never assumed.
//!
//! [`Server::start`] gives a server of a [`Kind`], from the first of these that there is:
//! 1. a URL in the environment (`LATCHWORK_REDIS_URL`, `LATCHWORK_ZOOKEEPER_URL`,
//!    `LATCHWORK_ETCD_URL`), used as it is and never stopped;
//! 2. with the crate feature `containers`: a container, when a Docker engine answers and has or can
//!    get the image (`LATCHWORK_REDIS_IMAGE` and so on name another);
//! 3. a program found on the machine, started on a free loopback port in a temporary folder, and
//!    killed with the [`Server`], even if this process is killed first. `LATCHWORK_SERVER_DIR` may
//!    name a folder with a tree of unpacked Debian packages to look in before the machine's own
//!    folders.
//!
//! If there is none, [`ServerError::NotFound`] says what was tried and how to get one.
//!
//! What cannot be done with a given server is refused: a test that stops a server asks for one of
//! its own ([`Options::own`]), one that depends on default clocks says so ([`Clocks::Default`]). A
//! program that was started on the machine can be paused, stopped and started again on the same
//! port with the same data. An [`Ensemble`] is three ZooKeeper or etcd servers with fault proxies
//! between them, a [`WatchedRedis`] a Redis with two replicas and three Sentinels, a
//! [`ClusteredRedis`] a Redis Cluster of three masters and three replicas.
//!
//! Servers started here use fast clocks unless asked otherwise ([`Clocks::Fast`]) and do not sync
//! their disks: they are for tests. With default clocks, which `bench` and `compare` use, etcd does sync.

// docs.rs shows which feature an item needs; everywhere else this is nothing.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod accepting;
mod binary;
#[cfg(feature = "tls")]
mod certificates;
mod clustered_redis;
#[cfg(feature = "containers")]
mod container;
mod crossings;
mod door;
mod ensemble;
mod error;
mod kind;
mod link;
mod local;
mod locate;
mod options;
mod ports;
mod probe;
mod process;
pub mod proxy;
mod reached;
pub mod relay;
mod serve;
mod server;
#[cfg(feature = "tls")]
mod terminated;
mod tls;
mod watched_redis;
mod wiring;

#[cfg(feature = "tls")]
pub use certificates::{Authority, Certificates, Validity};
pub use clustered_redis::ClusteredRedis;
pub use ensemble::Ensemble;
pub use error::ServerError;
pub use kind::Kind;
pub use options::{Clocks, Options};
pub use ports::{ClosedPort, free_ports};
pub use probe::ask;
pub use serve::serve;
pub use server::{Origin, Server};
#[cfg(feature = "tls")]
pub use terminated::Terminator;
pub use tls::ServerTls;
pub use watched_redis::WatchedRedis;
