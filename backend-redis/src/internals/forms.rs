#[derive(Debug, Default)]
pub(crate) struct Forms {
    pub(crate) folded_free: usize,
    pub(crate) folded_held: usize,
    pub(crate) unfolded: usize,
    pub(crate) folds: usize,
    pub(crate) unfolds: usize,
}

impl Forms {
    pub(crate) fn are_met(&self, least: usize) -> bool {
        let Self { folded_free, folded_held, unfolded, folds, unfolds } = self;
        [folded_free, folded_held, unfolded, folds, unfolds].iter().all(|times| **times > least)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.folded_free += other.folded_free;
        self.folded_held += other.folded_held;
        self.unfolded += other.unfolded;
        self.folds += other.folds;
        self.unfolds += other.unfolds;
    }
}
