//! Admission by the end of the predecessor, without a listing (CHAIN-SOLE-AHEAD,
//! CHAIN-ANNOUNCED-RELEASE).
//!
//! Nobody can come in between or ahead, since counters only rise. The own node is watched on the
//! same connection, whose events come in the server's order, so its removal would be seen first.
//! The own deadline is compared last. A reconnect reports all missed events in any order, and so
//! ends a shortcut (CHAIN-LOST-WATCH-LISTS-AGAIN).

use latchwork_core::{Claim, Kind};

use super::release::Release;
use crate::driver::{Armed, Connection};
use crate::error::Answer;
use crate::layout::split;
use crate::queue::admission::Admission;
use crate::queue::woken::Woken;
use crate::queue::zk_node::ZkNode;

/// What admits a waiter without a listing.
pub(crate) struct Shortcut {
    /// The predecessor is the only node ahead, so that its end admits. Otherwise its release does.
    pub(crate) sole: bool,
    /// The watch on that release.
    pub(crate) release: Option<Release>,
    // As it was before anything was armed on it.
    connection: Connection,
}

impl Shortcut {
    /// Arms the watch on the own node, and that on the release where the predecessor is not the
    /// only node ahead. `None` where there is no shortcut: the end of the predecessor has the queue
    /// listed.
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
        // A writer that is downgraded makes a node with its own counter, ahead of a waiting writer.
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

    /// Where it is known that the predecessor is right ahead, on this connection.
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

    /// The admission by this event. `own_watched`: the own node still is. `None`: list.
    pub(crate) fn admits(mut self, woken: Woken, own_watched: bool) -> Option<Admission> {
        let admission = match woken {
            Woken::Released => Admission::Announced,
            Woken::Left if self.sole => Admission::Seen,
            Woken::Left | Woken::Look => return None,
        };
        (own_watched && self.connection.has_lasted()).then_some(admission)
    }
}
