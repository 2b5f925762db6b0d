//! The store: queues and leases, behind one lock.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::client::MemoryBackend;
use super::link::Link;
use super::node::MemoryNode;
use crate::address::Address;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::contracts::{Backend, Entry, NodeId, Page};
use crate::coordinator::Coordinator;
use crate::decide::queue::{Answer, Ask, Micros, Queue, Told};
use crate::error::{Error, ErrorKind, LostReason, Result};

/// A store, shared by its clients. Dropped when the last of them is.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
}

/// A client's lease in a store.
pub(super) type LeaseId = u64;

#[derive(Default)]
struct State {
    queues: HashMap<Address, Queue>,
    leases: HashMap<LeaseId, Granted>,
    last_lease: LeaseId,
    live: HashMap<NodeId, Arc<MemoryNode>>,
    // Wake-ups to these nodes are lost, once: a fault.
    deaf: HashSet<NodeId>,
}

/// A lease, as the store has it.
struct Granted {
    // A renewal renews them all at one instant, so that the client's one deadline holds for each of them (RULES C1).
    nodes: HashMap<NodeId, (Address, u64)>,
    ttl: Duration,
    expires: Micros,
}

impl Granted {
    fn new(ttl: Duration, now: Micros) -> Self {
        let mut lease = Self { nodes: HashMap::new(), ttl, expires: now };
        lease.renew(now);
        lease
    }

    fn renew(&mut self, now: Micros) {
        self.expires = micros(moment(now) + self.ttl);
    }
}

static NAMED: LazyLock<Mutex<HashMap<String, Weak<Inner>>>> = LazyLock::new(Mutex::default);

