//! The release of many nodes by a client that ends (LEASE-CLOSE-IN-BURSTS).
//!
//! While the end of a lease or a session removes its nodes, the server answers no client: ten seconds on
//! ZooKeeper and more on etcd for 100,000 nodes. So a client first releases the nodes beyond [`IN_ONE_STEP`]
//! one by one.

use std::time::Duration;

/// The end of this number of nodes delays other clients by some 30 ms.
pub const IN_ONE_STEP: usize = 1024;
/// Removals of one client at a time: enough to keep a server busy, and few enough for it to answer other
/// requests between them.
pub const LEAVES_AT_ONCE: usize = 64;
/// The time for each node. A burst may take 128 ms.
const FOR_EACH: Duration = Duration::from_millis(2);

/// Returns the number of nodes that are released one by one before the client ends.
pub fn one_by_one(nodes: usize) -> usize {
    nodes.saturating_sub(IN_ONE_STEP)
}

/// Returns how long a client that ends releases nodes one by one. It gives up earlier if the server confirms
/// nothing within a request timeout.
pub fn giving_back_bound(nodes: usize, request_timeout: Duration) -> Duration {
    let each = u32::try_from(one_by_one(nodes)).unwrap_or(u32::MAX);
    request_timeout.saturating_add(FOR_EACH.saturating_mul(each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_holds_end_in_one_step_and_as_soon_as_ever() {
        let timeout = Duration::from_secs(2);
        for few in [0, 1, 64, IN_ONE_STEP] {
            assert_eq!((one_by_one(few), giving_back_bound(few, timeout)), (0, timeout));
        }
    }

    #[test]
    fn last_step_has_the_same_size_for_any_node_count() {
        for nodes in [IN_ONE_STEP + 1, 10_000, 100_000] {
            assert_eq!(nodes - one_by_one(nodes), IN_ONE_STEP);
        }
    }

    #[test]
    fn the_bound_grows_with_each_node_and_never_overflows() {
        let timeout = Duration::from_secs(2);
        assert_eq!(giving_back_bound(IN_ONE_STEP + 1, timeout), timeout + FOR_EACH);
        assert_eq!(giving_back_bound(100_000, timeout), timeout + Duration::from_millis(2 * 98_976));
        assert_eq!(giving_back_bound(usize::MAX, Duration::MAX), Duration::MAX);
        let bursts = giving_back_bound(IN_ONE_STEP + LEAVES_AT_ONCE, Duration::ZERO);
        assert_eq!(bursts, Duration::from_millis(128), "a burst is one round trip");
    }
}
