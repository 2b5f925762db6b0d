//! The end of a run.

/// The end of a run, and the happenings that its verdict allows for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Processes were killed.
    pub(super) some_die: bool,
    /// Operators were killed, and are killed during `finish`.
    pub(super) operators_die: bool,
    /// Servers failed.
    pub(super) servers_fail: bool,
    /// The move is done and must be finished.
    pub(super) finishes: bool,
}

impl Ends {
    /// Returns whether a key may be left on a server. On Redis a queue keeps a dead node until the next client uses it, or until its
    /// key expires. No other client uses a process' own mutex, or the queue of an operator that died after its last copy.
    pub(super) fn may_leave(self, key: &str) -> bool {
        let is_lonely = self.some_die && key.contains("{own-")
            || self.operators_die && key.contains("{latchwork/move-values/");
        is_lonely && key.ends_with(":one")
    }
}
