//! What a backend promises beyond the contracts.

use serde::Serialize;

/// Whether the server may evict locks under memory pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// The server evicts nothing.
    Never,
    /// The server may evict locks: `maxmemory` with a policy other than `noeviction`.
    Possible,
    /// The server did not let us read its settings.
    Unknown,
}

/// What a backend can do; each field is a promise.
///
/// The conformance suite tests `clean_try`, `prompt_revocation`, `minimum_outlives_close`,
/// `lease_left`, `exact_addresses`, `confirms_on_replicas`, `idle_cells` and `held_writes` (where one of these four is false, the
/// refusal must be typed). The other fields are the author's word: the suite compares them with what the testbed
/// expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Nodes expire one by one, each at its own deadline, rather than all with one lease (Redis).
    pub lease_per_node: bool,
    /// A refused try leaves nothing on the server, not for a moment, and wakes no waiter.
    ///
    /// Where it is false, simultaneous tries can all refuse each other though the lock is free. A
    /// cron job that starts on every host at the full minute would then run on none. On `Ok(None)`
    /// try again; better, acquire with a deadline below the time for which the job keeps the lock:
    /// in the queue somebody is first.
    pub clean_try: bool,
    /// A holder whose node is removed by another hears of it at once, rather than at the next
    /// renewal. (On ZooKeeper a client that holds more than some hundred nodes hears of some within
    /// a TTL.)
    pub prompt_revocation: bool,
    /// A node under [`min_hold`](crate::recipes::Acquire::min_hold) outlives a client
    /// that is closed at once ([`close_now`](crate::Coordinator::close_now)): it stays until its
    /// expiry, at most a TTL later, however long its least time. Elsewhere it goes with the
    /// client's lease, which such a close gives back.
    pub minimum_outlives_close: bool,
    /// Acknowledged writes survive the loss of one server of a group (as with a quorum).
    pub survives_failover: bool,
    /// An acquisition can ask that replicas confirm it
    /// ([`min_replicas`](crate::recipes::Acquire::min_replicas)). Where it is false, one that asks
    /// is refused with `Unsupported`. It makes no promise about a failover to a replica that did not
    /// confirm: [`survives_failover`](Self::survives_failover) says that.
    pub confirms_on_replicas: bool,
    /// A cell can go when nobody has used it for a time
    /// ([`CellLife::Idle`](crate::contracts::CellLife::Idle)). Where it is false, a write of one is
    /// refused with `Unsupported`.
    pub idle_cells: bool,
    /// An address of another program can be used ([`Key::exact`](crate::Key::exact)).
    pub exact_addresses: bool,
    /// A value can be written under any hold of the same client
    /// ([`write_while`](crate::recipes::SharedValue::write_while)). Where it is false (Redis Cluster),
    /// only under a hold whose key is the value's own; else it is refused with `Unsupported`.
    pub held_writes: bool,
    /// A listing tells how long the leases of holders have left, when it is asked
    /// ([`QueueEntry::lease_left`](crate::contracts::QueueEntry::lease_left)).
    pub lease_left: bool,
    /// Whether the server may evict locks under memory pressure.
    pub eviction: Eviction,
}

impl Capabilities {
    /// What somebody promises who promises nothing.
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

    /// What holds on both of two coordinators.
    pub(crate) fn of_both(self, other: Self) -> Self {
        let eviction = match (self.eviction, other.eviction) {
            (Eviction::Possible, _) | (_, Eviction::Possible) => Eviction::Possible,
            (Eviction::Unknown, _) | (_, Eviction::Unknown) => Eviction::Unknown,
            (Eviction::Never, Eviction::Never) => Eviction::Never,
        };
        Self {
            // It is no promise: where either has it, nodes expire one by one.
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
    fn both_sides_promise_what_the_weaker_one_does() {
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
