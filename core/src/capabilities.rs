//! What a backend promises beyond the contract that all keep.

use serde::Serialize;

/// Whether the server may throw locks away under memory pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// It never does.
    Never,
    /// It does: `maxmemory` with a policy other than `noeviction`.
    Possible,
    /// It did not let us read its settings.
    Unknown,
}

/// What a backend can do, each field a promise.
///
/// The conformance suite tries `clean_try`, `prompt_revocation`, `minimum_outlives_close` and `exact_addresses` (where that says no
/// the refusal must be typed). The other fields are their author's word: it compares them with what the testbed expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Nodes expire one by one, each at its own deadline, rather than all with one lease (Redis).
    pub lease_per_node: bool,
    /// A refused try leaves nothing on the server, not for a moment, and wakes nobody.
    ///
    /// Where it is false, tries at one instant can refuse each other, all of them, though the lock is free. A cron job that
    /// starts on every host at the full minute would then run on none: on `Ok(None)` look again, best by an acquire with a
    /// deadline below the time for which the job's lock stays taken (in line somebody is first).
    pub clean_try: bool,
    /// A holder whose node is removed by another hears it at once, rather than at the next renewal. (On ZooKeeper what one client
    /// holds beyond some hundreds is told within a TTL.)
    pub prompt_revocation: bool,
    /// A node under [`hold_at_least`](crate::recipes::Acquire::hold_at_least) outlives a client that is closed at once
    /// ([`close_now`](crate::Coordinator::close_now)): it is left to its expiry, at most a TTL later, however long its least time.
    /// Elsewhere it goes with the client's lease, which such a close gives back.
    pub minimum_outlives_close: bool,
    /// What is acknowledged survives the loss of one server of a group (a quorum has it).
    pub survives_failover: bool,
    /// An address of another program can be used ([`Address::exact`](crate::Address::exact)).
    pub exact_addresses: bool,
    /// Whether the server may throw locks away under memory pressure.
    pub eviction: Eviction,
}
