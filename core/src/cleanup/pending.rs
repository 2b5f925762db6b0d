//! The tasks for which an acquisition or a close may wait.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::task::kept_out;
use crate::address::Address;
use crate::contracts::Node;
use crate::until::until;

#[derive(Debug, Default)]
pub(super) struct Pending {
    numbers: Mutex<Numbers>,
    // Nodes with a `min_hold`, held or released: an orderly close waits for them.
    kept: Mutex<Vec<Weak<dyn Node>>>,
    // Nodes that a close has ended: some backends end only nodes that still exist in the client.
    ended: Mutex<Vec<Arc<dyn Node>>>,
    // The number of nodes that wait for room to leave.
    put_off: AtomicUsize,
}

/// The pending tasks, numbered in order of arrival.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    all: Numbered,
    queues: HashMap<Address, Numbered>,
    asked: u64,
    // Ready tasks that are waited for, by the rank of their queue, then by number. So the cost of a pick does
    // not depend on the number of waiters.
    wanted: BTreeSet<(u64, u64)>,
}

/// The tasks of one queue, or of all queues. Each queue has its own notification, because thousands of queues
/// may have waiters.
#[derive(Debug, Default)]
struct Numbered {
    numbers: BTreeSet<u64>,
    // Only for a queue. It has a rank if a join waits for it.
    ready: BTreeSet<u64>,
    rank: Option<u64>,
    settled: Arc<Notify>,
}

impl Numbered {
    fn remove(&mut self, number: u64) {
        self.numbers.remove(&number);
        self.settled.notify_waiters();
    }
}

impl Numbers {
    fn add(&mut self, queue: &Address) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.numbers.insert(number);
        self.queues.entry(queue.clone()).or_default().numbers.insert(number);
        number
    }

    fn ready(&mut self, queue: &Address, number: u64) {
        if let Some(numbered) = self.queues.get_mut(queue) {
            numbered.ready.insert(number);
            self.wanted.extend(numbered.rank.map(|rank| (rank, number)));
        }
    }

    fn begun(&mut self, queue: &Address, number: u64) {
        if let Some(numbered) = self.queues.get_mut(queue) {
            numbered.ready.remove(&number);
            if let Some(rank) = numbered.rank {
                self.wanted.remove(&(rank, number));
            }
        }
    }

    fn remove(&mut self, queue: &Address, number: u64) {
        self.begun(queue, number);
        self.all.remove(number);
        if let Some(numbered) = self.queues.get_mut(queue) {
            numbered.remove(number);
            if numbered.numbers.is_empty() {
                self.queues.remove(queue);
            }
        }
    }

    fn of(&self, queue: Option<&Address>) -> Option<&Numbered> {
        let numbered = match queue {
            Some(queue) => self.queues.get(queue)?,
            None => &self.all,
        };
        (!numbered.numbers.is_empty()).then_some(numbered)
    }

    fn want(&mut self, queue: &Address) {
        if let Some(numbered) = self.queues.get_mut(queue)
            && numbered.rank.is_none()
        {
            numbered.rank = Some(self.asked);
            self.wanted.extend(numbered.ready.iter().map(|&number| (self.asked, number)));
            self.asked += 1;
        }
    }
}

impl Pending {
    pub(super) fn add(&self, queue: &Address) -> u64 {
        self.numbers.lock().add(queue)
    }

    pub(super) fn count(&self) -> usize {
        self.numbers.lock().all.numbers.len()
    }

    pub(super) fn done(&self, queue: &Address, number: u64) {
        self.numbers.lock().remove(queue, number);
    }

    pub(super) fn ready(&self, queue: &Address, number: u64) {
        self.numbers.lock().ready(queue, number);
    }

    pub(super) fn begun(&self, queue: &Address, number: u64) {
        self.numbers.lock().begun(queue, number);
    }

    pub(super) fn first_wanted(&self) -> Option<u64> {
        self.numbers.lock().wanted.first().map(|&(_, number)| number)
    }

