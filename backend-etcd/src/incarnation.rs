//! Tells a key that was removed on the server from one that the server has forgotten.
//!
//! *Protocol.* etcd keeps the history of its keys until it is compacted. So a client that misses a
//! key of its own reads it at the revision that created it. A server that finds it there has
//! created it, and somebody has removed it since. A server that finds nothing, or has not reached
//! that revision, was started without its data or from an older backup: another *incarnation*.
//! Where that history is compacted, the answers so far decide: another cluster id, or a revision
//! below one that the client knew before it asked.
//!
//! *Why it is safe.* Names of nodes are random, so no other incarnation creates the same key at the
//! same revision. Only answers to requests count that go through etcd's consensus: a request that
//! is sent after another was answered never sees an older state of the same history. Answers to
//! keepalives and watches do not count, since a member that lags behind fills in its own revision.
//! The result decides a reason, and admits nobody.

use latchwork_core::seen;
use parking_lot::Mutex;

use crate::config::NAME;

/// What the answers so far have shown.
#[derive(Debug, Default)]
pub(crate) struct Incarnations(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    present: Known,
    cluster: u64,
    // The incarnation that granted the present lease.
    of_lease: u64,
}

/// What is known at an instant: to be taken before a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    incarnation: u64,
    revision: u64,
}

impl Incarnations {
    /// What is known now.
    pub(crate) fn known(&self) -> Known {
        self.0.lock().present
    }

    /// Records the answer to a request that was sent when `before` was known.
    pub(crate) fn answered(&self, before: Known, hosts: &str, cluster: u64, revision: u64) {
        let mut state = self.0.lock();
        if before.incarnation != state.present.incarnation {
            // A faster answer has shown the new incarnation; this one may be of either.
            return;
        }
        let is_first = state.cluster == 0;
        if !is_first && (cluster != state.cluster || revision < before.revision) {
            seen::forgot(NAME, hosts, before.revision, Some(revision));
            state.present = Known { incarnation: before.incarnation + 1, revision };
        }
        state.cluster = cluster;
        state.present.revision = state.present.revision.max(revision);
    }

    /// The present incarnation has granted the present lease.
    pub(crate) fn granted(&self) {
        let mut state = self.0.lock();
        state.of_lease = state.present.incarnation;
    }

    /// Whether the server is known to be another incarnation than the one that granted the present
    /// lease.
    pub(crate) fn has_changed(&self) -> bool {
        let state = self.0.lock();
        state.of_lease != state.present.incarnation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease of a cluster that has come to revision 10.
    fn at_ten() -> Incarnations {
        let seen = Incarnations::default();
        seen.answered(seen.known(), "a", 7, 10);
        seen.granted();
        seen
    }

    #[test]
    fn a_revision_that_went_back_and_another_cluster_are_another_incarnation() {
        for (cluster, revision, changed) in [(7, 10, false), (7, 11, false), (7, 9, true), (8, 11, true)] {
            let answers = at_ten();
            answers.answered(answers.known(), "a", cluster, revision);
            assert_eq!(answers.has_changed(), changed, "{cluster} at {revision}");
        }
    }

    #[test]
    fn an_answer_that_a_later_one_overtook_shows_nothing() {
        let answers = at_ten();
        let (early, late) = (answers.known(), answers.known());
        answers.answered(late, "a", 7, 15);
        answers.answered(early, "a", 7, 12);
        assert!(!answers.has_changed());
        // Nor does an answer of the incarnation before.
        let before = answers.known();
        answers.answered(answers.known(), "a", 7, 2);
        answers.granted();
        answers.answered(before, "a", 7, 16);
        answers.answered(answers.known(), "a", 7, 3);
        assert!(!answers.has_changed());
    }

    #[test]
    fn a_lease_that_was_granted_since_is_of_the_new_incarnation() {
        let answers = at_ten();
        answers.answered(answers.known(), "a", 7, 2);
        assert!(answers.has_changed());
        answers.granted();
        answers.answered(answers.known(), "a", 7, 3);
        assert!(!answers.has_changed());
    }
}
