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

/// The live holds, and holds that were dropped just after their fixed end. A close notifies them first and
/// gives them back one margin later, so that a holder's work is over before the next holder is admitted
/// (LEASE-CLOSE).
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveHolds(Arc<Mutex<Holds>>);

#[derive(Debug, Default)]
struct Holds {
    // A key is the pointer of the tenure, so a removal needs no search.
    all: HashMap<usize, Weak<Tenure>>,
    // The time when the close notified them.
    closing: Option<Moment>,
    // The close releases these nodes one by one.
    given_back: Vec<(Address, Arc<dyn Node>)>,
    added: Arc<Notify>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.added.notify_one();
    }
}

impl LiveHolds {
    /// Returns false after the close: the hold is lost at once. No work starts under it, so it needs no
    /// margin.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) -> bool {
        let mut holds = self.0.lock();
        holds.all.insert(Arc::as_ptr(tenure).addr(), Arc::downgrade(tenure));
        holds.added.notify_one();
        if holds.closing.is_some() {
            lose(tenure);
        }
        holds.closing.is_none()
    }

    pub(crate) fn remove(&self, tenure: &Arc<Tenure>) {
        self.0.lock().all.remove(&Arc::as_ptr(tenure).addr());
    }

    /// Reports a loss at once. (If each node has its own lease, the renewal reports it.)
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
                    // The first check that sees a loss reports it.
                    node.state().lost();
                }
                if reason == LostReason::Closed {
                    return;
                }
            }
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.lock().closing.is_some()
    }

    /// Returns the time of the first call, if there are holds to wait for. The first call also returns their
    /// nodes, which must live until the backend has closed: a notified guard may be dropped, and the close
    /// ends only nodes that still exist.
    pub(crate) fn close(&self, now: Moment) -> (Option<Moment>, Vec<Arc<dyn Node>>) {
        let mut holds = self.0.lock();
        let first = holds.closing.is_none();
        let since = *holds.closing.get_or_insert(now);
        let alive: Vec<_> = holds.all.values().filter_map(Weak::upgrade).collect();
        let mut kept = Vec::new();
        if first {
            let nodes = alive.iter().filter_map(|tenure| Some((tenure.queue.clone(), tenure.node()?)));
            let nodes: Vec<_> = nodes.collect();
            // A node under `min_hold` is not given back before its time.
            let free = nodes.iter().filter(|(_, node)| !node.state().is_kept());
            holds.given_back = free.take(one_by_one(alive.len())).cloned().collect();
            kept = nodes.into_iter().map(|(_, node)| node).collect();
        }
        alive.iter().for_each(lose);
        ((!alive.is_empty() || !holds.given_back.is_empty()).then_some(since), kept)
    }

    /// Takes the nodes that were too many for one step of the close. Called once, after the margin.
    pub(crate) fn take_given_back(&self) -> Vec<(Address, Arc<dyn Node>)> {
        std::mem::take(&mut self.0.lock().given_back)
    }
}

fn lose(tenure: &Arc<Tenure>) {
    if let Some(node) = tenure.node() {
        node.state().change(|life, seen| life.lose(LostReason::Closed, seen));
    }
}
