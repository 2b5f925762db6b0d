//! Admission by the end of the predecessor, without a listing (CHAIN-SOLE-AHEAD,
//! CHAIN-ANNOUNCED-RELEASE).
//!
//! No node can join in between or ahead, because counters only rise. The own node is watched on the
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

/// The admission of a waiter without a listing.
pub(crate) struct Shortcut {
    /// The predecessor is the only node ahead, so its end admits. Otherwise only its announced
    /// release admits.
    pub(crate) sole: bool,
    /// The watch on that release.
    pub(crate) release: Option<Release>,
    // The connection before any watch was armed on it.
    connection: Connection,
}

impl Shortcut {
    /// Arms the watch on the own node and, if the predecessor is not the only node ahead, the watch
    /// on its release. `None`: no shortcut exists, and the waiter lists the queue after the end of
    /// the predecessor.
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
        // A downgraded writer creates a node with its own counter, ahead of a waiting writer.
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

    /// The shortcut if this connection has shown that the predecessor is immediately ahead.
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

    /// Returns the admission by this event. `own_watched`: the own node is still watched. `None`:
    /// list the queue.
    pub(crate) fn admits(mut self, woken: Woken, own_watched: bool) -> Option<Admission> {
        let admission = match woken {
            Woken::Released => Admission::Announced,
            Woken::Left if self.sole => Admission::Seen,
            Woken::Left | Woken::Look => return None,
        };
        (own_watched && self.connection.has_lasted()).then_some(admission)
    }
}
