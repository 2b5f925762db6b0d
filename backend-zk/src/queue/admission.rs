use std::sync::Weak;

use latchwork_core::{Error, Result};

use super::limit::WrittenLimit;
use super::zk_node::ZkNode;
use crate::driver::Armed;
use crate::layout::admitted;
use crate::watch::NewHolder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Seen,
    /// Later nodes see the admission only by a mark (CHAIN-PERMITS-HEAD-AND-MARKS).
    SeenAndMarked,
    /// A later listing verifies it if the hold lasts.
    Announced,
}

impl Admission {
    pub(super) fn seen(mark: bool) -> Self {
        if mark { Admission::SeenAndMarked } else { Admission::Seen }
    }
}

impl ZkNode {
    /// Fails if the lease is lost (CHAIN-OWN-NODE-AND-DEADLINE). `own`: the watch that the wait has armed on
    /// the node. `limit`: the limit that admitted it.
    pub(super) fn enter(&self, admission: Admission, own: Option<Armed>, limit: WrittenLimit) -> Result<()> {
        if let Some(reason) = self.state.lost() {
            return Err(Error::lost(reason));
        }
        if self.set_entered() {
            return Ok(());
        }
        let mark = admission == Admission::SeenAndMarked;
        if mark {
            self.session.runtime.spawn(mark_admitted(self.me.clone()));
        }
        self.session.holders.add(NewHolder {
            node: self.me.clone(),
            own,
            limit_written: (self.limit.is_some() && !mark).then_some(limit.written),
            verify: admission == Admission::Announced,
        });
        Ok(())
    }
}

/// Repeats until the mark is confirmed (CHAIN-MARK-GUARDED).
pub(crate) async fn mark_admitted(node: Weak<ZkNode>) {
    while let Some(node) = node.upgrade().filter(|node| !node.is_leaving()) {
        let mut contents = node.contents.lock().await;
        contents.is_marked = true;
        let written = node.session.driver.write(&node.path, &admitted(&node.label, &contents.data)).await;
        drop(contents);
        match written {
            Err(fault) if fault.is_transient() && node.driver().recovered().await.is_ok() => {}
            // Written, or refused permanently. The next node sees that this node is gone.
            _ => return,
        }
    }
}
