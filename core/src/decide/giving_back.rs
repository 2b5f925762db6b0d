//! How a client that ends gives back what it held (LEASE-CLOSE-IN-BURSTS).
//!
//! The end of a lease or a session removes all nodes in one step, and while it lasts the server
//! answers nobody: ten seconds on ZooKeeper and more on etcd for 100,000 nodes. So a client gives back
//! one by one, a few at a time, all that is more than one step may hold; the end of its lease takes
//! the rest. One that held less ends in the one step. `docs/protocol/cleanup.md` has the whole.

use std::time::Duration;

/// Nodes that may end in one step: others wait some 30 ms for it.
pub const IN_ONE_STEP: usize = 1024;
/// Removals of one client under way at a time: enough to keep a server busy, and few enough for
/// others, and for this client's own renewals, to be answered between them.
pub const LEAVES_AT_ONCE: usize = 64;
/// How much longer an end may take for each node that is given back one by one. It is enough for a round trip
/// of 128 ms.
const FOR_EACH: Duration = Duration::from_millis(2);

/// How many of so many nodes are given back one by one before the client ends.
pub fn one_by_one(nodes: usize) -> usize {
    nodes.saturating_sub(IN_ONE_STEP)
}

/// How long a client that ends gives back so many nodes, before it leaves the rest to the end of its
/// lease. It gives up earlier where the server confirms nothing within one request timeout.
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
    fn the_last_step_holds_no_more_however_many_there_were() {
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