impl Memory {
    /// A private store on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, state: Mutex::default() }))
    }

    /// The store of this name in this process, made on `clock` if there is none.
    ///
    /// # Errors
    /// `Misconfigured` when it exists on the other kind of clock.
    pub fn named(name: &str, clock: Clock) -> Result<Self> {
        let store = Self::named_or(name, || clock.clone());
        if store.0.clock.is_tokio() != clock.is_tokio() {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                format!("memory store {name:?} runs on {:?}, not on {clock:?}", store.0.clock),
            ));
        }
        Ok(store)
    }

    /// The store of this name, on whichever clock it has; on the system's if there is none.
    pub(super) fn named_or_system(name: &str) -> Self {
        Self::named_or(name, Clock::system)
    }

    fn named_or(name: &str, clock: impl FnOnce() -> Clock) -> Self {
        let mut named = NAMED.lock();
        named.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = named.get(name).and_then(Weak::upgrade) {
            return Self(store);
        }
        let store = Self::new(clock());
        named.insert(name.to_owned(), Arc::downgrade(&store.0));
        store
    }

    /// A client of this store, and the link between them, on which faults can be laid.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field of `config`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(&self, config: &Config) -> Result<(Coordinator, Link)> {
        let (backend, link) = self.client(config)?;
        Ok((Coordinator::new(backend, config), link))
    }

    /// As [`connect`](Memory::connect), below the recipes: the backend alone.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field of `config`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn client(&self, config: &Config) -> Result<(Arc<dyn Backend>, Link)> {
        config.validate()?;
        Ok(MemoryBackend::open(self.clone(), config))
    }

    /// The store's clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Removes a node from outside, as an operator would. Answers whether it was there. Its owner hears `Revoked`.
    pub fn remove(&self, queue: &Address, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(nodes) = state.queues.get_mut(queue) else { return false };
            let (slot, told) = nodes.remove(now, sequence);
            state.tell(queue, told);
            let Some(slot) = slot else { return false };
            state.forget(slot.id, Some(LostReason::Revoked));
            true
        })
    }

    /// The nodes that are in the store now, as text: for tests that nothing is left behind.
    pub fn contents(&self) -> Vec<String> {
        self.with(|state, now| {
            state.prune(now);
            let mut contents = Vec::new();
            for (address, queue) in &state.queues {
                contents.extend(
                    queue.iter().map(|(sequence, slot, _)| format!("{address:?}/{sequence} {:?}", slot.id)),
                );
            }
            contents
        })
    }

    pub(super) fn open_lease(&self, ttl: Duration) -> LeaseId {
        self.with(|state, now| {
            state.last_lease += 1;
            state.leases.insert(state.last_lease, Granted::new(ttl, now));
            state.last_lease
        })
    }

    /// Ends a lease: every node of it goes, and its owner is told `reason`.
    pub(super) fn end_lease(&self, lease: LeaseId, reason: LostReason) {
        self.with(|state, now| {
            let nodes = state.leases.remove(&lease).map(|lease| lease.nodes).unwrap_or_default();
            for (id, (address, sequence)) in nodes {
                if let Some(queue) = state.queues.get_mut(&address) {
                    let (_, told) = queue.leave(now, id, sequence);
                    state.tell(&address, told);
                }
                state.forget(id, Some(reason));
            }
            state.sweep(now);
        });
    }

    /// Renews every node of a lease at one instant. `None`: there is no such lease any more.
    pub(super) fn renew(&self, lease: LeaseId) -> Option<()> {
        self.with(|state, now| {
            let lease = state.leases.get_mut(&lease)?;
            lease.renew(now);
            let nodes: Vec<_> = lease.nodes.iter().map(|(id, place)| (*id, place.clone())).collect();
            for (id, (address, sequence)) in nodes {
                let (answer, told) = match state.queues.get_mut(&address) {
                    Some(queue) => queue.renew(now, id, sequence),
                    None => (Answer::Gone, Vec::new()),
                };
                state.tell(&address, told);
                if answer == Answer::Gone {
                    state.forget(id, Some(LostReason::Revoked));
                }
            }
            state.sweep(now);
            Some(())
        })
    }

    /// Joins under a lease; `make` makes the client's side of the node, under the store's lock, so that
    /// no wake-up can come before it is there (RULES A7).
    pub(super) fn join(
        &self,
        lease: LeaseId,
        address: &Address,
        ask: &Ask,
        make: impl FnOnce(u64) -> Arc<MemoryNode>,
    ) -> Option<(Answer, Option<Arc<MemoryNode>>)> {
        self.with(|state, now| {
            state.leases.get(&lease)?;
            let queue = state.queues.entry(address.clone()).or_default();
            let (answer, told) = queue.join(now, ask);
            state.tell(address, told);
            let (Answer::Admitted { sequence } | Answer::Waiting { sequence, .. }) = answer else {
                return Some((answer, None));
            };
            let nodes = &mut state.leases.get_mut(&lease)?.nodes;
            let known = nodes.insert(ask.id, (address.clone(), sequence)).is_some();
            if !known && state.live.contains_key(&ask.id) {
                // Found again, but it hangs on another lease: it does not count (NODE-IDEMPOTENT).
                nodes.remove(&ask.id);
                return Some((Answer::Gone, None));
            }
            let node = state.live.entry(ask.id).or_insert_with(|| make(sequence));
            Some((answer, Some(Arc::clone(node))))
        })
    }

    /// Answers whether it was there.
    pub(super) fn leave(&self, address: &Address, id: NodeId, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return false };
            let (was_there, told) = queue.leave(now, id, sequence);
            state.tell(address, told);
            state.left(id, was_there);
            was_there
        })
    }

    /// Answers whether a node was there.
    pub(super) fn abandon(&self, address: &Address, id: NodeId) -> bool {
        self.with(|state, now| {
            let (was_there, told) = state.queues.entry(address.clone()).or_default().abandon(now, id);
            state.tell(address, told);
            state.left(id, was_there);
            was_there
        })
    }

    /// Where a node stands now: drops what has expired first, and wakes those that this admits.
    pub(super) fn look(&self, address: &Address, id: NodeId, sequence: u64) -> Answer {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return Answer::Gone };
            let told = queue.prune(now);
            let answer = if queue.holds(id, sequence) { queue.answer(sequence) } else { Answer::Gone };
            state.tell(address, told);
            answer
        })
    }

    pub(super) fn list(&self, address: &Address, page: Page) -> Vec<Entry> {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return Vec::new() };
            let told = queue.prune(now);
            let entries = queue
                .iter()
                .filter(|(sequence, ..)| *sequence > page.after)
                .take(page.most)
                .map(|(sequence, slot, admitted)| {
                    let node = state.live.get(&slot.id);
                    Entry {
                        sequence,
                        claim: slot.claim,
                        admitted,
                        label: node.map(|node| Entry::label_of(node.label.as_bytes())).unwrap_or_default(),
                        age: node.map(|node| self.0.clock.now().since(node.joined)),
                    }
                })
                .collect();
            state.tell(address, told);
            entries
        })
    }

    /// Turns a writer into a reader, in its place. Answers whether it is one now.
    pub(super) fn downgrade(&self, address: &Address, id: NodeId, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return false };
            let (there, told) = queue.downgrade(now, id, sequence);
            state.tell(address, told);
            there
        })
    }

    /// A semaphore's stored limit.
    pub(super) fn limit(&self, address: &Address) -> Option<u32> {
        self.with(|state, _| state.queues.get(address).and_then(Queue::limit))
    }

    pub(super) fn set_limit(&self, address: &Address, limit: u32) {
        self.with(|state, now| {
            let told = state.queues.entry(address.clone()).or_default().set_limit(now, limit);
            state.tell(address, told);
        });
    }

    /// The next wake-up to this waiter is lost: a fault.
    pub(super) fn deafen(&self, address: &Address, sequence: u64) -> bool {
        self.with(|state, _| {
            let slot =
                state.queues.get(address).and_then(|queue| queue.iter().find(|(at, ..)| *at == sequence));
            let Some(id) = slot.map(|(_, slot, _)| slot.id) else { return false };
            state.deaf.insert(id)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State, Micros) -> T) -> T {
        let mut state = self.0.state.lock();
        // Read under the lock: server time never goes back from one operation to the next.
        let now = micros(self.0.clock.now());
        work(&mut state, now)
    }
}

