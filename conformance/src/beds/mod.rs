//! The testbeds of the four backends.

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
mod proxied;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

#[cfg(feature = "etcd")]
pub use etcd::etcd_bed;
#[cfg(feature = "redis")]
pub use redis::redis_bed;
#[cfg(feature = "zookeeper")]
pub use zookeeper::{zookeeper_bed, zookeeper_ensemble_bed};

pub use memory::{MemoryBed, Wrap};
pub use proxied::{Admin, OpenAdmin, ServerBed};
