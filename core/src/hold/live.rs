//! The holds that a close must notify or wait for before it gives anything back (LEASE-CLOSE).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::tenure::Tenure;
use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Node};
use crate::decide::one_by_one;
use crate::error::LostReason;

/// The holds that are alive, or were dropped just now after their fixed end. A close notifies them
/// first and gives them back a margin later, as at an expiry, so that a holder's work is over when
/// the next one is admitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveHolds(Arc<Mutex<Holds>>);

#[derive(Debug, Default)]
struct Holds {
    // Keyed by address, so that a removal needs no search.
    all: HashMap<usize, Weak<Tenure>>,
    // When the close notified them.
    closing: Option<Moment>,
    // Those of them that are given back one by one, until that begins.
    given_back: Vec<(Address, Arc<dyn Node>)>,
    // A hold was added, on whichever lease.
    added: Arc<Notify>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.added.notify_one();
    }
}

impl LiveHolds {
    /// Adds a hold. After the close it is lost at once, and the answer is false: no work begins under
    /// it, so it need not be kept for a margin.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) -> bool {
        let mut holds = self.0.lock();
        holds.all.insert(Arc::as_ptr(tenure).addr(), Arc::downgrade(tenure));
        holds.added.notify_one();
        if holds.closing.is_some() {
            lose(tenure);
        }
        holds.closing.is_none()
    }

    /// Removes a hold that its holder has ended, or that was given back: the close need not wait
    /// for it.
    pub(crate) fn remove(&self, tenure: &Arc<Tenure>) {
        self.0.lock().all.remove(&Arc::as_ptr(tenure).addr());
    }

    /// The task: when a lease is lost, looks at all holds, so that each loss is reported at once and
    /// not when its holder looks. (Where nodes have leases of their own, their renewal looks.) It
    /// ends with the client.
    pub(crate) fn report_losses(
        &self,
        backend: Weak<dyn Backend>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (added, holds) = (Arc::clone(&self.0.lock().added), Arc::downgrade(&self.0));
        async move {
            loop {
                added.notified().await;
                let Some(lease) = backend.upgrade().map(|backend| backend.lease()) else { return };
                let reason = lease.until_lost().await;
                let Some(holds) = holds.upgrade() else { return };
                let alive: Vec<_> = holds.lock().all.values().filter_map(Weak::upgrade).collect();
                for node in alive.iter().filter_map(|tenure| tenure.node()) {
                    // The first look that sees a loss reports it.
                    node.state().lost();
                }
                if reason == LostReason::Closed {
                    return;
                }
            }
        }
    }

    /// Whether the client is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.lock().closing.is_some()
    }

    /// Ends all holds because the client closes. Answers since when, if there is any to wait for; and, once,
    /// their nodes, to be kept until the backend has closed: a guard that hears of its loss may be dropped,
    /// and leaves its node to the close, which ends only those that there are.
    pub(crate) fn close(&self, now: Moment) -> (Option<Moment>, Vec<Arc<dyn Node>>) {
        let mut holds = self.0.lock();
        let first = holds.closing.is_none();
        let since = *holds.closing.get_or_insert(now);
        let alive: Vec<_> = holds.all.values().filter_map(Weak::upgrade).collect();
        // Before they are told.
        let mut kept = Vec::new();
        if first {
            let nodes = alive.iter().filter_map(|tenure| Some((tenure.queue.clone(), tenure.node()?)));
            let nodes: Vec<_> = nodes.collect();
            // One under `min_hold` is not given back before its time.
            let free = nodes.iter().filter(|(_, node)| !node.state().is_kept());
            holds.given_back = free.take(one_by_one(alive.len())).cloned().collect();
            kept = nodes.into_iter().map(|(_, node)| node).collect();
        }
        alive.iter().for_each(lose);
        ((!alive.is_empty() || !holds.given_back.is_empty()).then_some(since), kept)
    }

    /// Those that the close gives back one by one: too many for one step. To be asked for when the
    /// margin behind it is over; answered once.
    pub(crate) fn take_given_back(&self) -> Vec<(Address, Arc<dyn Node>)> {
        std::mem::take(&mut self.0.lock().given_back)
    }
}

fn lose(tenure: &Arc<Tenure>) {
    if let Some(node) = tenure.node() {
        node.state().change(|life, seen| life.lose(LostReason::Closed, seen));
    }
}
