//! The data of an own node (NODE-DATA).
//!
//! One node contains label, data and mark, so each write of the node holds the lock of [`Contents`].
//!
//! *A late write reaches no other node*: as with a [held write](super::held_write), only this node has the
//! path while the write can still arrive.
//!
//! *Watches of the queue* are on its directory (WATCH-QUEUE), so the write of a node of an observed kind also
//! writes the directory.
//!
//! *An election that is shared with `LeaderLatch`* refuses new data, which would use up the one event that a
//! participant of Curator waits for (`docs/protocol/chain.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::{Error, ErrorKind, Result};

use tokio::sync::MutexGuard;

use super::zk_node::{Contents, ZkNode};
use crate::driver::{Beside, Commit, Operation};
use crate::error::{Answer, Fault, Unanswered};
use crate::layout::{DataLayout, admitted, downgraded, plain};

/// If dropped without a write, it restores the old data, so that no mark writes the new data.
struct Replacing<'a> {
    contents: MutexGuard<'a, Contents>,
    before: Option<Arc<[u8]>>,
    in_flight: &'a AtomicBool,
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|_| !self.in_flight.load(Ordering::Acquire)) {
            self.contents.data = before;
        }
    }
}

impl ZkNode {
    pub(super) async fn replace_data(&self, data: &Arc<[u8]>) -> Result<()> {
        if self.layout == DataLayout::Bare {
            let why = "the data of a leader with an exact key cannot be replaced, because Curator's LeaderLatch would then wait for ever: \
                       release, and campaign again with the new data";
            return Err(Error::new(ErrorKind::Unsupported { capability: "write_data" }, why));
        }
        let in_flight = AtomicBool::new(false);
        let writing = self.write_contents(data, &in_flight);
        let fault = match tokio::time::timeout(self.session.settings.request_timeout, writing).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => {
                self.removed();
                return Err(self.gone());
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

    async fn write_contents(&self, data: &Arc<[u8]>, in_flight: &AtomicBool) -> Answer<bool> {
        let mut contents = self.contents.lock().await;
        if self.is_leaving() || self.state.lost().is_some() {
            return Ok(false);
        }
        let before = Some(std::mem::replace(&mut contents.data, Arc::clone(data)));
        let mut replacing = Replacing { contents, before, in_flight };
        let contents = &replacing.contents;
        let write = |path: String| async move {
            self.write_at(&path, &self.bytes_at(&path, contents), in_flight).await
        };
        let written = self.at_any_path(write).await?.is_some();
        if written {
            replacing.before = None;
        }
        Ok(written)
    }

    fn bytes_at(&self, path: &str, contents: &Contents) -> Vec<u8> {
        let Contents { data, is_marked } = contents;
        match (path == &*self.path, is_marked) {
            (true, true) => admitted(&self.label, data),
            (true, false) => plain(self.layout, &self.label, data),
            (false, _) => downgraded(&self.label, data, self.state.sequence(), self.joined),
        }
    }

    /// `None`: the node did not exist.
    async fn write_at(&self, path: &str, data: &[u8], in_flight: &AtomicBool) -> Answer<Option<()>> {
        let node = Operation::Write { path, data, version: None };
        let directory = Operation::Write { path: self.queue(), data: &[], version: None };
        let steps = if self.kind.is_observed() { &[node, directory][..] } else { &[node] };
        let committed = self.session.driver.commit(steps, Beside::Nothing, in_flight).await?;
        Ok(matches!(committed, Commit::Made { .. }).then_some(()))
    }
}
