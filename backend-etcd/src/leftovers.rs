//! The end of an attempt whose join may still be on its way: its node is removed, and a tombstone left that a late
//! request meets (RULES B9).
//!
//! It stands for ten minutes, as on Redis, or until its lease ends. No request lives so long: its connection is given up when it
//! gives no sign of life for seconds, and a server gives its clients' requests up as soon. (One that is stopped for longer with a
//! request in hand, and carries it out then, makes a node that nobody waits for: it stands until its lease ends, and lets nobody in
//! who should not be.) Those that are over go together, so that they cost few requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::NodeId;
use latchwork_core::{Clock, Moment};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::backoff::Backoff;
use crate::driver::Driver;
use crate::error::{Answer, Failure};
use crate::keys::Layout;
use crate::terms::Step;

/// A transaction of etcd has at most 128 operations.
const TOGETHER: usize = 100;
/// One that may not be removed now, may be later.
const SELDOM: Duration = Duration::from_secs(60);

/// What this client leaves behind for a while, and removes: tombstones.
#[derive(Debug)]
pub(crate) struct Leftovers {
    driver: Driver,
    layout: Layout,
    clock: Clock,
    runtime: Handle,
    stand: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    // With the lease, and until when it stands: the first is the first to go.
    standing: VecDeque<(Moment, i64, NodeId)>,
    // While there are any.
    sweeper: Option<AbortHandle>,
    stopped: bool,
}

impl Leftovers {
    pub(crate) fn new(
        driver: Driver,
        layout: Layout,
        clock: Clock,
        runtime: Handle,
        stand: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { driver, layout, clock, runtime, stand, state: Mutex::default() })
    }

    /// Ends an attempt under a lease: by the name of its node alone, which is nobody else's. Answers whether the
    /// node was there.
    pub(crate) async fn bury(self: &Arc<Self>, lease: i64, attempt: NodeId, node: &[u8]) -> Answer<bool> {
        let tombstone = self.layout.tombstone(lease, attempt);
        let steps = vec![Step::Put { key: tombstone, value: Vec::new(), lease }, Step::Delete(node.to_vec())];
        match self.driver.transact(Vec::new(), steps, Vec::new()).await {
            Ok(outcome) => {
                self.stands(lease, attempt);
                Ok(outcome.deleted)
            }
            Err(Failure::Full(error)) => {
                // Nobody is to wait behind it until there is space for a tombstone.
                self.driver.delete(node).await?;
                Err(Failure::Full(error))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Leaves those that stand to their lease.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        if let Some(sweeper) = state.sweeper.take() {
            sweeper.abort();
        }
    }

    fn stands(self: &Arc<Self>, lease: i64, attempt: NodeId) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        state.standing.push_back((self.clock.now() + self.stand, lease, attempt));
        if state.sweeper.is_none() {
            let sweeper = self.runtime.spawn(Arc::clone(self).sweep());
            state.sweeper = Some(sweeper.abort_handle());
        }
    }

    async fn sweep(self: Arc<Self>) {
        let mut backoff = Backoff::up_to(SELDOM);
        while let Some(until) = self.next() {
            // Later than it could be, for more to go with it.
            self.clock.sleep_until(until + self.stand / 10).await;
            let over = self.over();
            let steps = over.iter().map(|key| Step::Delete(key.clone().into())).collect();
            match self.driver.transact(Vec::new(), steps, Vec::new()).await {
                Ok(_) => {
                    backoff.reset();
                    self.state.lock().standing.drain(..over.len());
                }
                Err(failure) => {
                    tracing::debug!(?failure, "tombstones were not removed yet");
                    backoff.pause().await;
                }
            }
        }
    }

    /// Until when the next one stands. With none the sweeper ends.
    fn next(&self) -> Option<Moment> {
        let mut state = self.state.lock();
        let next = state.standing.front().map(|&(until, ..)| until);
        if next.is_none() {
            *state = State { stopped: state.stopped, ..State::default() };
        }
        next
    }

    /// Those whose time is over, as far as one request takes them.
    fn over(&self) -> Vec<String> {
        let (state, now) = (self.state.lock(), self.clock.now());
        let over = state.standing.iter().take(TOGETHER).take_while(|&&(until, ..)| until <= now);
        over.map(|&(_, lease, attempt)| self.layout.tombstone(lease, attempt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::decide::queue::TOMBSTONE;

    use super::*;
    use crate::terms::{Order, Range};

    #[tokio::test]
    async fn what_stood_long_enough_is_removed_and_then_there_is_nothing_to_do() {
        let server = Server::start(Kind::Etcd, Options::new().own()).await.unwrap();
        let driver = Driver::of(&server).await;
        let (lease, _) = driver.grant(Duration::from_secs(60)).await.unwrap();
        let tombstones = |stand| {
            Leftovers::new(driver.clone(), Layout::new("n"), Clock::system(), Handle::current(), stand)
        };
        let (lasting, brief) = (tombstones(TOMBSTONE), tombstones(Duration::ZERO));
        lasting.bury(lease, NodeId::random(), b"n/mutex/a/1").await.unwrap();
        // More than one request takes.
        for _ in 0..2 * TOGETHER {
            brief.bury(lease, NodeId::random(), b"n/mutex/a/2").await.unwrap();
        }
        let count = async || {
            let all =
                Range { prefix: "n/client/".to_owned(), order: Order::ByKey, limit: 0, keys_only: true };
            driver.range(all).await.unwrap().0.count
        };
        let removed = async { while count().await > 1 || brief.state.lock().sweeper.is_some() {} };
        tokio::time::timeout(Duration::from_secs(60), removed).await.expect("they stay");
        assert_eq!(count().await, 1, "its time is not over");
        assert!(lasting.state.lock().sweeper.is_some());
        lasting.stop();
        lasting.bury(lease, NodeId::random(), b"n/mutex/a/1").await.unwrap();
        assert!(lasting.state.lock().sweeper.is_none(), "left to the lease");
        driver.revoke(lease).await.unwrap();
    }
}
