use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::link::Link;
use super::store::Memory;
use super::stored_node::LeaseId;
use crate::config::Config;
use crate::contracts::{Lease, LeaseWriter};

pub(super) struct MemoryClient {
    pub(super) store: Memory,
    pub(super) link: Link,
    pub(super) ttl: Duration,
    /// The runtime that opened the client. A later lease must not end with a caller's runtime.
    pub(super) runtime: Handle,
    pub(super) current: Mutex<(LeaseId, LeaseWriter)>,
}

impl MemoryClient {
    pub(super) fn open(store: Memory, config: &Config) -> Arc<Self> {
        let link = Link::new(store.clone(), config.request_timeout);
        let lease = LeaseWriter::new(store.clock().clone(), config.ttl, store.clock().now());
        let id = store.open_lease(config.ttl);
        link.set_lease(id);
        let (runtime, current) = (Handle::current(), Mutex::new((id, lease)));
        Arc::new(Self { store, link, ttl: config.ttl, runtime, current })
    }

    pub(super) fn lease(&self) -> Lease {
        self.current.lock().1.lease().clone()
    }
}
