//! The times at which a collection of weak references is swept.

/// The smallest size that is swept.
const FEW: usize = 16;

/// Sweeps at twice the size after the last sweep, so that all sweeps together cost a constant for each insertion.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    left: usize,
}

impl Sweeps {
    /// Returns whether a collection of this size is to be swept before the next insertion.
    pub(crate) fn is_due(&self, size: usize) -> bool {
        size >= FEW.max(2 * self.left)
    }

    /// Records a sweep, after which this number is left.
    pub(crate) fn swept(&mut self, left: usize) {
        self.left = left;
    }
}
