//! Renewal: every node has a lease of its own, and one task renews them all in batches (LEASE-ALIVE).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::contracts::{Lease, LeaseKeeper, LeaseState, NodeId};
use latchwork_core::decide::{recheck, renewal_period};
use latchwork_core::{Clock, Error, LostReason, Moment, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::client::{BURST, Client};
use crate::clock_steps::ClockSteps;
use crate::driver::Losses;
use crate::inbox::Slot;
use crate::layout::Queue;
use crate::scripts::{self, Call, RenewAnswer};

/// Queues in one renewal script: fewer cost the server more, more would let other requests wait. (In a cluster
/// it would be those of one slot.)
const QUEUES: usize = 32;
/// Nodes of one queue in one renewal script.
const NODES: usize = 256;
/// How soon a waiter looks again at the earliest: what has expired may be one of more than a script drops at once.
const SOONEST: Duration = Duration::from_millis(5);
/// How soon a round that failed is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// The lease of the client as a whole: live while every node was renewed in time (with no node: while the server
/// answers), lost when the deadlines of all nodes have passed.
#[derive(Debug)]
pub(crate) struct ClientLease {
    clock: Clock,
    ttl: Duration,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    lease: LeaseKeeper,
    // Since when a round is under way, and when it must be over.
    round: Option<(Moment, Moment)>,
    closed: bool,
}

impl ClientLease {
    pub(crate) fn new(clock: Clock, ttl: Duration, sent: Moment) -> Self {
        let lease = LeaseKeeper::new(clock.clone(), ttl, sent);
        Self { clock, ttl, now: Mutex::new(Now { lease, round: None, closed: false }) }
    }

    pub(crate) fn current(&self) -> Lease {
        self.now.lock().lease.lease().clone()
    }

    /// A node was joined by a request sent at `sent`. After a loss that opens a new lease (LEASE-REOPEN).
    pub(crate) fn joined(&self, sent: Moment) {
        let mut now = self.now.lock();
        if !now.closed && now.lease.lost() == Some(LostReason::Expired) {
            (now.lease, now.round) = (LeaseKeeper::new(self.clock.clone(), self.ttl, sent), None);
        } else {
            Self::extend(&now, sent);
        }
    }

    /// The client is closed. The reply of a join that was under way opens no lease behind that.
    pub(crate) fn close(&self) {
        let mut now = self.now.lock();
        now.closed = true;
        now.lease.end(LostReason::Closed);
    }

    fn awaiting(&self, sent: Moment, due: Moment) {
        let mut now = self.now.lock();
        now.lease.awaiting(sent, due);
        now.round.get_or_insert((sent, due));
    }

    /// Contact is lost.
    fn suspend(&self) {
        let mut now = self.now.lock();
        now.lease.suspend();
        let at = self.clock.now();
        now.round = Some(now.round.map_or((at, at), |(sent, due)| (sent, due.min(at))));
    }

    /// A round is over: all nodes were renewed by requests sent at `sent` or later.
    fn proven(&self, sent: Moment) {
        let mut now = self.now.lock();
        now.lease.proven(sent);
        now.round = None;
    }

    /// Some were renewed, others not: it lives on with those, and stays late.
    fn partly_proven(&self, sent: Moment) {
        Self::extend(&self.now.lock(), sent);
    }

    fn extend(Now { lease, round, .. }: &Now, sent: Moment) {
        let suspended = lease.state() == LeaseState::Suspended;
        if lease.proven(sent) {
            if suspended {
                lease.suspend();
            } else if let Some((asked, due)) = *round {
                // Under way still, though a later request was answered.
                lease.awaiting(asked, due);
            }
        }
    }
}

/// The task: a round every third of the TTL, at once when the connection was renewed, and soon again after one that
/// failed. Ends with the client.
pub(crate) async fn keep(client: Weak<Client>, reconnected: Arc<Notify>) {
    let Some((clock, mut closing, period)) =
        client.upgrade().map(|client| (client.clock.clone(), client.closing(), renewal_period(client.ttl)))
    else {
        return;
    };
    let mut steps = ClockSteps::default();
    let mut next = clock.now() + period;
    loop {
        tokio::select! {
            () = clock.sleep_until(next) => {}
            () = reconnected.notified() => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        let Some(client) = client.upgrade() else { return };
        let started = clock.now();
        let round = tokio::select! {
            round = client.renew_all(&mut steps) => round,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        next = match round {
            Ok(()) => started + period,
            Err(error) => {
                tracing::debug!(%error, "not everything was renewed; again soon");
                // What is refused may be allowed again in time, but is not asked for in a tight loop.
                clock.now() + if error.is_retryable() { AGAIN } else { AGAIN.max(period / 4) }
            }
        };
    }
}

/// Suspends all leases whenever the connection is lost, so that who waits or holds need not find that by a late renewal. The round
/// behind the next connection proves them. Ends with the client.
pub(crate) async fn follow(client: Weak<Client>, mut losses: Losses) {
    while losses.next().await.is_some() {
        let Some(client) = client.upgrade() else { return };
        client.lease.suspend();
        for slot in client.inbox.all() {
            if let Some(state) = slot.state() {
                state.lease_keeper().suspend();
            }
        }
    }
}

impl Client {
    /// A renewal that takes longer than its period is late anyway.
    pub(crate) fn renewal_bound(&self) -> Duration {
        self.request_timeout.min(renewal_period(self.ttl))
    }

    async fn renew_all(self: &Arc<Self>, steps: &mut ClockSteps) -> Result<()> {
        let started = self.clock.now();
        let due = started + renewal_period(self.ttl);
        let mut queues: HashMap<Queue, Vec<Arc<Slot>>> = HashMap::new();
        let mut any_lost = false;
        for slot in self.inbox.all() {
            if slot.is_moot(started) {
                self.forget(&slot);
            }
            let held = slot.state().filter(|state| !slot.has_left() && !state.is_let_go());
            let Some(state) = held else { continue };
            // Timers do not count a machine's sleep: whoever waits on it reads the clock again (RULES C2).
            state.lease_keeper().tick();
            // Lost is final, and a fixed end is never renewed past.
            match state.lost() {
                None => {
                    state.lease_keeper().awaiting(started, due);
                    queues.entry(slot.queue.clone()).or_default().push(slot);
                }
                Some(_) => any_lost = true,
            }
        }
        self.lease.awaiting(started, due);
        if queues.is_empty() {
            let sent = self.driver.ping(self.renewal_bound()).await?;
            self.lease.proven(sent);
            if any_lost {
                self.give_back_lost();
            }
            return Ok(());
        }
        let observe = |sent, time| steps.observe(sent, self.clock.now(), time, self.ttl);
        let renewed = self.renew_each(queues, observe).await;
        if matches!(renewed, Ok(true)) {
            self.lease.proven(started);
        }
        if any_lost && !renewed.as_ref().is_err_and(Error::is_retryable) {
            self.give_back_lost();
        }
        renewed.map(drop)
    }

    /// Renews nodes, in bursts, and answers whether no queue was refused. `answered` hears of each reply when it was asked
    /// for, and the server's time in it. Where the server forbids one outright, that is the error, behind all the others.
    pub(crate) async fn renew_each(
        self: &Arc<Self>,
        queues: HashMap<Queue, Vec<Arc<Slot>>>,
        mut answered: impl FnMut(Moment, scripts::ServerTime),
    ) -> Result<bool> {
        let (mut all, mut left, mut refusal) = (true, batches(queues), None);
        while !left.is_empty() {
            let mut result = Ok(());
            let burst: Vec<_> = left.drain(..left.len().min(BURST)).collect();
            let calls: Vec<_> = burst.iter().map(|batch| renewal(batch, self.ttl)).collect();
            let answers = self.driver.run_all(&calls, self.renewal_bound()).await;
            for (batch, answer) in burst.into_iter().zip(answers) {
                match answer.and_then(|(sent, reply)| Ok((sent, scripts::renewed(reply)?))) {
                    Ok((sent, (time, answers))) => {
                        answered(sent, time);
                        let refused = self.apply(&batch, sent, answers);
                        if refused < batch.len() {
                            self.lease.partly_proven(sent);
                        }
                        all &= refused == 0;
                    }
                    Err(error) if error.is_retryable() => result = Err(error),
                    // Keys of one of its queues may be forbidden: the others are not to be lost with that.
                    Err(_) if batch.len() > 1 => left.extend(batch.into_iter().map(|queue| vec![queue])),
                    Err(error) => refusal = Some(error),
                }
            }
            // A server that does not answer is not asked for the rest: the next round begins with everything.
            result?;
        }
        refusal.map_or(Ok(all), Err)
    }

    /// Answers how many queues were refused: a key of theirs belongs to another program, and their nodes run out.
    fn apply(self: &Arc<Self>, batch: &Batch, sent: Moment, answers: scripts::Renewed) -> usize {
        let mut refused = 0;
        for ((queue, slots), answer) in batch.iter().zip(answers) {
            match answer {
                Ok((flags, answers)) => {
                    self.heed(flags, queue);
                    for (slot, answer) in slots.iter().zip(answers) {
                        self.renewed(slot, sent, answer);
                    }
                }
                Err(words) => {
                    tracing::debug!(?queue, words, "a queue was not renewed");
                    refused += 1;
                }
            }
        }
        refused
    }

    fn renewed(self: &Arc<Self>, slot: &Arc<Slot>, sent: Moment, answer: RenewAnswer) {
        let Some(state) = slot.state().filter(|_| !slot.has_left()) else { return };
        if answer == RenewAnswer::Gone {
            return state.gone(self.why_gone(state.lease()));
        }
        // Before the answer moves it.
        let why = self.why_gone(state.lease());
        if !state.lease_keeper().proven(sent) {
            // Too late for us, though the server has renewed it: given back, or our own next acquire would wait
            // behind it (RULES A5, C6).
            return self.give_back_later(slot);
        }
        match answer {
            RenewAnswer::Held => slot.admit(self.clock.now()),
            // Admitted before this was asked, and not any more: somebody has changed the queue by hand.
            RenewAnswer::Waiting { .. } | RenewAnswer::Unfit { .. }
                if slot.admitted_at().is_some_and(|admitted| admitted < sent) =>
            {
                state.gone(why);
                self.give_back_later(slot);
            }
            RenewAnswer::Waiting { ahead } => slot.waits(self.next_look(ahead)),
            RenewAnswer::Unfit { stored } => slot.outweighs(stored),
            // It stands as it stood: whoever mends the queue goes on, and then it is told.
            RenewAnswer::Unsettled | RenewAnswer::Gone => {}
        }
    }

    /// When a waiter looks again, if what it waits for expires `ahead` from now.
    pub(crate) fn next_look(&self, ahead: Duration) -> Moment {
        let now = self.clock.now();
        // The keeper's next round comes within a period; this timer is for what expires before it.
        recheck(now + 2 * renewal_period(self.ttl), now + ahead.max(SOONEST))
    }
}

/// The nodes of one script: per queue at most NODES.
type Batch = Vec<(Queue, Vec<Arc<Slot>>)>;

/// By deadline: in rounds that take long, none is to come first in one and last in the next.
fn batches(queues: HashMap<Queue, Vec<Arc<Slot>>>) -> Vec<Batch> {
    let deadline = |slot: &Arc<Slot>| slot.state().map(|state| state.lease().deadline());
    let mut parts = Batch::new();
    for (queue, mut slots) in queues {
        slots.sort_by_cached_key(deadline);
        parts.extend(slots.chunks(NODES).map(|part| (queue.clone(), part.to_vec())));
    }
    parts.sort_by_cached_key(|(_, slots)| slots.first().and_then(deadline));
    let mut batches = vec![Batch::new()];
    let mut nodes = 0;
    for (queue, part) in parts {
        let full = batches.last().is_some_and(|batch| batch.len() == QUEUES || nodes + part.len() > NODES);
        if full {
            batches.push(Batch::new());
            nodes = 0;
        }
        nodes += part.len();
        if let Some(batch) = batches.last_mut() {
            batch.push((queue, part));
        }
    }
    batches
}

fn renewal(batch: &Batch, ttl: Duration) -> Call {
    let named =
        |slot: &Arc<Slot>| -> Option<(NodeId, u64)> { slot.state().map(|state| (slot.id, state.sequence())) };
    scripts::renew(
        batch.iter().map(|(queue, slots)| (queue, slots.iter().filter_map(named).collect())),
        ttl,
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Inbox;
    use latchwork_core::contracts::NodeKeeper;
    use latchwork_core::{Address, Kind};

    #[test]
    fn batches_hold_every_node_once_and_are_bounded() {
        let mut queues = HashMap::new();
        for (name, count) in [("a", 1), ("b", 600), ("c", 1)].into_iter().chain([("d", 0)]) {
            let queue = Queue::of(&Address::new("n", Kind::Mutex, name).unwrap()).unwrap();
            let slots = (0..count).map(|_| Slot::new(queue.clone(), NodeId::random(), false)).collect();
            queues.insert(queue, slots);
        }
        for i in 0..70 {
            let queue = Queue::of(&Address::new("n", Kind::Mutex, format!("q{i}")).unwrap()).unwrap();
            queues.insert(queue.clone(), vec![Slot::new(queue, NodeId::random(), false)]);
        }
        let batches = batches(queues);
        let nodes = |batch: &Batch| batch.iter().map(|(_, slots)| slots.len()).sum::<usize>();
        assert_eq!(batches.iter().map(nodes).sum::<usize>(), 672);
        assert!(batches.iter().all(|batch| batch.len() <= QUEUES && nodes(batch) <= NODES));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_renewed_longest_ago_is_renewed_first() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let inbox = Inbox::new(clock.clone());
        let mut queues: HashMap<Queue, Vec<Arc<Slot>>> = HashMap::new();
        // Of one queue come twice as many as a script renews, of a hundred others one each.
        let crowd = 2 * NODES as u64;
        for i in (0..crowd + 100).rev() {
            let key = if i < crowd { "crowd".to_owned() } else { format!("q{i}") };
            let queue = Queue::of(&Address::new("n", Kind::RwLock, key).unwrap()).unwrap();
            let slot = Slot::new(queue.clone(), NodeId::random(), false);
            let lease = LeaseKeeper::new(clock.clone(), ttl, clock.now() + Duration::from_millis(i));
            inbox.settle(&slot, NodeKeeper::new(lease, i), true, Moment::NEVER);
            queues.entry(queue).or_default().push(slot);
        }
        let batches = batches(queues);
        let slots = batches.iter().flatten().flat_map(|(_, slots)| slots);
        let order: Vec<_> = slots.map(|slot| slot.state().unwrap().sequence()).collect();
        assert_eq!(order, (0..crowd + 100).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn the_clients_lease_stays_suspended_until_every_node_was_renewed() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let lease = ClientLease::new(clock.clone(), ttl, clock.now());
        lease.awaiting(clock.now(), clock.now() + Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(lease.current().state(), LeaseState::Suspended);
        lease.partly_proven(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Suspended);
        lease.proven(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Live);
        tokio::time::advance(ttl).await;
        let old = lease.current();
        assert_eq!(old.state(), LeaseState::Lost(LostReason::Expired));
        lease.joined(clock.now());
        assert_eq!((lease.current().state(), old.lost()), (LeaseState::Live, Some(LostReason::Expired)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_join_that_is_answered_behind_the_close_opens_no_lease() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let lease = ClientLease::new(clock.clone(), ttl, clock.now());
        tokio::time::advance(ttl).await;
        lease.close();
        lease.joined(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Lost(LostReason::Expired));
    }
}
