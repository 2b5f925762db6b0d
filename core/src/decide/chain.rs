//! The place of a node in a listing of its queue (ZooKeeper and etcd; `docs/protocol/chain.md`).

use super::{Claim, fits};

/// One node of a listing, in queue order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The claim of the node.
    pub claim: Claim,
    /// Whether its owner has marked it as admitted (permits only, CHAIN-PERMITS-HEAD-AND-MARKS).
    pub marked: bool,
}

/// The place of a node in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The node is admitted, as far as the listing shows. The deadline of its lease counts too
    /// (CHAIN-OWN-NODE-AND-DEADLINE).
    Admitted {
        /// A follower waits until the client marks this node (permits only, CHAIN-PERMITS-HEAD-AND-MARKS).
        mark: bool,
    },
    /// The node waits for one node to leave (or to change, when it is marked or downgraded).
    Behind {
        /// The index of the node to watch.
        watch: usize,
        /// No other node is ahead, so the departure of that node admits without another listing. Not usable
        /// if a deletion can be a downgrade (ZooKeeper): a writer would be admitted together with the reader.
        sole: bool,
    },
    /// The first node of a queue of permits that is not admitted. It waits for ANY node ahead to leave, and
    /// for the limit to change (CHAIN-PERMITS-HEAD-AND-MARKS).
    Head {
        /// The number of nodes ahead.
        ahead: usize,
    },
}

/// Returns the place of the node at index `own` of `listing`. `limit` applies to permits only.
///
/// A writer is after its predecessor, a reader after the nearest earlier writer
/// (CHAIN-READER-WATCHES-WRITER). Of permits, a node is admitted when the sum up to it fits the limit, or
/// when it is marked; the next node is the head; all others watch their predecessor for its departure or its
/// mark.
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
            // CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: a marked predecessor makes the head.
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
        // permits(3): A(2) and B(1) hold, the limit falls to 2, C(1) lists: B looks not admitted.
        let mut nodes = queue(&[P(2), P(1), P(1)]);
        assert_eq!(standing(&nodes, 2, 2), Standing::Behind { watch: 1, sole: false });
        nodes[1].marked = true;
        assert_eq!(standing(&nodes, 2, 2), Standing::Head { ahead: 2 });
    }
}
