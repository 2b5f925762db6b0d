//! Tests over all backends, of what the suite prints, and of lists that must be complete.

#[cfg(feature = "bench")]
mod bench;
mod complete;
#[cfg(feature = "metrics")]
mod log;
#[cfg(all(feature = "redis", feature = "zookeeper", feature = "etcd", feature = "tls"))]
mod names;
mod program;
#[cfg(all(feature = "redis", feature = "zookeeper", feature = "etcd", feature = "sasl"))]
mod secrets;
mod summary;
#[cfg(feature = "tls")]
mod tls;
mod traces;
