const FEW: usize = 16;

/// Sweeps a collection of weak references at twice its size after the last sweep, so that sweeps cost a
/// constant for each insertion.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    left: usize,
}

impl Sweeps {
    pub(crate) fn is_due(&self, size: usize) -> bool {
        size >= FEW.max(2 * self.left)
    }

    pub(crate) fn swept(&mut self, left: usize) {
        self.left = left;
    }
}
