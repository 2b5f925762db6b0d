//! Finds or starts servers for tests and demonstrations.
//!
//! [`Server::start`] returns a server of a [`Kind`], from the first of these sources that exists:
//!
//! 1. a URL in the environment (`LATCHWORK_REDIS_URL`, `LATCHWORK_ZOOKEEPER_URL`, `LATCHWORK_ETCD_URL`). Such
//!    a server is never stopped.
//! 2. with the crate feature `containers`: a container, if a Docker engine answers and has or fetches the
//!    image (`LATCHWORK_REDIS_IMAGE`, `LATCHWORK_ZOOKEEPER_IMAGE` and `LATCHWORK_ETCD_IMAGE` name other
//!    images).
//! 3. a program on the machine, on a free loopback port and in a temporary folder. It is killed with the
//!    [`Server`], also if this process is killed first. `LATCHWORK_SERVER_DIR` may name a folder with
//!    unpacked Debian packages, which is searched first.
//!
//! A test that stops a server asks for a separate one ([`Options::own`]). An [`Ensemble`] is several
//! ZooKeeper or etcd servers with fault proxies between them, a [`WatchedRedis`] has two replicas and three
//! Sentinels, and a [`ClusteredRedis`] three masters and three replicas.
//!
//! Started servers have fast clocks ([`Clocks::Fast`]) and do not sync their disks. With default clocks,
//! which `bench` and `compare` use, etcd syncs its disk.

// docs.rs shows which feature an item needs.
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
