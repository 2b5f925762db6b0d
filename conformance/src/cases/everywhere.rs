use crate::adapter::Adapter;
use crate::case::Case;

/// The cases that `./test` plays on each topology: each kind of request and event. Topologies differ in how a
/// client finds its servers, in its rights, and after it loses them.
pub const ON_EVERY_TOPOLOGY: &[&str] = &[
    "mutex_excludes",
    "mutex_is_fair",
    "node_wait_a_handoff_is_an_event",
    "rwlock_admits_in_order_and_readers_together",
    "rwlock_writers_are_alone",
    "semaphore_never_exceeds_its_limit",
    "election_term_goes_on_without_the_dead",
    "lease_deadline_is_known_before_another_is_admitted",
    "node_gone_a_holder_hears_it",
    "process_killed_while_holding",
    "node_cancel_at_any_instant",
    "node_idempotent_a_lost_reply_makes_one_node",
    "cell_cas_of_many_at_once_is_made_by_one",
    "watch_order_heals_a_gap",
    "lease_close_gives_everything_back",
];

impl Case {
    /// Whether `./test` plays it on every topology.
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
