//! The data of an own node (NODE-DATA).
//!
//! Label, data and mark stand in one node, and a write replaces all of it. So whatever writes there
//! holds [`Contents`] meanwhile: a mark keeps the data, and new data keep the mark.
//!
//! # Why a late write reaches no other node
//!
//! The write names the node's path. Only this node is ever there while the write can still arrive,
//! as for a [held write](super::held_write): a name comes back to a queue only behind a confirmed
//! leave, which is sent behind the write.
//!
//! # Who watches the queue
//!
//! ... is told by the queue's directory (WATCH-QUEUE): the write of a node of an observed kind also
//! writes the directory, in one transaction. A watch of each node would tell as well, and cost every
//! watcher as many watches as there are nodes. Our directories hold nothing. What another program
//! holds in one at an exact address is read before, and written back as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::{Error, LostReason, Result};

use super::zk_node::ZkNode;
use crate::driver::{CellStat, Commit, Refusal, Step};
use crate::error::{Answer, Fault, Unanswered};
use crate::layout::{admitted, downgraded, plain, split};

/// What this client has written into its node, beside the label.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) data: Arc<[u8]>,
    /// It is marked as admitted, or will be.
    pub(crate) is_marked: bool,
}

impl ZkNode {
    pub(super) async fn replace_data(&self, data: &Arc<[u8]>) -> Result<()> {
        let in_flight = AtomicBool::new(false);
        let writing = self.write_contents(data, &in_flight);
        let fault = match tokio::time::timeout(self.session.settings.request_timeout, writing).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => {
                self.removed();
                return Err(Error::lost(self.state.lost().unwrap_or(LostReason::Released)));
            }
            Ok(Err(fault)) => fault,
            Err(_elapsed) => Fault::Unknown(Unanswered::default()),
        };
        const WHAT: &str = "write a node's data";
        if in_flight.load(Ordering::Acquire) || matches!(fault, Fault::SessionOver) {
            return Err(self.session.error(fault, WHAT));
        }
        Err(fault.error_without_trace(WHAT))
    }

    /// Answers whether the node was there.
    async fn write_contents(&self, data: &Arc<[u8]>, in_flight: &AtomicBool) -> Answer<bool> {
        let mut contents = self.contents.lock().await;
        if self.is_leaving() || self.state.lost().is_some() {
            return Ok(false);
        }
        // From here on a mark writes the new data too: they may be made where this is given up.
        let before = std::mem::replace(&mut contents.data, Arc::clone(data));
        let written = self.under_any_path(&contents, in_flight).await;
        if !matches!(written, Ok(true)) && !in_flight.load(Ordering::Acquire) {
            contents.data = before;
        }
        written
    }

    async fn under_any_path(&self, contents: &Contents, in_flight: &AtomicBool) -> Answer<bool> {
        loop {
            let paths = self.paths();
            for path in &paths {
                if self.write_at(path, &self.bytes_at(path, contents), in_flight).await? {
                    return Ok(true);
                }
            }
            // A downgrade that began meanwhile may have given it another path.
            if self.paths() == paths {
                return Ok(false);
            }
        }
    }

    /// What the node holds if it is at this path.
    fn bytes_at(&self, path: &str, contents: &Contents) -> Vec<u8> {
        let Contents { data, is_marked } = contents;
        match (path == &*self.path, is_marked) {
            (true, true) => admitted(&self.label, data),
            (true, false) => plain(self.layout, &self.label, data),
            (false, _) => downgraded(&self.label, data, self.state.sequence(), self.joined),
        }
    }

    /// Writes the node at this path, and notifies those that watch the queue.
    async fn write_at(&self, path: &str, data: &[u8], in_flight: &AtomicBool) -> Answer<bool> {
        let write = Step::Write { path, data, version: None };
        let mut notify = self.kind.is_observed();
        loop {
            let found = if notify && self.is_exact { self.directory_data().await? } else { None };
            let (directory, version) = match &found {
                Some((data, stat)) => (data.as_slice(), Some(stat.version)),
                None => (&[][..], None),
            };
            let directory = Step::Write { path: self.queue(), data: directory, version };
            let steps = if notify { &[write, directory][..] } else { &[write] };
            match self.session.driver.commit(steps, None, in_flight).await {
                Ok(Commit::Made { .. }) => return Ok(true),
                Ok(Commit::Refused { at: 1, why: Refusal::OtherVersion }) => {}
                Ok(Commit::Refused { .. }) => return Ok(false),
                // The directory may be another program's. Watchers then learn it when they look.
                Err(Fault::Forbidden(_)) if notify => notify = false,
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn directory_data(&self) -> Answer<Option<(Vec<u8>, CellStat)>> {
        let (parent, _) = split(self.queue());
        let parent = if parent.is_empty() { "/" } else { parent };
        Ok(self.session.driver.sync_read_in(parent, self.queue()).await?.1)
    }
}
