//! What a client leaves behind for a while, and removes.
//!
//! *Tombstones.* The end of an attempt whose join may still be on its way: its node is removed, and a tombstone left that a late
//! request meets (RULES B9).
//!
//! It stands for ten minutes, as on Redis, or until its lease ends. No request lives so long: its connection is given up when it
//! gives no sign of life for seconds, and a server gives its clients' requests up as soon. (One that is stopped for longer with a
//! request in hand, and carries it out then, makes a node that nobody waits for: it stands until its lease ends, and lets nobody in
//! who should not be.) Those that are over go together, so that they cost few requests.
//!
//! *Counts of releases* ([`Count`](crate::count::Count)) go when nobody has counted in a queue for ten minutes, or a little more. That may be done at
//! any time: those who wait then list.

use std::collections::{HashMap, VecDeque};
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
use crate::keys::{Layout, Queue};
use crate::terms::{Guard, Step};

/// A transaction of etcd has at most 128 operations.
const TOGETHER: usize = 100;
/// One that may not be removed now, may be later.
const SELDOM: Duration = Duration::from_secs(60);

/// What this client has left.
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
    // Until when it stands at least: mostly the first is the first to go.
    standing: VecDeque<(Moment, Leftover)>,
    // By what their keys begin with, until when they stand, and the revision of the last that this client counted.
    counts: HashMap<String, (Moment, u64)>,
    // While there are any.
    sweeper: Option<AbortHandle>,
    stopped: bool,
}

#[derive(Debug)]
enum Leftover {
    /// Of an attempt under a lease.
    Tombstone(i64, NodeId),
    /// The counts whose keys begin with it.
    Counts(String),
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