impl State {
    /// Wakes those that were admitted, and a first waiter that cannot be any more.
    fn tell(&mut self, address: &Address, told: Told) {
        let unfit = self.queues.get(address).and_then(Queue::unfit_head);
        self.wake(told.into_iter().chain(unfit));
    }

    fn wake(&mut self, told: impl IntoIterator<Item = (NodeId, u64)>) {
        for (id, _) in told {
            if !self.deaf.remove(&id)
                && let Some(node) = self.live.get(&id)
            {
                node.wake();
            }
        }
    }

    /// Its owner gave it back.
    fn left(&mut self, id: NodeId, was_there: bool) {
        if let Some(node) = self.live.get(&id).filter(|_| was_there) {
            node.removed.store(true, Ordering::Release);
        }
        self.forget(id, None);
    }

    fn forget(&mut self, id: NodeId, reason: Option<LostReason>) {
        self.deaf.remove(&id);
        let Some(node) = self.live.remove(&id) else { return };
        if let Some(lease) = self.leases.get_mut(&node.lease) {
            lease.nodes.remove(&id);
        }
        if let Some(reason) = reason {
            node.lose(reason);
        }
    }

    /// Drops what has expired, in queues that nobody uses too, and wakes as [`tell`](State::tell) does.
    fn prune(&mut self, now: Micros) {
        let mut told = Told::new();
        for queue in self.queues.values_mut() {
            told.extend(queue.prune(now));
            told.extend(queue.unfit_head());
        }
        self.wake(told);
    }

    /// What has expired is forgotten, so that dead clients leave no memory behind; so are queues that
    /// would give out no lower sequence number when they are made anew. At renewals and ends of leases: it looks at everything.
    fn sweep(&mut self, now: Micros) {
        self.prune(now);
        let Self { queues, live, leases, .. } = self;
        live.retain(|id, node| {
            let there = queues.get(&node.queue).is_some_and(|queue| queue.holds(*id, node.sequence()));
            if !there && let Some(lease) = leases.get_mut(&node.lease) {
                lease.nodes.remove(id);
            }
            there
        });
        leases.retain(|_, lease| !lease.nodes.is_empty() || lease.expires > now);
        queues.retain(|_, queue| !queue.is_forgettable(now));
    }
}

pub(super) fn micros(moment: Moment) -> Micros {
    moment.as_nanos() / 1_000
}

pub(super) fn moment(micros: Micros) -> Moment {
    Moment::from_nanos(micros.saturating_mul(1_000))
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::decide::queue::TOMBSTONE;

    fn connected(store: &Memory) -> (Coordinator, Link) {
        store.connect(&Config::new("memory")).expect("connected")
    }

    #[tokio::test(start_paused = true)]
    async fn a_join_that_is_under_way_at_a_close_opens_no_lease() {
        let store = Memory::new(Clock::tokio());
        let (coordinator, link) = connected(&store);
        let mutex = coordinator.mutex("a").expect("a good key");
        link.cut();
        coordinator.lease().until_lost().await;
        link.heal();
        link.hold();
        let mut joining = Box::pin(mutex.acquire());
        assert!((&mut joining).now_or_never().is_none());
        link.held().await;
        coordinator.close().await.expect("closed");
        link.resume();
        assert_eq!(joining.await.expect_err("closed").kind(), &ErrorKind::Closed);
        assert_eq!(coordinator.lease().lost(), Some(LostReason::Expired));
        assert!(store.0.state.lock().leases.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_dead_client_leaves_where_nobody_looks_is_forgotten() {
        let store = Memory::new(Clock::tokio());
        let ((alive, _), (dead, _)) = (connected(&store), connected(&store));
        let _guard = dead.mutex("a").expect("a good key").acquire().await.expect("acquired");
        dead.crash().await;
        tokio::time::sleep(2 * alive.lease().ttl()).await;
        let state = store.0.state.lock();
        assert_eq!((state.queues.len(), state.live.len(), state.leases.len()), (0, 0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_of_an_abandoned_attempt_is_forgotten_with_its_tombstone() {
        let store = Memory::new(Clock::tokio());
        let (alive, _) = connected(&store);
        store.abandon(alive.mutex("a").expect("a good key").address(), NodeId::random());
        for queues in [1, 0] {
            tokio::time::sleep(TOMBSTONE * 3 / 4).await;
            assert_eq!(store.0.state.lock().queues.len(), queues);
        }
    }
}