    /// Waits for the present tasks on `queue`, or on all queues.
    pub(super) async fn settled(&self, queue: Option<&Address>) {
        let later = {
            let mut numbers = self.numbers.lock();
            if numbers.of(queue).is_none() {
                return;
            }
            if let Some(queue) = queue {
                numbers.want(queue);
            }
            numbers.next
        };
        loop {
            let Some(settled) = self.numbers.lock().of(queue).map(|numbered| Arc::clone(&numbered.settled))
            else {
                return;
            };
            let notified = settled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let first = self.numbers.lock().of(queue).and_then(|numbered| numbered.numbers.first().copied());
            if first.is_none_or(|first| first >= later) {
                return;
            }
            notified.await;
        }
    }

    pub(super) fn put_off(&self, count: usize) {
        self.put_off.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn taken_on(&self, count: usize) {
        self.put_off.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn are_put_off(&self) -> usize {
        self.put_off.load(Ordering::Relaxed)
    }

    pub(super) async fn one_settled(&self) {
        let settled = Arc::clone(&self.numbers.lock().all.settled);
        settled.notified().await;
    }

    pub(super) async fn fewer_than(&self, most: usize) {
        let settled = Arc::clone(&self.numbers.lock().all.settled);
        until(&settled, || (self.count() < most).then_some(())).await;
    }

    /// Adds a node whose `min_hold` starts now.
    pub(super) fn keep(&self, node: &Arc<dyn Node>) {
        let mut kept = self.kept.lock();
        kept.retain(|node| node.upgrade().is_some_and(|node| node.state().is_kept()));
        kept.push(Arc::downgrade(node));
    }

    pub(super) fn keep_until_closed(&self, ended: Vec<Arc<dyn Node>>) {
        self.ended.lock().extend(ended);
    }

    pub(super) fn closed(&self) {
        // The destructors run without the lock.
        let ended = std::mem::take(&mut *self.ended.lock());
        drop(ended);
    }

    /// Waits for the `min_hold` of every present hold, but not of later holds.
    pub(super) async fn kept_out(&self) {
        let kept: Vec<_> = self.kept.lock().iter().filter_map(Weak::upgrade).collect();
        for node in kept {
            kept_out(&*node).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::address::Kind;

    fn queue(number: u64) -> Address {
        Address::new("test", Kind::Mutex, format!("{number}")).expect("a good key")
    }

    impl Pending {
        fn wanted(count: u64) -> Self {
            let pending = Self::default();
            for number in 0..count {
                assert_eq!(pending.add(&queue(number)), number);
                pending.ready(&queue(number), number);
                assert!(pending.settled(Some(&queue(number))).now_or_never().is_none(), "it is pending");
            }
            pending
        }

        fn looked_at(&self) -> usize {
            self.numbers.lock().wanted.len()
        }
    }

    #[test]
    fn pick_ignores_tasks_under_way_and_tasks_not_ready() {
        let pending = Pending::wanted(10_000);
        for number in 0..9_999 {
            assert_eq!(pending.first_wanted(), Some(number), "as they were asked for");
            pending.begun(&queue(number), number);
        }
        assert_eq!((pending.first_wanted(), pending.looked_at()), (Some(9_999), 1));
        assert!(pending.settled(Some(&queue(0))).now_or_never().is_none());
        assert_eq!(pending.add(&queue(0)), 10_000);
        assert_eq!(pending.looked_at(), 1);
        pending.ready(&queue(0), 10_000);
        assert_eq!(pending.first_wanted(), Some(10_000), "its queue was asked for first");
    }

    #[test]
    fn unawaited_task_is_not_picked_and_finished_task_is_forgotten() {
        let pending = Pending::wanted(2);
        let (quiet, first) = (queue(2), queue(0));
        assert_eq!(pending.add(&quiet), 2);
        pending.ready(&quiet, 2);
        pending.done(&first, 0);
        assert_eq!((pending.first_wanted(), pending.looked_at()), (Some(1), 1));
        pending.begun(&queue(1), 1);
        pending.done(&queue(1), 1);
        assert_eq!((pending.first_wanted(), pending.looked_at()), (None, 0));
        assert_eq!(pending.add(&first), 3);
        pending.ready(&first, 3);
        assert_eq!(pending.first_wanted(), None);
        assert!(pending.settled(Some(&quiet)).now_or_never().is_none());
        assert_eq!(pending.first_wanted(), Some(2), "asked for when it could be begun already");
        pending.done(&quiet, 2);
        pending.done(&first, 3);
        assert!(pending.settled(None).now_or_never().is_some());
    }
}
