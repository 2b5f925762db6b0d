//! The holds that a close must notify or wait for before it gives anything back (LEASE-CLOSE).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::tenure::Tenure;
use crate::clock::Moment;
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
}

impl LiveHolds {
    /// Adds a hold; after the close it is lost at once.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) {
        let mut holds = self.0.lock();
        holds.all.insert(Arc::as_ptr(tenure).addr(), Arc::downgrade(tenure));
        if holds.closing.is_some() {
            lose(tenure);
        }
    }

    /// Removes a hold that its holder has ended, or that was given back: the close need not wait
    /// for it.
    pub(crate) fn remove(&self, tenure: &Arc<Tenure>) {
        self.0.lock().all.remove(&Arc::as_ptr(tenure).addr());
    }

    /// Whether the client is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.lock().closing.is_some()
    }

    /// Ends all holds because the client closes. Answers since when, if there is any to wait for.
    pub(crate) fn close(&self, now: Moment) -> Option<Moment> {
        let mut holds = self.0.lock();
        let since = *holds.closing.get_or_insert(now);
        let alive: Vec<_> = holds.all.values().filter_map(Weak::upgrade).collect();
        alive.iter().for_each(lose);
        (!alive.is_empty()).then_some(since)
    }
}

fn lose(tenure: &Arc<Tenure>) {
    if let Some(node) = tenure.node() {
        node.state().change(|life, seen| life.lose(LostReason::Closed, seen));
    }
}
