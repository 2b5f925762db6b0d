//! Distinguishes a key that was removed on the server from a key that the server has forgotten.
//!
//! *Protocol.* etcd keeps the history of its keys until it is compacted. So a client that misses
//! one of its keys reads it at the revision that created it. If the server finds it there, the
//! server has created it, and an operator or another client has removed it since. If the server
//! finds nothing, or has not reached that revision, it was started without its data or from an
//! older backup: it is another *incarnation*. If that history is compacted, the earlier answers
//! decide: another cluster id, or a revision below a revision that the client knew before its
//! request.
//!
//! *Why it is safe.* Names of nodes are random, so no other incarnation creates the same key at the
//! same revision. Only answers to requests that go through etcd's consensus count: a request that
//! is sent after the answer to another one never sees an older state of the same history. Answers
//! to keepalives and watches do not count, because a member that lags fills in its own revision.
//! The result only decides the reason of a loss, and admits no node.

use latchwork_core::seen;
use parking_lot::Mutex;

use crate::config::NAME;

/// The facts that the answers so far have shown.
#[derive(Debug, Default)]
pub(crate) struct Incarnations(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    present: Known,
    cluster: u64,
    // The incarnation that granted the current lease.
    of_lease: u64,
}

/// The knowledge at an instant. It must be taken before a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    incarnation: u64,
    revision: u64,
}

impl Incarnations {
    /// The current knowledge.
    pub(crate) fn known(&self) -> Known {
        self.0.lock().present
    }

    /// Records the answer to a request that was sent with the knowledge `before`.
    pub(crate) fn answered(&self, before: Known, hosts: &str, cluster: u64, revision: u64) {
        let mut state = self.0.lock();
        if before.incarnation != state.present.incarnation {
            // A faster answer has shown the new incarnation. This answer may come from either.
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

    /// Records that the current incarnation has granted the current lease.
    pub(crate) fn granted(&self) {
        let mut state = self.0.lock();
        state.of_lease = state.present.incarnation;
    }

    /// Whether the server is known to be another incarnation than the one that granted the current
    /// lease.
    pub(crate) fn has_changed(&self) -> bool {
        let state = self.0.lock();
        state.of_lease != state.present.incarnation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease of a cluster that has reached revision 10.
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
        // An answer of the previous incarnation changes nothing either.
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
