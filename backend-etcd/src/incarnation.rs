//! Distinguishes a key that was removed on the server from a key that the server has forgotten.
//!
//! *Protocol.* A client that misses one of its keys reads it at the revision that created it. If the key is
//! there, an operator or another client has removed it since. Otherwise the server was started without its
//! data or from an older backup: it is another *incarnation*. If that history is compacted, earlier answers
//! decide: another cluster id, or a revision below one that the client knew before its request.
//!
//! *Why it is safe.* Names of nodes are random, so no other incarnation creates the same key at the same
//! revision. Only answers to requests through etcd's consensus count: they never show an older state. A
//! member that lags puts its own revision into answers to keepalives and watches.
//!
//! A server with an older copy may renew the lease, but admit other clients. So the first answer of another
//! incarnation ends the lease as `Forgotten`. A false alarm only ends a hold early.
//!
//! *Two clusters in one URL* answer in turns. Cluster ids are random, so if the same id returns within a
//! minute, each request fails as `Misconfigured`.

use std::time::Duration;

use latchwork_core::{Error, ErrorKind, Result, seen};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::NAME;

/// Two clusters of one URL answer in turns within a shorter time. An operator takes longer to replace a
/// cluster and go back.
const IN_TURNS: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Incarnations(watch::Sender<Shown>);

#[derive(Debug, Default)]
struct Shown {
    present: Known,
    cluster: u64,
    cluster_before: Option<(u64, Instant)>,
    two_clusters: Option<[u64; 2]>,
    of_lease: u64,
}

impl Shown {
    fn is_another_than_of_the_lease(&self) -> bool {
        self.of_lease != self.present.incarnation
    }
}

/// What is known before a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    incarnation: u64,
    revision: u64,
}

impl Incarnations {
    pub(crate) fn known(&self) -> Known {
        self.0.borrow().present
    }

    pub(crate) fn answered(&self, before: Known, hosts: &str, cluster: u64, revision: u64) {
        self.0.send_if_modified(|state| {
            if before.incarnation != state.present.incarnation {
                // A faster answer has shown the new incarnation. This answer may come from either.
                return false;
            }
            let is_another = state.cluster != 0 && (cluster != state.cluster || revision < before.revision);
            if is_another {
                seen::forgot(NAME, hosts, before.revision, Some(revision));
                state.present = Known { incarnation: before.incarnation + 1, revision };
            }
            if is_another && cluster != state.cluster {
                if let Some((other, since)) = state.cluster_before
                    && other == cluster
                    && since.elapsed() < IN_TURNS
                {
                    state.two_clusters = Some([state.cluster, cluster]);
                }
                state.cluster_before = Some((state.cluster, Instant::now()));
            }
            state.cluster = cluster;
            state.present.revision = state.present.revision.max(revision);
            is_another
        });
    }

    pub(crate) fn granted(&self) {
        self.0.send_modify(|state| state.of_lease = state.present.incarnation);
    }

    /// Whether another incarnation granted the current lease.
    pub(crate) fn has_changed(&self) -> bool {
        self.0.borrow().is_another_than_of_the_lease()
    }

    pub(crate) async fn changed(&self) {
        drop(self.0.subscribe().wait_for(Shown::is_another_than_of_the_lease).await);
    }

    pub(crate) fn check_one_cluster(&self) -> Result<()> {
        match self.0.borrow().two_clusters {
            Some([one, other]) => {
                let what = format!(
                    "the hosts of the URL belong to two etcd clusters ({one:x} and {other:x}), which would both \
                     admit holders: name the hosts of one cluster"
                );
                Err(Error::new(ErrorKind::Misconfigured, what))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let before = answers.known();
        answers.answered(answers.known(), "a", 7, 2);
        answers.granted();
        answers.answered(before, "a", 7, 16);
        answers.answered(answers.known(), "a", 7, 3);
        assert!(!answers.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn clusters_that_answer_in_turns_are_two_and_a_cluster_that_comes_back_later_is_one() {
        let answers = at_ten();
        let answered = |cluster| answers.answered(answers.known(), "a,b", cluster, 11);
        answered(8);
        assert!(answers.check_one_cluster().is_ok(), "a new cluster has replaced the old one");
        tokio::time::sleep(IN_TURNS).await;
        answered(7);
        assert!(answers.check_one_cluster().is_ok(), "the operator has gone back");
        answered(8);
        let error = answers.check_one_cluster().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
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
