//! One client of a store: its lease, and the task that renews it.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::link::Link;
use super::node::MemoryNode;
use super::store::{LeaseId, Memory};
use crate::address::Address;
use crate::capabilities::{Capabilities, Eviction};
use crate::config::Config;
use crate::contracts::{
    Backend, Close, Entry, Join, Joined, Lease, LeaseKeeper, NodeKeeper, Page, SequentialNodes,
};
use crate::decide::queue::{Answer, Ask};
use crate::decide::renewal_period;
use crate::error::{Error, LostReason, Result};

pub(crate) struct MemoryBackend {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) store: Memory,
    pub(super) link: Link,
    ttl: Duration,
    // A lease that is opened anew is not to end with the runtime of whoever asked for it.
    runtime: Handle,
    current: Mutex<(LeaseId, LeaseKeeper)>,
}

impl MemoryBackend {
    pub(super) fn open(store: Memory, config: &Config) -> (Arc<dyn Backend>, Link) {
        let link = Link::new(store.clone(), config.request_timeout);
        let lease = LeaseKeeper::new(store.clock().clone(), config.ttl, store.clock().now());
        let id = store.open_lease(config.ttl);
        link.set_lease(id);
        let (runtime, current) = (Handle::current(), Mutex::new((id, lease)));
        let shared = Arc::new(Shared { store, link: link.clone(), ttl: config.ttl, runtime, current });
        shared.keep();
        (Arc::new(Self { shared }), link)
    }
}

impl Shared {
    /// Starts the task that renews the current lease. It ends with the lease, or with the client.
    fn keep(self: &Arc<Self>) {
        let client = Arc::downgrade(self);
        let (id, lease) = self.current.lock().clone();
        let keeper = self.runtime.spawn(renew(client, id, lease));
        self.link.set_keeper(keeper.abort_handle());
    }

    /// Opens a new lease where the current one is lost (LEASE-REOPEN).
    fn reopen(self: &Arc<Self>) -> Result<()> {
        let mut current = self.current.lock();
        // Under the lock that a close takes behind this flag: it ends what is opened here, or nothing is.
        if self.link.is_closed() {
            return Err(Error::closed());
        }
        if current.1.lost().is_none() {
            // Another join was faster.
            return Ok(());
        }
        let (old, clock) = (current.0, self.store.clock().clone());
        *current = (self.store.open_lease(self.ttl), LeaseKeeper::new(clock.clone(), self.ttl, clock.now()));
        self.link.set_lease(current.0);
        drop(current);
        // Given back, so that nobody waits behind our own old nodes (RULES C6).
        self.store.end_lease(old, LostReason::Expired);
        self.keep();
        Ok(())
    }
}

async fn renew(client: Weak<Shared>, id: LeaseId, lease: LeaseKeeper) {
    let clock = lease.clock().clone();
    let period = renewal_period(lease.ttl());
    let mut next = clock.now() + period;
    while lease.lost().is_none() {
        clock.sleep_until(next).await;
        let Some(client) = client.upgrade() else { return };
        let sent = clock.now();
        next = sent + period;
        lease.awaiting(sent, next);
        let store = client.store.clone();
        match client.link.request(move || store.renew(id)).await {
            Ok(Some(())) => {
                lease.proven(sent);
            }
            Ok(None) => lease.end(LostReason::Revoked),
            // Asked again soon: a lease is kept as long as it can be.
            Err(error) if error.is_retryable() => next = sent + period / 4,
            Err(_) => return,
        }
        lease.tick();
    }
    lease.tick();
}

#[async_trait]
impl SequentialNodes for MemoryBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        if self.lease().lost().is_some() {
            // Through the link: an unreachable store grants no lease.
            let client = Arc::clone(&self.shared);
            self.shared.link.request(move || client.reopen()).await??;
        }
        let (id, lease) = self.shared.current.lock().clone();
        let ask = Ask {
            id: join.id,
            claim: join.claim,
            limit: join.limit,
            ttl: u64::try_from(lease.ttl().as_micros()).expect("a TTL is at most an hour"),
            patience: join.patience,
        };
        let (store, queue, label) = (self.shared.store.clone(), join.queue.clone(), Arc::clone(&join.label));
        let (client, node_lease) = (Arc::downgrade(&self.shared), lease.clone());
        let answered = self
            .shared
            .link
            .request(move || {
                store.join(id, &queue, &ask, |sequence| {
                    let state = NodeKeeper::new(node_lease, sequence);
                    Arc::new(MemoryNode::new(queue.clone(), ask.id, id, label, ask.claim, state, client))
                })
            })
            .await?;
        if let Some((_, Some(node))) = &answered {
            node.repeated.fetch_or(join.repeated, Ordering::AcqRel);
        }
        match answered {
            Some((Answer::Admitted { .. }, Some(node))) => Ok(Joined::Admitted(node)),
            Some((Answer::Waiting { .. }, Some(node))) => Ok(Joined::Waiting(node)),
            Some((Answer::Refused, _)) => Ok(Joined::Refused),
            Some((Answer::Conflict { stored }, _)) => Err(join.conflict(&stored.into())),
            // The store does not know our lease: it was ended from outside.
            None => {
                lease.end(LostReason::Revoked);
                Err(Error::lost(LostReason::Expired))
            }
            // The attempt is over: abandoned, or its node hangs on a lease that we lost.
            Some(_) => Err(Error::lost(LostReason::Expired)),
        }
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        let (store, queue, id) = (self.shared.store.clone(), join.queue.clone(), join.id);
        self.shared.link.request(move || store.abandon(&queue, id)).await.map(drop)
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        let (store, queue) = (self.shared.store.clone(), queue.clone());
        self.shared.link.request(move || store.list(&queue, page)).await
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let (store, queue) = (self.shared.store.clone(), queue.clone());
        self.shared.link.request(move || store.remove(&queue, sequence)).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let (store, queue) = (self.shared.store.clone(), queue.clone());
        self.shared.link.request(move || store.limit(&queue)).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        let (store, queue) = (self.shared.store.clone(), queue.clone());
        self.shared.link.request(move || store.set_limit(&queue, limit)).await
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: false,
            exact_addresses: true,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.shared.current.lock().1.lease().clone()
    }

    async fn close(&self, how: Close) -> Result<()> {
        // The first close counts: one that died gives nothing back when it is dropped later.
        if self.shared.link.close() && how == Close::Orderly {
            let (id, lease) = self.shared.current.lock().clone();
            lease.end(LostReason::Closed);
            self.shared.store.end_lease(id, LostReason::Closed);
        }
        Ok(())
    }
}

impl Drop for MemoryBackend {
    fn drop(&mut self) {
        self.shared.link.kill_keeper();
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("store", &self.shared.store).finish_non_exhaustive()
    }
}
