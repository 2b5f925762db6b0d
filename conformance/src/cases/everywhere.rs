//! The part of the suite that is played on every topology in each run.

use crate::adapter::Adapter;
use crate::case::Case;

/// The cases that `./test` plays with a mutex on each topology of servers. The long tier plays the whole suite there. Topologies differ
/// in how a client finds its servers, in its rights, and in its behavior after it loses them. So these cases contain each kind of
/// request and event.
pub const ON_EVERY_TOPOLOGY: &[&str] = &[
    // Exclusion, order, and the event of a hand-off.
    "mutex_excludes",
    "mutex_is_fair",
    "node_wait_a_handoff_is_an_event",
    // Read/write locks, permits, an election.
    "rwlock_admits_in_order_and_readers_together",
    "rwlock_writers_are_alone",
    "semaphore_never_exceeds_its_limit",
    "election_term_goes_on_without_the_dead",
    // The loss of a lease, and of a node.
    "lease_deadline_is_known_before_another_is_admitted",
    "node_gone_a_holder_hears_it",
    "process_killed_while_holding",
    // Futures that are dropped, and a reply that is lost.
    "node_cancel_at_any_instant",
    "node_idempotent_a_lost_reply_makes_one_node",
    // A cell, and a watch over a gap.
    "cell_cas_of_many_at_once_is_made_by_one",
    "watch_order_heals_a_gap",
    // A close leaves no data.
    "lease_close_gives_everything_back",
];

impl Case {
    /// Returns whether `./test` plays the case on every topology of servers.
    pub fn is_on_every_topology(&self) -> bool {
        self.adapter == Adapter::Mutex && ON_EVERY_TOPOLOGY.contains(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, ON_EVERY_TOPOLOGY};
    use crate::cases;

    #[test]
    fn each_listed_name_is_a_case_of_the_short_tier() {
        let played: Vec<_> = cases::all().into_iter().filter(Case::is_on_every_topology).collect();
        let missing: Vec<_> =
            ON_EVERY_TOPOLOGY.iter().filter(|name| !played.iter().any(|case| case.name == **name)).collect();
        assert!(missing.is_empty(), "no such case: {missing:?}");
        assert_eq!(played.len(), ON_EVERY_TOPOLOGY.len());
        assert!(played.iter().all(|case| !case.long && !case.alone));
    }
}
