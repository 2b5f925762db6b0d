//! A member that a test plays.

use std::sync::Arc;

use futures_util::future::try_join;
use tokio::task::JoinHandle;

use super::{Bed, ignored};
use crate::config::Config;
use crate::connect::connect;
use crate::contracts::{Join, Joined, Limit, Node, NodeId, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::decide::moving::obstacles::MemberSays;
use crate::moving::member::MemberRecord;
use crate::moving::operator::Move;
use crate::moving::place::MovePlace;
use crate::moving::staged::Staged;

/// A participant without holds.
pub(super) struct Member {
    old: Coordinator,
    new: Coordinator,
    place: MovePlace,
    node: Arc<dyn Node>,
    label: String,
}

/// A member that acknowledges each stage. Its end is awaited, so that it has left the servers.
pub(super) struct Willing(JoinHandle<()>, Member);

impl Bed {
    pub(super) async fn member(&self, label: &str) -> Member {
        let sides = &self.config;
        let client = async |of: &Config| {
            let config =
                Config { label: Some(label.to_owned()), ..of.clone() }.as_participant(&sides.name, label);
            connect(&self.connectors(), &config).await
        };
        let (old, new) = try_join(client(&sides.from), client(&sides.to)).await.expect("connected");
        let place = MovePlace::of(&sides.from.namespace, &sides.name).expect("a good name");
        let join = Join {
            queue: place.members.clone(),
            id: NodeId::random(),
            claim: Claim::Shared,
            limit: Limit::Stored,
            label: label.into(),
            data: MemberRecord::own(label, None, MemberSays::default()),
            patience: Patience::Wait,
            repeated: false,
        };
        let Joined::Admitted(node) = old.backend().join(&join).await.expect("registered") else {
            panic!("the queue of members admits every node");
        };
        Member { old, new, place, node, label: label.to_owned() }
    }
}

fn acknowledgement(label: &str, staged: &Staged) -> Arc<[u8]> {
    let acknowledged = Some(staged.version.number());
    MemberRecord::own(label, Some(staged.id), MemberSays { acknowledged, ..MemberSays::default() })
}

impl Member {
    pub(super) async fn acknowledges(&self) {
        let read = Staged::read(&**self.old.backend(), &self.place).await.expect("readable");
        if let Some(staged) = read {
            self.node.write_data(&acknowledgement(&self.label, &staged)).await.expect("it stands");
        }
    }

    pub(super) fn follows(self) -> Willing {
        let backend = Arc::clone(self.old.backend());
        let (stage, node, place) = (self.place.stage.clone(), Arc::clone(&self.node), self.place.clone());
        let label = self.label.clone();
        let follows = tokio::spawn(async move {
            let mut watch = backend.watch_cell(&stage);
            while watch.changed().await.is_ok() {
                let Ok(read) = Staged::read(&*backend, &place).await else { return };
                if let Some(staged) = read {
                    node.write_data(&acknowledgement(&label, &staged)).await.expect("it stands");
                }
            }
        });
        Willing(follows, self)
    }

    /// Stays on the old side alone.
    pub(super) async fn loses_the_new_side(&self) {
        self.new.close().await.expect("closed");
    }

    pub(super) async fn leaves(self) {
        try_join(self.old.close(), self.new.close()).await.expect("closed");
    }
}

impl Bed {
    /// Makes the whole move with a member, which leaves then.
    pub(super) async fn moves(&self, operator: &Move) {
        let one = self.member("one").await.follows();
        operator.run(ignored).await.expect("made");
        one.leaves().await;
    }
}

impl Willing {
    pub(super) async fn leaves(self) {
        self.0.abort();
        assert!(self.0.await.is_err_and(|ended| ended.is_cancelled()), "it follows to its end");
        self.1.leaves().await;
    }
}