    /// Ends an attempt under a lease: by the name of its node alone, which is nobody else's.
    pub(crate) async fn bury(self: &Arc<Self>, lease: i64, attempt: NodeId, node: &[u8]) -> Answer<()> {
        let tombstone = self.layout.tombstone(lease, attempt);
        let steps = vec![Step::Put { key: tombstone, value: Vec::new(), lease }, Step::Delete(node.to_vec())];
        match self.driver.transact(Vec::new(), steps, Vec::new()).await {
            Ok(_) => {
                self.stands(Leftover::Tombstone(lease, attempt));
                Ok(())
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

    /// A release is being counted, or was at this revision.
    pub(crate) fn counts(self: &Arc<Self>, queue: &Queue, at: Option<u64>) {
        let Some(prefix) = queue.released() else { return };
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let until = self.clock.now() + self.stand;
        let is_new = !state.counts.contains_key(&prefix);
        let last = state.counts.entry(prefix.clone()).or_insert((until, 0));
        *last = (until, at.unwrap_or(last.1));
        if is_new {
            self.stands_in(&mut state, Leftover::Counts(prefix));
        }
    }

    fn stands(self: &Arc<Self>, leftover: Leftover) {
        let mut state = self.state.lock();
        if !state.stopped {
            self.stands_in(&mut state, leftover);
        }
    }

    fn stands_in(self: &Arc<Self>, state: &mut State, leftover: Leftover) {
        state.standing.push_back((self.clock.now() + self.stand, leftover));
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
            let (guards, steps) = self.over();
            let removed = steps.len();
            if removed == 0 {
                continue;
            }
            match self.driver.transact(guards, steps, Vec::new()).await {
                Ok(outcome) => {
                    backoff.reset();
                    self.removed(removed, (!outcome.held).then_some(outcome.revision));
                }
                Err(failure) => {
                    tracing::debug!(?failure, "leftovers were not removed yet");
                    // Others may be.
                    self.state.lock().standing.rotate_left(1);
                    backoff.pause().await;
                }
            }
        }
    }

    /// Until when the next one stands. With none the sweeper ends.
    fn next(&self) -> Option<Moment> {
        let mut state = self.state.lock();
        let next = state.standing.front().map(|&(until, _)| until);
        if next.is_none() {
            *state = State { stopped: state.stopped, ..State::default() };
        }
        next
    }

    /// What removes those whose time is over, a step for each, as far as one request takes them.
    fn over(&self) -> (Vec<Guard>, Vec<Step>) {
        let (mut state, now) = (self.state.lock(), self.clock.now());
        let State { standing, counts, .. } = &mut *state;
        if let Some((until, Leftover::Counts(prefix))) = standing.front_mut() {
            let (stands, revision) = counts.get(prefix).copied().unwrap_or((now, 0));
            if stands <= now {
                // Unless others have counted since.
                let guards = vec![Guard::Unwritten(prefix.clone(), revision)];
                return (guards, vec![Step::DeleteAll(prefix.clone())]);
            }
            *until = stands;
            standing.rotate_left(1);
        }
        let over = standing.iter().take(TOGETHER).map_while(|(until, leftover)| match leftover {
            Leftover::Tombstone(lease, attempt) if *until <= now => {
                Some(Step::Delete(self.layout.tombstone(*lease, *attempt).into()))
            }
            _ => None,
        });
        (Vec::new(), over.collect())
    }

    /// The first so many are done with; or they are counts that others have written since, up to this revision, and are left until nobody
    /// has for as long again.
    fn removed(&self, count: usize, written: Option<u64>) {
        let mut state = self.state.lock();
        let State { standing, counts, .. } = &mut *state;
        let done: Vec<_> = standing.drain(..count).collect();
        for (asked, leftover) in done {
            let Leftover::Counts(prefix) = leftover else { continue };
            let Some(last) = counts.get_mut(&prefix) else { continue };
            if let Some(revision) = written {
                *last = (last.0.max(self.clock.now() + self.stand), revision.max(last.1));
            }
            // Counted meanwhile, or written by others.
            if written.is_some() || last.0 > asked {
                standing.push_back((last.0, Leftover::Counts(prefix)));
            } else {
                counts.remove(&prefix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::decide::queue::TOMBSTONE;
    use latchwork_core::{Address, Kind as Lock};

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

    #[tokio::test]
    async fn counts_go_when_nobody_has_counted_for_a_while() {
        let server = Server::start(Kind::Etcd, Options::new().own()).await.unwrap();
        let driver = Driver::of(&server).await;
        let layout = Layout::new("n");
        let (clock, stand) = (Clock::system(), Duration::from_secs(1000));
        let leftovers =
            Leftovers::new(driver.clone(), layout.clone(), clock.clone(), Handle::current(), stand);
        let queue = |key: &str| layout.queue(&Address::new("n", Lock::Mutex, key).unwrap()).unwrap();
        let count = async |key: &str| {
            let put = |key: Option<String>| Step::Put { key: key.unwrap(), value: Vec::new(), lease: 0 };
            let steps = vec![put(queue(key).counter()), put(queue(key).ticket(7))];
            driver.transact(Vec::new(), steps, Vec::new()).await.unwrap().revision
        };
        let stored = async |key: &str| {
            let prefix = queue(key).released().unwrap();
            let all = Range { prefix, order: Order::ByKey, limit: 0, keys_only: true };
            driver.range(all).await.unwrap().0.count
        };
        // One whose name begins like another's, and one that somebody else counts too.
        for key in ["a", "ab", "others"] {
            leftovers.counts(&queue(key), Some(count(key).await));
        }
        count("others").await;
        leftovers.bury(0, NodeId::random(), b"n/mutex/a/1").await.unwrap();
        clock.jump(stand * 3 / 4);
        leftovers.counts(&queue("ab"), Some(count("ab").await));
        clock.jump(stand * 3 / 4);
        let over = || leftovers.state.lock().standing.iter().any(|&(until, _)| until <= clock.now());
        let looked_at = async {
            while over() {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(Duration::from_secs(60), looked_at).await.expect("they stay");
        assert_eq!(stored("a").await, 0);
        assert_eq!(stored("ab").await, 2, "it was counted since");
        assert_eq!(stored("others").await, 2, "somebody else counts there");
        clock.jump(stand * 2);
        let gone = async {
            while leftovers.state.lock().sweeper.is_some() {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("they stay");
        for key in ["a", "ab", "others"] {
            assert_eq!(stored(key).await, 0, "{key}");
        }
        let state = leftovers.state.lock();
        assert!(state.standing.is_empty() && state.counts.is_empty());
    }
}
