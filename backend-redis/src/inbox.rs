//! The nodes of this client, and the messages that tell it of their admission.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use latchwork_core::contracts::{NodeId, NodeState};
use latchwork_core::{Clock, Moment};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::layout::Queue;

/// One attempt of this client: registered BEFORE its join is sent, so that a message that overtakes the
/// join's reply is kept (RULES A7).
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) queue: Queue,
    pub(crate) id: NodeId,
    /// An earlier request of this attempt had an unknown outcome, and may still arrive.
    pub(crate) repeated: bool,
    state: OnceLock<NodeState>,
    progress: Mutex<Progress>,
    changed: Notify,
}

#[derive(Debug)]
struct Progress {
    // The sequence number that a hand-off message named.
    told: Option<u64>,
    // When this client learned of the admission.
    admitted: Option<Moment>,
    // When a waiter looks again by itself (RULES A13).
    recheck: Moment,
    left: bool,
}

impl Slot {
    pub(crate) fn new(queue: Queue, id: NodeId, repeated: bool) -> Arc<Self> {
        let progress = Progress { told: None, admitted: None, recheck: Moment::NEVER, left: false };
        Arc::new(Self {
            queue,
            id,
            repeated,
            state: OnceLock::new(),
            progress: Mutex::new(progress),
            changed: Notify::new(),
        })
    }

    /// The join's reply is in. Applies a message that came before it.
    pub(crate) fn settle(&self, state: NodeState, admitted: bool, recheck: Moment) {
        let now = state.lease().clock().now();
        let mut progress = self.progress.lock();
        if admitted || progress.told == Some(state.sequence()) {
            progress.admitted = Some(now);
        }
        progress.recheck = recheck;
        // Set under the lock: `tell` looks at it there. A slot is settled once, by its own join.
        let _ = self.state.set(state);
    }

    /// What the join made of it; `None` while no reply is in.
    pub(crate) fn state(&self) -> Option<&NodeState> {
        self.state.get()
    }

    /// A hand-off message. It counts only for this incarnation, and only while the node's own deadline has not passed
    /// (which `NodeState::lost` sees to, wherever the admission is used); it never moves the deadline (RULES A6).
    fn tell(&self, sequence: u64, now: Moment) {
        let mut progress = self.progress.lock();
        progress.told = Some(sequence);
        let ours =
            self.state.get().is_some_and(|state| state.sequence() == sequence && state.lost().is_none());
        if ours && progress.admitted.is_none() {
            progress.admitted = Some(now);
            self.changed.notify_waiters();
        }
    }

    /// A renewal answered that it is admitted.
    pub(crate) fn admit(&self, now: Moment) {
        let mut progress = self.progress.lock();
        if progress.admitted.is_none() {
            progress.admitted = Some(now);
            self.changed.notify_waiters();
        }
    }

    /// When this client learned of the admission.
    pub(crate) fn admitted_at(&self) -> Option<Moment> {
        self.progress.lock().admitted
    }

    pub(crate) fn recheck(&self) -> Moment {
        self.progress.lock().recheck
    }

    pub(crate) fn recheck_at(&self, moment: Moment) {
        self.progress.lock().recheck = moment;
        self.changed.notify_waiters();
    }

    /// It is being given back: no renewal, and no renewal's answer, concerns it any more (RULES A16).
    pub(crate) fn leave(&self) {
        self.progress.lock().left = true;
    }

    pub(crate) fn has_left(&self) -> bool {
        self.progress.lock().left
    }

    /// Told when anything but the lease changed.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }
}

/// All attempts of this client that are on the server, or may be.
#[derive(Debug)]
pub(crate) struct Inbox {
    clock: Clock,
    slots: Mutex<HashMap<NodeId, Arc<Slot>>>,
}

impl Inbox {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, slots: Mutex::default() }
    }

    pub(crate) fn register(&self, slot: &Arc<Slot>) {
        self.slots.lock().insert(slot.id, Arc::clone(slot));
    }

    /// Forgets this incarnation: a retry of the same attempt may have registered another.
    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if slots.get(&slot.id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(&slot.id);
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().values().cloned().collect()
    }

    /// Applies a message: `id sequence id sequence …`. What is no such thing is no message of ours.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Ok(text) = std::str::from_utf8(message) else { return };
        let now = self.clock.now();
        let mut words = text.split_ascii_whitespace();
        while let (Some(id), Some(sequence)) = (words.next(), words.next()) {
            let (Some(id), Ok(sequence)) = (NodeId::parse(id), sequence.parse()) else { return };
            let slot = self.slots.lock().get(&id).cloned();
            if let Some(slot) = slot {
                slot.tell(sequence, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_core::contracts::Lease;
    use latchwork_core::{Address, Kind};

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn registered() -> (Clock, Inbox, Arc<Slot>) {
        let clock = Clock::tokio();
        let inbox = Inbox::new(clock.clone());
        let queue = Queue::of(&Address::new("n", Kind::Mutex, "k").unwrap()).unwrap();
        let slot = Slot::new(queue, NodeId::from_bytes([7; 16]), false);
        inbox.register(&slot);
        (clock, inbox, slot)
    }

    fn settle(clock: &Clock, slot: &Slot, sequence: u64) {
        let state = NodeState::new(Lease::new(clock.clone(), TTL, clock.now()), sequence);
        slot.settle(state, false, Moment::NEVER);
    }

    fn message(slot: &Slot, sequence: u64) -> Vec<u8> {
        format!("{} {sequence}", slot.id).into_bytes()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_overtakes_the_joins_reply_is_kept() {
        let (clock, inbox, slot) = registered();
        inbox.deliver(&message(&slot, 5));
        assert_eq!(slot.admitted_at(), None);
        settle(&clock, &slot, 5);
        assert!(slot.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_for_another_incarnation_or_another_attempt_counts_for_nothing() {
        let (clock, inbox, slot) = registered();
        settle(&clock, &slot, 5);
        inbox.deliver(&message(&slot, 4));
        inbox.deliver(b"");
        inbox.deliver(b"\xff\xff");
        inbox.deliver(b"00000000000000000000000000000009 5");
        assert_eq!(slot.admitted_at(), None);
        inbox.deliver(&message(&slot, 5));
        assert!(slot.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_neither_moves_the_deadline_nor_counts_after_it() {
        let (clock, inbox, slot) = registered();
        settle(&clock, &slot, 5);
        let deadline = slot.state().unwrap().lease().deadline();
        clock.jump(TTL);
        inbox.deliver(&message(&slot, 5));
        assert_eq!((slot.admitted_at(), slot.state().unwrap().lease().deadline()), (None, deadline));
    }
}
