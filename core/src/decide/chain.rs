//! The place of a node in a listing of its queue (ZooKeeper and etcd; `docs/protocol/chain.md`).

use super::{Claim, fits};

/// A node of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The claim of the node.
    pub claim: Claim,
    /// Whether its owner has marked it as admitted (CHAIN-PERMITS-HEAD-AND-MARKS).
    pub marked: bool,
}

/// The place of a node in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The listing shows the node as admitted. The client's deadline counts too
    /// (CHAIN-OWN-NODE-AND-DEADLINE).
    Admitted {
        /// Whether a follower waits for a mark of this node (CHAIN-PERMITS-HEAD-AND-MARKS).
        mark: bool,
    },
    /// The node waits until one node leaves, or is marked or downgraded.
    Behind {
        /// The index of the node to watch.
        watch: usize,
        /// Whether no other node is ahead (CHAIN-SOLE-AHEAD). Not usable if a deletion can be a downgrade
        /// (ZooKeeper).
        sole: bool,
    },
    /// The first node that is not admitted in a queue of permits. It waits for any departure ahead, and for
    /// the limit (CHAIN-PERMITS-HEAD-AND-MARKS).
    Head {
        /// The number of nodes ahead.
        ahead: usize,
    },
}

/// Returns the place of the node at index `own` of `listing`. `limit` applies to permits only.
///
/// A writer waits for its predecessor, a reader for the nearest earlier writer (CHAIN-READER-WATCHES-WRITER).
/// A node of permits is admitted if the sum up to it fits the limit, or if it is marked. The next node is the
/// head, and all others wait for their predecessor.
pub fn standing(listing: &[Listed], own: usize, limit: u32) -> Standing {
    let ahead = &listing[..own];
    match listing[own].claim {
        Claim::Exclusive => match own.checked_sub(1) {
            None => Standing::Admitted { mark: false },
            Some(watch) => Standing::Behind { watch, sole: own == 1 },
        },
        Claim::Shared => {
            let exclusive = |node: &Listed| node.claim == Claim::Exclusive;
            match ahead.iter().rposition(exclusive) {
                None => Standing::Admitted { mark: false },
                Some(watch) => {
                    Standing::Behind { watch, sole: ahead.iter().filter(|n| exclusive(n)).count() == 1 }
                }
            }
        }
        Claim::Permits(_) => {
            let claims = || ahead.iter().map(|node| node.claim);
            if listing[own].marked || fits(claims(), listing[own].claim, limit) {
                return Standing::Admitted { mark: own + 1 < listing.len() && !listing[own].marked };
            }
            // CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: the follower of a marked node is the head.
            match ahead.last() {
                Some(predecessor) if !predecessor.marked && !prefix_fits(ahead, limit) => {
                    Standing::Behind { watch: own - 1, sole: false }
                }
                _ => Standing::Head { ahead: own },
            }
        }
    }
}

fn prefix_fits(nodes: &[Listed], limit: u32) -> bool {
    match nodes.split_last() {
        None => true,
        Some((last, before)) => fits(before.iter().map(|node| node.claim), last.claim, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::Claim::{Exclusive as W, Permits as P, Shared as R};
    use super::*;

    fn queue(claims: &[Claim]) -> Vec<Listed> {
        claims.iter().map(|&claim| Listed { claim, marked: false }).collect()
    }

    #[test]
    fn table_of_standings() {
        let admitted = Standing::Admitted { mark: false };
        for (claims, own, limit, expected) in [
            (&[W][..], 0, 0, admitted.clone()),
            (&[W, W], 1, 0, Standing::Behind { watch: 0, sole: true }),
            (&[W, W, W], 2, 0, Standing::Behind { watch: 1, sole: false }),
            (&[R, R], 1, 0, admitted.clone()),
            (&[W, R, W, R, R], 4, 0, Standing::Behind { watch: 2, sole: false }),
            (&[W, R, R], 2, 0, Standing::Behind { watch: 0, sole: true }),
            (&[R, R, W], 2, 0, Standing::Behind { watch: 1, sole: false }),
            (&[P(1), P(1)], 1, 2, admitted.clone()),
            (&[P(1), P(1)], 0, 2, Standing::Admitted { mark: true }),
            (&[P(1), P(1), P(1)], 2, 2, Standing::Head { ahead: 2 }),
            (&[P(1), P(1), P(1), P(1)], 3, 2, Standing::Behind { watch: 2, sole: false }),
        ] {
            assert_eq!(standing(&queue(claims), own, limit), expected, "{claims:?} {own} {limit}");
        }
    }

    #[test]
    fn follower_of_a_marked_node_is_the_head_despite_its_sum() {
        // permits(3): A(2) and B(1) hold, and the limit falls to 2, so B looks not admitted to C(1).
        let mut nodes = queue(&[P(2), P(1), P(1)]);
        assert_eq!(standing(&nodes, 2, 2), Standing::Behind { watch: 1, sole: false });
        nodes[1].marked = true;
        assert_eq!(standing(&nodes, 2, 2), Standing::Head { ahead: 2 });
    }
}
