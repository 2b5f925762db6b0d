use serde::Serialize;

/// Whether the server may evict locks under memory pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// The server evicts nothing.
    Never,
    /// The server may evict locks: `maxmemory` with a policy other than `noeviction`.
    Possible,
    /// The client may not read the server's settings.
    Unknown,
}

/// The capabilities of a backend. Each field is a promise.
///
/// The conformance suite tests all fields except `lease_per_node`, `survives_failover` and `eviction`. A
/// backend without `exact_addresses`, `confirms_on_replicas`, `idle_cells` or `held_writes` must refuse such
/// a call with `Unsupported`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Each node expires at its own deadline (Redis). If false, all nodes of a client expire with one lease.
    pub lease_per_node: bool,
    /// A refused try leaves nothing on the server, not even for a moment, and wakes no waiter.
    ///
    /// If false, simultaneous tries may all be refused although the lock is free: a cron job that starts on
    /// every host at the same second may run on no host. Acquire with a deadline below the time for which the
    /// job keeps the lock, or repeat the try.
    pub clean_try: bool,
    /// A holder learns at once that another client removed its node; if false, at the next renewal. (On
    /// ZooKeeper, a client with more than some hundred nodes may learn it only within a TTL.)
    pub prompt_revocation: bool,
    /// A hold under [`min_hold`](crate::recipes::Acquire::min_hold) survives
    /// [`close_now`](crate::Coordinator::close_now) until its node expires, at most one TTL later. If false,
    /// the node disappears with the client's lease.
    pub minimum_outlives_close: bool,
    /// Confirmed writes survive the loss of one server of a cluster, as with a quorum.
    pub survives_failover: bool,
    /// Replicas can confirm an acquisition ([`min_replicas`](crate::recipes::Acquire::min_replicas)).
    pub confirms_on_replicas: bool,
    /// A cell can have a time to idle ([`CellLife::Idle`](crate::contracts::CellLife::Idle)).
    pub idle_cells: bool,
    /// Addresses of other programs can be used ([`Key::exact`](crate::Key::exact)).
    pub exact_addresses: bool,
    /// A value can be [written](crate::recipes::SharedValue::write_while) under any hold of the same client.
    /// If false (Redis Cluster), the hold must have the same key as the value.
    pub held_writes: bool,
    /// A listing can show the remaining lease time of holders
    /// ([`QueueEntry::lease_left`](crate::contracts::QueueEntry::lease_left)).
    pub lease_left: bool,
    /// Whether the server may evict locks under memory pressure.
    pub eviction: Eviction,
}

impl Capabilities {
    pub(crate) const NOTHING: Self = Self {
        lease_per_node: false,
        clean_try: false,
        prompt_revocation: false,
        minimum_outlives_close: false,
        survives_failover: false,
        confirms_on_replicas: false,
        idle_cells: false,
        exact_addresses: false,
        held_writes: false,
        lease_left: false,
        eviction: Eviction::Unknown,
    };

    pub(crate) fn of_both(self, other: Self) -> Self {
        let eviction = match (self.eviction, other.eviction) {
            (Eviction::Possible, _) | (_, Eviction::Possible) => Eviction::Possible,
            (Eviction::Unknown, _) | (_, Eviction::Unknown) => Eviction::Unknown,
            (Eviction::Never, Eviction::Never) => Eviction::Never,
        };
        Self {
            lease_per_node: self.lease_per_node || other.lease_per_node,
            clean_try: self.clean_try && other.clean_try,
            prompt_revocation: self.prompt_revocation && other.prompt_revocation,
            minimum_outlives_close: self.minimum_outlives_close && other.minimum_outlives_close,
            survives_failover: self.survives_failover && other.survives_failover,
            confirms_on_replicas: self.confirms_on_replicas && other.confirms_on_replicas,
            idle_cells: self.idle_cells && other.idle_cells,
            exact_addresses: self.exact_addresses && other.exact_addresses,
            held_writes: self.held_writes && other.held_writes,
            lease_left: self.lease_left && other.lease_left,
            eviction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_capabilities_of_the_weaker_side() {
        let strong = Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            minimum_outlives_close: true,
            survives_failover: true,
            confirms_on_replicas: true,
            idle_cells: true,
            exact_addresses: true,
            held_writes: true,
            lease_left: true,
            eviction: Eviction::Never,
        };
        let weak =
            Capabilities { lease_per_node: true, eviction: Eviction::Possible, ..Capabilities::NOTHING };
        for (one, other, both) in [(strong, strong, strong), (strong, weak, weak), (weak, strong, weak)] {
            assert_eq!(one.of_both(other), both);
        }
        let unknown = Capabilities { eviction: Eviction::Unknown, ..strong };
        assert_eq!([unknown.of_both(strong), strong.of_both(unknown)], [unknown; 2]);
        assert_eq!(unknown.of_both(weak), weak);
    }
}
