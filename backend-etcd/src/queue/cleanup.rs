//! Tombstones: the end of an attempt whose join may still be under way (CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
//!
//! A tombstone exists for ten minutes or until its lease ends. No request lasts that long: clients close a
//! silent connection after some seconds, and a server drops requests as soon. Only a server that stops for
//! longer while it processes a request may create a node without an owner, until its lease ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, NodeId, Pauses};
use latchwork_core::{Clock, Moment};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::OPS_PER_TXN;
use crate::driver::{Driver, Op, Txn};
use crate::error::{Answer, Failure};
use crate::layout::Layout;

#[derive(Debug)]
pub(crate) struct Tombstones {
    driver: Driver,
    layout: Layout,
    clock: Clock,
    runtime: Handle,
    closed: CancellationToken,
    stay: Duration,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    // The oldest first: when it may be removed, and its lease.
    tombstones: VecDeque<(Moment, i64, NodeId)>,
    sweeping: bool,
}

impl Tombstones {
    pub(crate) fn new(
        driver: Driver,
        layout: Layout,
        clock: Clock,
        runtime: Handle,
        closed: CancellationToken,
        stay: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { driver, layout, clock, runtime, closed, stay, written: Mutex::default() })
    }

    pub(crate) fn key(&self, lease: i64, attempt: NodeId) -> String {
        self.layout.tombstone(lease, attempt)
    }

    /// Deletes the node by its name alone, which no other attempt may have. `node`: its keys, the own key
    /// first.
    pub(crate) async fn abandon(
        self: &Arc<Self>,
        lease: i64,
        attempt: NodeId,
        node: Vec<Vec<u8>>,
    ) -> Answer<bool> {
        let tombstone = Op::Put { key: self.key(lease, attempt), value: Vec::new(), lease };
        let deletes = node.iter().cloned().map(Op::Delete);
        match self.driver.txn(Txn::always([tombstone].into_iter().chain(deletes).collect())).await {
            Ok(result) => {
                self.written(lease, attempt);
                Ok(result.deleted)
            }
            Err(Failure::Full(error)) => {
                // A full server accepts only deletions. The node must not block waiters until it has space
                // for the tombstone.
                self.driver.delete_each(&node).await?;
                Err(Failure::Full(error))
            }
            Err(failure) => Err(failure),
        }
    }

    fn written(self: &Arc<Self>, lease: i64, attempt: NodeId) {
        let mut written = self.written.lock();
        if self.closed.is_cancelled() {
            // The tombstone ends with its lease.
            return;
        }
        written.tombstones.push_back((self.clock.now() + self.stay, lease, attempt));
        if !written.sweeping {
            written.sweeping = true;
            let sweep = Arc::clone(self).sweep();
            self.runtime.spawn(self.closed.clone().run_until_cancelled_owned(sweep));
        }
    }

    async fn sweep(self: Arc<Self>) {
        let mut backoff = Backoff::new(Pauses::BACKGROUND);
        while let Some(due) = self.next() {
            // Later, so that one request removes several.
            self.clock.sleep_until(due + self.stay / 10).await;
            let due = self.due();
            let deletes = due.iter().map(|key| Op::Delete(key.clone().into())).collect();
            match self.driver.txn(Txn::always(deletes)).await {
                Ok(_) => {
                    backoff.reset();
                    self.written.lock().tombstones.drain(..due.len());
                }
                Err(failure) => {
                    tracing::debug!(?failure, "could not remove tombstones; the client tries again");
                    backoff.wait(&self.clock).await;
                }
            }
        }
    }

    fn next(&self) -> Option<Moment> {
        let mut written = self.written.lock();
        let next = written.tombstones.front().map(|&(due, ..)| due);
        if next.is_none() {
            *written = Written::default();
        }
        next
    }

    fn due(&self) -> Vec<String> {
        let (written, now) = (self.written.lock(), self.clock.now());
        let due = written.tombstones.iter().take(OPS_PER_TXN).take_while(|&&(due, ..)| due <= now);
        due.map(|&(_, lease, attempt)| self.key(lease, attempt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::backend::decide::queue::TOMBSTONE;

    use super::*;
    use crate::driver::{Order, Range};

    #[tokio::test]
    async fn due_tombstones_are_removed_and_the_sweep_ends() {
        let server = Server::start(Kind::Etcd, Options::new().own()).await.unwrap();
        let driver = Driver::of(&server).await;
        let (lease, _) = driver.grant(Duration::from_secs(60)).await.unwrap();
        let closed = CancellationToken::new();
        let tombstones = |stay| {
            let (driver, closed) = (driver.clone(), closed.clone());
            Tombstones::new(driver, Layout::new("n"), Clock::system(), Handle::current(), closed, stay)
        };
        let node = |key: &[u8]| vec![key.to_vec()];
        let (lasting, brief) = (tombstones(TOMBSTONE), tombstones(Duration::ZERO));
        lasting.abandon(lease, NodeId::random(), node(b"n/mutex/a/1")).await.unwrap();
        for _ in 0..2 * OPS_PER_TXN {
            brief.abandon(lease, NodeId::random(), node(b"n/mutex/a/2")).await.unwrap();
        }
        let count = async || {
            let all =
                Range { prefix: "n/client/".to_owned(), order: Order::ByKey, limit: 0, keys_only: true };
            driver.range(all).await.unwrap().0.count
        };
        let removed = async { while count().await > 1 || brief.written.lock().sweeping {} };
        tokio::time::timeout(Duration::from_secs(60), removed).await.expect("they stay");
        assert_eq!(count().await, 1, "the second tombstone is not due yet");
        assert!(lasting.written.lock().sweeping);
        closed.cancel();
        lasting.abandon(lease, NodeId::random(), node(b"n/mutex/a/1")).await.unwrap();
        assert_eq!(
            lasting.written.lock().tombstones.len(),
            1,
            "a closed client leaves the other tombstone to its lease"
        );
        driver.revoke(lease).await.unwrap();
    }
}
