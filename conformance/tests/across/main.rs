//! Tests over all backends, of the output of the suite, and of lists that must be complete.

use std::sync::Arc;

use latchwork_core::Connector;

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

fn connectors() -> Vec<Arc<dyn Connector>> {
    vec![
        #[cfg(feature = "redis")]
        latchwork_redis::connector(),
        #[cfg(feature = "zookeeper")]
        latchwork_zookeeper::connector(),
        #[cfg(feature = "etcd")]
        latchwork_etcd::connector(),
    ]
}
