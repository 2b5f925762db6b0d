#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub(super) some_die: bool,
    /// Also during `finish`.
    pub(super) operators_die: bool,
    pub(super) servers_fail: bool,
    pub(super) finishes: bool,
}

impl Ends {
    /// On Redis a dead node stays until its queue's next client or its expiry. A process's own mutex, and the
    /// queue of a dead operator's last copy, have no next client.
    pub(super) fn may_leave(self, key: &str) -> bool {
        let is_lonely = self.some_die && key.contains("{own-")
            || self.operators_die && key.contains("{latchwork/move-values/");
        is_lonely && key.ends_with(":one")
    }
}
