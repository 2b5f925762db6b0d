//! The two sides of a move, for values.

use std::sync::Arc;

use super::moved;
use crate::address::{Address, Namespace};
use crate::contracts::Backend;
use crate::decide::moving::Side;
use crate::error::Result;

/// The two sides, and where keys are on each.
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
}
