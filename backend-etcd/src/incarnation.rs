//! Whether what is gone from the server was removed there, or the server is another incarnation that has never known it.
//!
//! *Protocol.* etcd keeps the history of its keys until that is compacted. So whoever misses a key of its own asks for it at the revision that
//! made it. A server that finds it there has made it, and somebody has removed it since. One that finds nothing there, or has not come to
//! that revision, was started without its data, or from an older backup. Where that part of the history is compacted, what the answers up to now
//! have shown decides: another cluster, or a revision below one that this client had been told before it asked.
//!
//! *Why it is safe.* Names of nodes are random, so that no other incarnation makes the same key at the same revision. Of the answers
//! only those of requests count that go through etcd's consensus: one that is asked after another was answered never shows
//! an older state of the same history. Those of keepalives and watches do not, since a member that lags behind fills in its own
//! revision. What is found out decides a reason, and admits nobody.

use parking_lot::Mutex;

/// What the server says of one of its past revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// It keeps no history so old.
    Compacted,
    /// It has not come so far.
    Future,
}

/// What the answers up to now have shown.
#[derive(Debug, Default)]
pub(crate) struct Incarnations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    present: Seen,
    cluster: u64,
    // The incarnation in which the present lease was granted.
    of_lease: u64,
}

/// What was known at an instant: to be asked for before a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    incarnation: u64,
    revision: u64,
}

impl Incarnations {
    /// What is known now.
    pub(crate) fn seen(&self) -> Seen {
        self.0.lock().present
    }

    /// A request that was sent when `before` was known is answered.
    pub(crate) fn answered(&self, before: Seen, cluster: u64, revision: u64) {
        let mut state = self.0.lock();
        if before.incarnation != state.present.incarnation {
            // A faster answer has shown it; this one may be of either.
            return;
        }
        let is_first = state.cluster == 0;
        if !is_first && (cluster != state.cluster || revision < before.revision) {
            tracing::warn!(
                revision,
                before = before.revision,
                "etcd has forgotten what it knew: it was started without its data, or from a backup"
            );
            state.present = Seen { incarnation: before.incarnation + 1, revision };
        }
        state.cluster = cluster;
        state.present.revision = state.present.revision.max(revision);
    }

    /// The present lease was granted by the present incarnation.
    pub(crate) fn granted(&self) {
        let mut state = self.0.lock();
        state.of_lease = state.present.incarnation;
    }

    /// Whether the server is known to be another one than that which granted the present lease.
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
        let known = Incarnations::default();
        known.answered(known.seen(), 7, 10);
        known.granted();
        known
    }

    #[test]
    fn a_revision_that_went_back_and_another_cluster_are_another_incarnation() {
        for (cluster, revision, changed) in [(7, 10, false), (7, 11, false), (7, 9, true), (8, 11, true)] {
            let known = at_ten();
            known.answered(known.seen(), cluster, revision);
            assert_eq!(known.has_changed(), changed, "{cluster} at {revision}");
        }
    }

    #[test]
    fn an_answer_that_is_overtaken_by_a_later_one_says_nothing() {
        let known = at_ten();
        let (early, late) = (known.seen(), known.seen());
        known.answered(late, 7, 15);
        known.answered(early, 7, 12);
        assert!(!known.has_changed());
        // Nor does one of before the server was another.
        let before = known.seen();
        known.answered(known.seen(), 7, 2);
        known.granted();
        known.answered(before, 7, 16);
        known.answered(known.seen(), 7, 3);
        assert!(!known.has_changed());
    }

    #[test]
    fn who_was_granted_a_lease_since_is_known() {
        let known = at_ten();
        known.answered(known.seen(), 7, 2);
        assert!(known.has_changed());
        known.granted();
        known.answered(known.seen(), 7, 3);
        assert!(!known.has_changed());
    }
}
