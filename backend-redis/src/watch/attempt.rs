use std::sync::{Arc, OnceLock};

use latchwork_core::Moment;
use latchwork_core::backend::{NodeId, NodeWriter, StoredLimit};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::layout::QueueKeys;

/// Registered BEFORE its join is sent, so that a message that overtakes the reply is kept
/// (QUEUE-INBOX-BEFORE-JOIN).
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) queue: QueueKeys,
    pub(crate) id: NodeId,
    /// An earlier request has an unknown outcome, and may still arrive.
    pub(crate) repeated: bool,
    state: OnceLock<NodeWriter>,
    standing: Mutex<AttemptState>,
    /// Not for changes of the lease.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct AttemptState {
    // Boxed: few attempts have any.
    early: Option<Box<EarlyMessages>>,
    // When the client learned of the admission.
    admitted: Option<Moment>,
    // QUEUE-LOOK-AT-EXPIRY.
    next_recheck: Moment,
    // From the last renewal. Boxed: a holder has none.
    unfit: Option<Box<StoredLimit>>,
    recheck_due: bool,
    leaving: bool,
    // From then on the server has no node of the attempt.
    obsolete: Moment,
}

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

    /// Applies an earlier admission message. Returns the sequence number of an earlier re-check message.
    pub(super) fn settle(&self, state: NodeWriter, admitted: bool, next_recheck: Moment) -> Option<u64> {
        let now = state.lease().clock().now();
        let mut standing = self.standing.lock();
        let early = standing.early.take().map_or_else(EarlyMessages::default, |early| *early);
        if admitted || early.admission == Some(state.sequence()) {
            standing.admitted = Some(now);
        }
        standing.next_recheck = next_recheck;
        // Under the lock, where `notify_admitted` reads it. Only the own join settles it.
        let _ = self.state.set(state);
        early.recheck
    }

    /// `None` before the join's reply.
    pub(crate) fn state(&self) -> Option<&NodeWriter> {
        self.state.get()
    }

    /// Counts only for this node, and only before its deadline, which it never moves
    /// (QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT).
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

    /// Returns whether this makes a re-check due.
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

    /// A later message makes another one due: it may be too late for this one.
    pub(super) fn begin_recheck(&self) {
        self.standing.lock().recheck_due = false;
    }

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

    pub(crate) fn waits(&self, next_recheck: Moment) {
        self.standing.lock().unfit = None;
        self.recheck_at(next_recheck);
    }

    pub(crate) fn outweighs(&self, stored: StoredLimit) {
        self.standing.lock().unfit = Some(Box::new(stored));
        self.changed.notify_waiters();
    }

    pub(crate) fn unfit(&self) -> Option<StoredLimit> {
        self.standing.lock().unfit.as_deref().cloned()
    }

    /// Ends renewal. Answers to earlier renewals do not count (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). Returns
    /// whether this is new.
    pub(crate) fn begin_leave(&self) -> bool {
        !std::mem::replace(&mut self.standing.lock().leaving, true)
    }

    /// For another try after a failed removal.
    pub(crate) fn undo_leave(&self) {
        self.standing.lock().leaving = false;
    }

    /// The join has no answer, and must be abandoned until it is `obsolete`.
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
