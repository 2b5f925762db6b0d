use std::sync::Arc;

use super::moved;
use crate::address::{Address, Namespace, QueuePrefix};
use crate::contracts::Backend;
use crate::decide::moving::Side;
use crate::error::Result;

/// Both sides, with the address of each key there.
#[derive(Debug)]
pub(crate) struct Sided {
    pub(crate) old: (Arc<dyn Backend>, Namespace),
    pub(crate) new: (Arc<dyn Backend>, Namespace),
}

impl Sided {
    fn on(&self, side: Side) -> &(Arc<dyn Backend>, Namespace) {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    pub(super) fn backend(&self, side: Side) -> &dyn Backend {
        &*self.on(side).0
    }

    pub(super) fn address(&self, side: Side, address: &Address) -> Result<Address> {
        moved(address, &self.on(side).1)
    }

    /// A cell as the client names it: in the old side's namespace.
    pub(super) fn named(&self, there: &Address) -> Address {
        there.moved_to(&self.old.1)
    }

    pub(super) fn prefix(&self, side: Side, of: &QueuePrefix) -> QueuePrefix {
        of.moved_to(&self.on(side).1)
    }
}
