//! The departures that somebody may wait for.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::kept_out;
use crate::address::Address;
use crate::contracts::Node;

#[derive(Debug, Default)]
pub(super) struct Pending {
    numbers: Mutex<Numbers>,
    // Nodes with a least time, held or let go: what an orderly close waits for.
    kept: Mutex<Vec<Weak<dyn Node>>>,
}

/// The pending departures, numbered as they came.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    all: Numbered,
    queues: HashMap<Address, Numbered>,
    // Those that somebody waits for, as they were asked for. Each once.
    wanted: VecDeque<Address>,
}

/// Of a queue, or of all. Who waits for one queue does not hear of the others: there may be thousands of both.
#[derive(Debug, Default)]
struct Numbered {
    numbers: BTreeSet<u64>,
    is_wanted: bool,
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

    fn remove(&mut self, queue: &Address, number: u64) {
        self.all.remove(number);
        if let Some(numbered) = self.queues.get_mut(queue) {
            numbered.remove(number);
            if numbered.numbers.is_empty() {
                self.queues.remove(queue);
            }
        }
    }

    /// Those of a queue, or all, where there are any.
    fn of(&self, queue: Option<&Address>) -> Option<&Numbered> {
        let numbered = match queue {
            Some(queue) => self.queues.get(queue)?,
            None => &self.all,
        };
        (!numbered.numbers.is_empty()).then_some(numbered)
    }

    fn want(&mut self, queue: &Address) {
        if let Some(numbered) = self.queues.get_mut(queue)
            && !std::mem::replace(&mut numbered.is_wanted, true)
        {
            self.wanted.push_back(queue.clone());
        }
    }
}

impl Pending {
    /// Another departure from a queue counts from now on: its number.
    pub(super) fn add(&self, queue: &Address) -> u64 {
        self.numbers.lock().add(queue)
    }

    pub(super) fn done(&self, queue: &Address, number: u64) {
        self.numbers.lock().remove(queue, number);
    }

    /// The first of those that `is_waiting` and that somebody waits for.
    pub(super) fn first_wanted(&self, is_waiting: impl Fn(u64) -> bool) -> Option<u64> {
        let Numbers { queues, wanted, .. } = &mut *self.numbers.lock();
        let mut first = None;
        wanted.retain(|queue| {
            let Some(numbered) = queues.get(queue) else { return false };
            if first.is_none() {
                first = numbered.numbers.iter().copied().find(|&number| is_waiting(number));
            }
            // One that is under way was begun for whoever waits; or it is on its way to the task.
            true
        });
        first
    }

    /// Waits until no departure from `queue` is pending that is pending now; without a queue, none at all.
    pub(super) async fn settled(&self, queue: Option<&Address>) {
        let later = {
            let mut numbers = self.numbers.lock();
            // What nearly always holds costs one look.
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

    /// A node is held for a least time from now on.
    pub(super) fn keep(&self, node: &Arc<dyn Node>) {
        let mut kept = self.kept.lock();
        kept.retain(|node| node.upgrade().is_some_and(|node| node.state().is_kept()));
        kept.push(Arc::downgrade(node));
    }

    /// Waits until the least time of every hold is over that there is now. (Others may begin meanwhile, without end.)
    pub(super) async fn kept_out(&self) {
        let kept: Vec<_> = self.kept.lock().iter().filter_map(Weak::upgrade).collect();
        for node in kept {
            kept_out(&*node).await;
        }
    }
}
