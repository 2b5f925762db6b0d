use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::backend::or_pending;
use tokio::time::timeout;

use super::handover::Handover;
use super::release_notice::{ReleaseNotice, Signal, Successor};
use crate::layout::Queue;
use crate::queue::list::Listing;
use crate::watch::{Notified, OwnNode, Subscription, Until, Watches};

/// A node behind at most this number of nodes watches the whole queue, so a departure wakes no more clients.
pub(super) const MANY: u64 = 16;

/// How long a departure waits for the notice of the same transaction, whose events have no order.
const NOTICE_DELAY: Duration = Duration::from_millis(2);

pub(crate) struct FastWait {
    near: AtomicBool,
    // The successor may rely on this node's release notice.
    notifies: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    List,
    /// All nodes ahead have left, and the own node was not removed before.
    First,
    /// The notice names the nodes after this one.
    Released(Vec<Successor>),
}

pub(crate) struct FastDeparture {
    departure: Subscription,
    notice: Option<Subscription>,
    // All nodes ahead are known.
    admits: bool,
}

fn is_near(count: u64) -> bool {
    count <= MANY + 1
}

fn has_many(count: u64) -> bool {
    count > MANY
}

impl FastWait {
    pub(crate) fn new(queue: &Queue, listing: Option<&Listing>) -> Self {
        Self {
            near: AtomicBool::new(listing.is_some_and(|listing| is_near(listing.count))),
            notifies: queue.has_inboxes() && listing.is_none_or(|listing| has_many(listing.count)),
        }
    }

    /// `sole`: no other node is ahead.
    pub(crate) fn behind(
        &self,
        watches: &Arc<Watches>,
        queue: &Queue,
        own: &OwnNode,
        exclusive: bool,
        (listing, predecessor, sole): (&Listing, usize, bool),
    ) -> FastDeparture {
        if sole && !queue.has_inboxes() {
            self.near.store(true, Ordering::Release);
        }
        let target = &listing.members[predecessor];
        if self.near.load(Ordering::Acquire) {
            let all = exclusive && !listing.more;
            let ahead = if all { &listing.members[..=predecessor] } else { std::slice::from_ref(target) };
            let keys = ahead.iter().map(|member| member.key.clone()).collect();
            let departure = watches.departure(&queue.prefix, keys, Until::All, listing.revision);
            return FastDeparture { departure, notice: None, admits: all || sole };
        }
        // Long enough not to be short again soon.
        if listing.count > 2 * MANY {
            watches.far_from_head(&queue.prefix);
        }
        let notice = queue.inbox(&own.key).map(|inbox| watches.inbox(&inbox, listing.revision));
        let departure = watches.departure_of_key(&queue.prefix, &target.key, listing.revision);
        FastDeparture { departure, notice, admits: false }
    }

    pub(crate) fn admitted(&self, queue: &Queue, successors: Vec<Successor>) -> Option<Handover> {
        self.notifies.then(|| Handover { queue: queue.clone(), signal: Signal::Next, successors })
    }

    pub(crate) fn given_up(&self, queue: &Queue) -> Option<Handover> {
        self.notifies.then(|| Handover { queue: queue.clone(), signal: Signal::Look, successors: Vec::new() })
    }
}

impl FastDeparture {
    /// Cancel-safe.
    pub(crate) async fn woken(&mut self, own: &OwnNode) -> Woken {
        let Self { departure, notice, admits } = self;
        tokio::select! {
            biased;
            notified = or_pending(notice.as_mut().map(Subscription::notified)) => read(notified, own),
            left = departure.notified() => match (left, notice) {
                (Notified::Event(_), _) if *admits => Woken::First,
                (Notified::Event(_), Some(notice)) => {
                    let notified = timeout(NOTICE_DELAY, notice.notified()).await;
                    notified.map_or(Woken::List, |notified| read(notified, own))
                }
                _ => Woken::List,
            },
        }
    }
}

fn read(notified: Notified, own: &OwnNode) -> Woken {
    let Notified::Event(written) = notified else { return Woken::List };
    match ReleaseNotice::parse(&written) {
        Some(ReleaseNotice { to, signal: Signal::Next, successors }) if to == own.state.sequence() => {
            Woken::Released(successors)
        }
        _ => Woken::List,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node far from the head relies on its predecessor, whose listing had one key less.
    #[test]
    fn the_predecessor_of_a_node_far_from_the_head_notifies() {
        let first_far = (1..40).find(|count| !is_near(*count)).unwrap();
        assert_eq!(first_far, MANY + 2);
        assert!(has_many(first_far - 1) && !has_many(first_far - 2));
    }
}
