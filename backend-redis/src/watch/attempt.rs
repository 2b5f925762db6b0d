//! One attempt of this client, from before its join to the end of its node.

use std::sync::{Arc, OnceLock};

use latchwork_core::Moment;
use latchwork_core::backend::{NodeId, NodeWriter, StoredLimit};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::layout::QueueKeys;

/// An attempt is registered BEFORE its join is sent, so that a message that overtakes the join's
/// reply is kept (QUEUE-INBOX-BEFORE-JOIN).
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) queue: QueueKeys,
    pub(crate) id: NodeId,
    /// An earlier request of this attempt had an unknown outcome, and may still arrive.
    pub(crate) repeated: bool,
    state: OnceLock<NodeWriter>,
    standing: Mutex<AttemptState>,
    /// Notified of every change but the lease's.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct AttemptState {
    // Boxed: few attempts have early messages, and a holder has none.
    early: Option<Box<EarlyMessages>>,
    // When this client learned of the admission.
    admitted: Option<Moment>,
    // The time of a waiter's own re-check (QUEUE-LOOK-AT-EXPIRY).
    next_recheck: Moment,
    // The stored limit that the node does not fit, from its last renewal. Boxed: a holder has none.
    unfit: Option<Box<StoredLimit>>,
    // The attempt is in the inbox's list of rechecks.
    recheck_due: bool,
    leaving: bool,
    // From this instant on no node of the attempt exists on the server, abandoned or not.
    obsolete: Moment,
}

/// The sequence numbers in messages that arrived before the reply to the join.
#[derive(Debug, Default)]
struct EarlyMessages {
    admission: Option<u64>,
    recheck: Option<u64>,
}

impl Attempt {
    pub(crate) fn new(queue: QueueKeys, id: NodeId, repeated: bool) -> Arc<Self> {
        let standing = AttemptState {
            early: None,
            admitted: None,
            next_recheck: Moment::NEVER,
            unfit: None,
            recheck_due: false,
            leaving: false,
            obsolete: Moment::NEVER,
        };
        Arc::new(Self {
            queue,
            id,
            repeated,
            state: OnceLock::new(),
            standing: Mutex::new(standing),
            changed: Notify::new(),
        })
    }

    /// Applies the reply to the join, and an admission message that came before it. Returns the
    /// sequence number of a re-check message that came before it.
    pub(super) fn settle(&self, state: NodeWriter, admitted: bool, next_recheck: Moment) -> Option<u64> {
        let now = state.lease().clock().now();
        let mut standing = self.standing.lock();
        let early = standing.early.take().map_or_else(EarlyMessages::default, |early| *early);
        if admitted || early.admission == Some(state.sequence()) {
            standing.admitted = Some(now);
        }
        standing.next_recheck = next_recheck;
        // Under the lock, where `notify_admitted` reads it. Only the attempt's own join settles it.
        let _ = self.state.set(state);
        early.recheck
    }

    /// The node's state; `None` before the join's reply.
    pub(crate) fn state(&self) -> Option<&NodeWriter> {
        self.state.get()
    }

    /// Applies an admission message. It counts only for this node, and only before the node's
    /// deadline. It never moves that deadline (QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT).
    pub(super) fn notify_admitted(&self, sequence: u64, now: Moment) {
        let mut standing = self.standing.lock();
        match self.state.get() {
            None => standing.early.get_or_insert_default().admission = Some(sequence),
            Some(state) if state.sequence() == sequence && state.lost().is_none() => {
                self.set_admitted(&mut standing, now);
            }
            Some(_) => {}
        }
    }

    /// Applies a re-check message. Returns whether this makes a re-check due.
    pub(super) fn notify_recheck(&self, sequence: u64) -> bool {
        let mut standing = self.standing.lock();
        match self.state.get() {
            None => {
                standing.early.get_or_insert_default().recheck = Some(sequence);
                false
            }
            Some(state) => {
                state.sequence() == sequence && !std::mem::replace(&mut standing.recheck_due, true)
            }
        }
    }

    /// Starts the re-check. A later message makes another one due, because it may have come too
    /// late for this one.
    pub(super) fn begin_recheck(&self) {
        self.standing.lock().recheck_due = false;
    }

    /// Records that a renewal showed the node as admitted. Returns whether this is new.
    pub(crate) fn admit(&self, now: Moment) -> bool {
        self.set_admitted(&mut self.standing.lock(), now)
    }

    fn set_admitted(&self, standing: &mut AttemptState, now: Moment) -> bool {
        let is_new = standing.admitted.is_none();
        if is_new {
            standing.admitted = Some(now);
            self.changed.notify_waiters();
        }
        is_new
    }

    /// When this client learned of the admission.
    pub(crate) fn admitted_at(&self) -> Option<Moment> {
        self.standing.lock().admitted
    }

    pub(crate) fn next_recheck(&self) -> Moment {
        self.standing.lock().next_recheck
    }

    pub(crate) fn recheck_at(&self, moment: Moment) {
        self.standing.lock().next_recheck = moment;
        self.changed.notify_waiters();
    }

    /// Records that a renewal showed the node as waiting.
    pub(crate) fn waits(&self, next_recheck: Moment) {
        self.standing.lock().unfit = None;
        self.recheck_at(next_recheck);
    }

    /// Records that a renewal showed that the node does not fit the limit any more.
    pub(crate) fn outweighs(&self, stored: StoredLimit) {
        self.standing.lock().unfit = Some(Box::new(stored));
        self.changed.notify_waiters();
    }

    /// The stored limit, when the node does not fit it.
    pub(crate) fn unfit(&self) -> Option<StoredLimit> {
        self.standing.lock().unfit.as_deref().cloned()
    }

    /// Marks the node as leaving: it is not renewed any more, and the answers of earlier renewals
    /// do not count (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). Returns whether this is new.
    pub(crate) fn begin_leave(&self) -> bool {
        !std::mem::replace(&mut self.standing.lock().leaving, true)
    }

    /// Undoes the mark after a failed removal, which may be tried again.
    pub(crate) fn undo_leave(&self) {
        self.standing.lock().leaving = false;
    }

    /// Records that the join has no answer and must be abandoned. Otherwise the attempt is obsolete
    /// at `obsolete`.
    pub(crate) fn leave_by(&self, obsolete: Moment) {
        let mut standing = self.standing.lock();
        (standing.leaving, standing.obsolete) = (true, obsolete);
    }

    pub(crate) fn is_obsolete(&self, now: Moment) -> bool {
        self.standing.lock().obsolete <= now
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.standing.lock().leaving
    }
}
