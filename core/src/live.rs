//! The holds of a client that are alive, or were dropped just now behind their fixed end: whom its close tells, or waits for, before it
//! gives anything back (LEASE-CLOSE).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::clock::Moment;
use crate::error::LostReason;
use crate::holding::Tenure;

/// Told first and given back a margin later, as at an expiry: what a holder was doing when it heard is over when the next comes in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live(Arc<Mutex<Holds>>);

#[derive(Debug, Default)]
struct Holds {
    // By where they are, so that one goes without a search.
    all: HashMap<usize, Weak<Tenure>>,
    // Since when they are told.
    closing: Option<Moment>,
}

impl Live {
    /// A hold begins; behind the close it is over at once.
    pub(crate) fn add(&self, tenure: &Arc<Tenure>) {
        let mut holds = self.0.lock();
        holds.all.insert(Arc::as_ptr(tenure).addr(), Arc::downgrade(tenure));
        if holds.closing.is_some() {
            tell(tenure);
        }
    }

    /// Its owner has ended it, or it was given back: nobody waits for it.
    pub(crate) fn remove(&self, tenure: &Arc<Tenure>) {
        self.0.lock().all.remove(&Arc::as_ptr(tenure).addr());
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.lock().closing.is_some()
    }

    /// Tells all that the client is closed. Answers since when the first were told, if any is to be waited for.
    pub(crate) fn close(&self, now: Moment) -> Option<Moment> {
        let mut holds = self.0.lock();
        let since = *holds.closing.get_or_insert(now);
        let alive: Vec<_> = holds.all.values().filter_map(Weak::upgrade).collect();
        alive.iter().for_each(tell);
        (!alive.is_empty()).then_some(since)
    }
}

fn tell(tenure: &Arc<Tenure>) {
    if let Some(node) = tenure.node() {
        node.state().gone(LostReason::Closed);
    }
}
