//! Admission by the end of the predecessor, without a listing (CHAIN-SOLE-AHEAD, CHAIN-ANNOUNCED-RELEASE). A
//! reconnect ends a shortcut (CHAIN-LOST-WATCH-LISTS-AGAIN).

use latchwork_core::{Claim, Kind};

use super::release::Release;
use crate::driver::{Armed, Connection};
use crate::error::Answer;
use crate::layout::split;
use crate::queue::admission::Admission;
use crate::queue::woken::Woken;
use crate::queue::zk_node::ZkNode;

pub(crate) struct Shortcut {
    /// The predecessor is the only node ahead, so its end admits. Otherwise only its announced release does.
    pub(crate) sole: bool,
    pub(crate) release: Option<Release>,
    // Taken before any watch was armed on it.
    connection: Connection,
}

impl Shortcut {
    /// Watches the own node and, if others are ahead of the predecessor, its release. `None`: the waiter
    /// lists after the end of the predecessor.
    pub(crate) async fn arm(
        node: &ZkNode,
        own: &mut Option<Armed>,
        predecessor: &str,
        sole: bool,
    ) -> Answer<Option<Self>> {
        let driver = &node.session.driver;
        let connection = driver.connection();
        if !sole {
            return Self::behind_several(node, own, predecessor, connection).await;
        }
        // A downgrade creates a node with the writer's counter, ahead of a waiting writer.
        let may_be_downgraded = node.kind == Kind::RwLock && node.claim == Claim::Exclusive;
        if !node.session.fast_path.on || may_be_downgraded {
            return Ok(None);
        }
        let budget = driver.dispensable_budget(&node.path);
        if own.is_none() && budget.is_none() {
            return Ok(None);
        }
        node.arm_own(own).await?;
        Ok(Some(Self { sole, release: None, connection }))
    }

    /// This connection has shown that the predecessor is immediately ahead.
    pub(crate) async fn behind_several(
        node: &ZkNode,
        own: &mut Option<Armed>,
        predecessor: &str,
        connection: Connection,
    ) -> Answer<Option<Self>> {
        let driver = &node.session.driver;
        let Some(released) = node.released_path(split(predecessor).1) else { return Ok(None) };
        let paths = [own.is_none().then_some(&*node.path), Some(released.as_str())];
        let budgets: Option<Vec<_>> =
            paths.into_iter().flatten().map(|path| driver.dispensable_budget(path)).collect();
        if budgets.is_none() {
            return Ok(None);
        }
        let (own_armed, release) = tokio::join!(biased; node.arm_own(own), driver.watch_for(&released));
        own_armed?;
        Ok(release?.map(|watch| {
            let release = Some(Release::new(watch.boxed()));
            Self { sole: false, release, connection }
        }))
    }

    /// `own_watched`: whether the own node is still watched. `None`: list the queue.
    pub(crate) fn admits(mut self, woken: Woken, own_watched: bool) -> Option<Admission> {
        let admission = match woken {
            Woken::Released => Admission::Announced,
            Woken::Left if self.sole => Admission::Seen,
            Woken::Left | Woken::Look => return None,
        };
        (own_watched && self.connection.has_lasted()).then_some(admission)
    }
}
