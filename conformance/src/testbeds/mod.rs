//! The testbeds of the backends.

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
mod proxied;
mod proxy_link;
#[cfg(feature = "redis")]
mod redis;
#[cfg(all(feature = "tls", any(feature = "redis", feature = "zookeeper", feature = "etcd")))]
mod secured;
#[cfg(feature = "zookeeper")]
mod zookeeper;

#[cfg(feature = "etcd")]
pub use etcd::{etcd_auth_testbed, etcd_cluster_testbed, etcd_testbed};
#[cfg(feature = "redis")]
pub use redis::{clustered_redis_testbed, redis_acl_testbed, redis_testbed, watched_redis_testbed};
#[cfg(all(feature = "tls", any(feature = "redis", feature = "zookeeper", feature = "etcd")))]
pub use secured::tls_testbed;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
pub use secured::zookeeper_tls_ensemble_testbed;
#[cfg(feature = "zookeeper")]
pub use zookeeper::{zookeeper_ensemble_testbed, zookeeper_testbed};

pub use memory::{MemoryTestbed, Wrap};
pub use proxied::{Admin, OpenAdmin, ServerTestbed};
