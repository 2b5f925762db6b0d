//! How a run ends.

/// How a run ends, and what it is to be judged by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Processes were killed in it.
    pub(super) some_die: bool,
    /// Operators were killed in it, and are killed as they finish it.
    pub(super) operators_die: bool,
    /// Servers were away in it.
    pub(super) servers_fail: bool,
    /// The move is done, and is to be finished.
    pub(super) finishes: bool,
}

impl Ends {
    /// Whether a key on a server may be left: a queue of one keeps its dead node on Redis until somebody comes,
    /// or for the life of its key, and nobody else comes to what a process had for itself, or an operator that
    /// died behind its last copy.
    pub(super) fn may_leave(self, key: &str) -> bool {
        let is_lonely = self.some_die && key.contains("{own-")
            || self.operators_die && key.contains("{latchwork/move-values/");
        is_lonely && key.ends_with(":one")
    }
}
