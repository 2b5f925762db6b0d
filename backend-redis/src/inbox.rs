//! The nodes of this client, and the messages that tell it of their admission.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use latchwork_core::contracts::{NodeId, NodeKeeper, StoredLimit};
use latchwork_core::{Clock, Moment};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::layout::Queue;

/// What a hand-off message must name, beside the node. It stands in the node's data alone, so that only who can read the queue
/// knows it: an id and a sequence number are told to others too (in messages to look again, in logs, in listings). It is of no
/// more use once it was published: the node is admitted then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(u64);

impl Secret {
    #[cfg(any(test, feature = "bench"))]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One attempt of this client: registered BEFORE its join is sent, so that a message that overtakes the
/// join's reply is kept (RULES A7).
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) queue: Queue,
    pub(crate) id: NodeId,
    /// An earlier request of this attempt had an unknown outcome, and may still arrive.
    pub(crate) repeated: bool,
    state: OnceLock<NodeKeeper>,
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
    // What is stored as the limit, and does not let it in, says its last renewal. Boxed: whoever holds has none.
    unfit: Option<Box<StoredLimit>>,
    // The sequence number that a message named before the join's reply was in, to look again at.
    nudged: Option<u64>,
    // It is among those to look at again.
    to_look: bool,
    left: bool,
    // After this the server has forgotten it by itself, whether it is abandoned or not.
    moot: Moment,
}

impl Slot {
    pub(crate) fn new(queue: Queue, id: NodeId, repeated: bool) -> Arc<Self> {
        let progress = Progress {
            told: None,
            admitted: None,
            recheck: Moment::NEVER,
            unfit: None,
            nudged: None,
            to_look: false,
            left: false,
            moot: Moment::NEVER,
        };
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
    fn settle(&self, state: NodeKeeper, admitted: bool, recheck: Moment) {
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
    pub(crate) fn state(&self) -> Option<&NodeKeeper> {
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

    /// To look again. Answers whether that is new: how it stands, only its renewal says.
    fn nudge(&self, sequence: u64) -> bool {
        let mut progress = self.progress.lock();
        match self.state.get() {
            None => {
                progress.nudged = Some(sequence);
                false
            }
            Some(state) => state.sequence() == sequence && !std::mem::replace(&mut progress.to_look, true),
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

    /// A renewal answered that it waits on.
    pub(crate) fn waits(&self, recheck: Moment) {
        self.progress.lock().unfit = None;
        self.recheck_at(recheck);
    }

    /// A renewal answered that it does not fit the limit any more.
    pub(crate) fn outweighs(&self, stored: StoredLimit) {
        self.progress.lock().unfit = Some(Box::new(stored));
        self.changed.notify_waiters();
    }

    /// What is stored as the limit where it does not fit that any more.
    pub(crate) fn unfit(&self) -> Option<StoredLimit> {
        self.progress.lock().unfit.as_deref().cloned()
    }

    /// It is being given back: no renewal, and no renewal's answer, concerns it any more (RULES A16). Answers whether that is new.
    pub(crate) fn leave(&self) -> bool {
        !std::mem::replace(&mut self.progress.lock().left, true)
    }

    /// It was lost, and could not be given back: it may be tried again.
    pub(crate) fn stay(&self) {
        self.progress.lock().left = false;
    }

    /// Nobody waits for its join's answer any more: it is abandoned next. Should it not be, it is over by then.
    pub(crate) fn leave_by(&self, moot: Moment) {
        let mut progress = self.progress.lock();
        (progress.left, progress.moot) = (true, moot);
    }

    pub(crate) fn is_moot(&self, now: Moment) -> bool {
        self.progress.lock().moot <= now
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
    // Each at most once, however often it is named.
    to_look: Mutex<Vec<Arc<Slot>>>,
    nudged: Notify,
    // A keyed hash (SipHash, its key random) makes the secrets: a retry of an attempt has that of its first request.
    secrets: RandomState,
}

impl Inbox {
    pub(crate) fn new(clock: Clock) -> Self {
        let (slots, to_look, nudged) = (Mutex::default(), Mutex::default(), Notify::new());
        Self { clock, slots, to_look, nudged, secrets: RandomState::new() }
    }

    /// What a message must name that tells of the admission of this attempt's node.
    pub(crate) fn secret(&self, id: NodeId) -> Secret {
        Secret(self.secrets.hash_one(id))
    }

    pub(crate) fn register(&self, slot: &Arc<Slot>) {
        self.slots.lock().insert(slot.id, Arc::clone(slot));
    }

    /// A join's reply is in. Applies what messages said before.
    pub(crate) fn settle(&self, slot: &Arc<Slot>, state: NodeKeeper, admitted: bool, recheck: Moment) {
        slot.settle(state, admitted, recheck);
        let nudged = slot.progress.lock().nudged.take();
        if let Some(sequence) = nudged {
            self.nudge(slot, sequence);
        }
    }

    fn nudge(&self, slot: &Arc<Slot>, sequence: u64) {
        if slot.nudge(sequence) {
            self.to_look.lock().push(Arc::clone(slot));
            self.nudged.notify_one();
        }
    }

    /// It is time for a waiter to look again by itself (RULES A13).
    pub(crate) fn look(&self, slot: &Arc<Slot>) {
        if let Some(state) = slot.state() {
            self.nudge(slot, state.sequence());
        }
    }

    /// Waits until there are nodes to look at again, and takes them.
    pub(crate) async fn to_look(&self) -> Vec<Arc<Slot>> {
        loop {
            let slots = std::mem::take(&mut *self.to_look.lock());
            if !slots.is_empty() {
                // From here on a message means another look: this one may be under way already.
                slots.iter().for_each(|slot| slot.progress.lock().to_look = false);
                return slots;
            }
            self.nudged.notified().await;
        }
    }

    /// Forgets this incarnation: a retry of the same attempt may have registered another.
    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if slots.get(&slot.id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(&slot.id);
        }
    }

    /// Forgets an attempt that was abandoned.
    pub(crate) fn forget_attempt(&self, id: NodeId) {
        self.slots.lock().remove(&id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().values().cloned().collect()
    }

    /// Applies a message: `id sequence.secret id sequence.secret …`, or `id -sequence` where it only says to look again. What
    /// is no such thing is no message of ours; of an admission, what does not name the node's secret.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Ok(text) = std::str::from_utf8(message) else { return };
        let now = self.clock.now();
        let mut words = text.split_ascii_whitespace();
        while let (Some(id), Some(sequence)) = (words.next(), words.next()) {
            let (sequence, secret) = match sequence.split_once('.') {
                Some((sequence, secret)) => (sequence, Secret::parse(secret)),
                None => (sequence, None),
            };
            let (Some(id), Ok(sequence)) = (NodeId::parse(id), sequence.parse::<i64>()) else { return };
            let slot = self.slots.lock().get(&id).cloned();
            match slot {
                Some(slot) if sequence < 0 => self.nudge(&slot, sequence.unsigned_abs()),
                Some(slot) if secret == Some(self.secret(id)) => slot.tell(sequence.unsigned_abs(), now),
                Some(_) => tracing::debug!(%id, "a message told of an admission without its secret"),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use latchwork_core::contracts::LeaseKeeper;
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

    fn settle(clock: &Clock, inbox: &Inbox, slot: &Arc<Slot>, sequence: u64) {
        let state = NodeKeeper::new(LeaseKeeper::new(clock.clone(), TTL, clock.now()), sequence);
        inbox.settle(slot, state, false, Moment::NEVER);
    }

    /// As whoever can read the queue knows it.
    fn message(inbox: &Inbox, slot: &Slot, sequence: i64) -> Vec<u8> {
        format!("{} {sequence}.{}", slot.id, inbox.secret(slot.id)).into_bytes()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_overtakes_the_joins_reply_is_kept() {
        let (clock, inbox, slot) = registered();
        inbox.deliver(&message(&inbox, &slot, 5));
        assert_eq!(slot.admitted_at(), None);
        settle(&clock, &inbox, &slot, 5);
        assert!(slot.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_for_another_incarnation_or_another_attempt_counts_for_nothing() {
        let (clock, inbox, slot) = registered();
        settle(&clock, &inbox, &slot, 5);
        inbox.deliver(&message(&inbox, &slot, 4));
        inbox.deliver(b"");
        inbox.deliver(b"\xff\xff");
        inbox.deliver(b"00000000000000000000000000000009 5");
        assert_eq!(slot.admitted_at(), None);
        inbox.deliver(&message(&inbox, &slot, 5));
        assert!(slot.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_neither_moves_the_deadline_nor_counts_after_it() {
        let (clock, inbox, slot) = registered();
        settle(&clock, &inbox, &slot, 5);
        let deadline = slot.state().unwrap().lease().deadline();
        clock.jump(TTL);
        inbox.deliver(&message(&inbox, &slot, 5));
        assert_eq!((slot.admitted_at(), slot.state().unwrap().lease().deadline()), (None, deadline));
    }
    #[tokio::test(start_paused = true)]
    async fn a_message_without_the_nodes_secret_admits_nobody() {
        let (clock, inbox, slot) = registered();
        settle(&clock, &inbox, &slot, 5);
        let other = inbox.secret(NodeId::random());
        for forged in ["5".to_owned(), "5.".to_owned(), "5.0".to_owned(), format!("5.{other}")] {
            inbox.deliver(format!("{} {forged}", slot.id).as_bytes());
            assert_eq!(slot.admitted_at(), None, "{forged}");
        }
        inbox.deliver(&message(&inbox, &slot, 5));
        assert!(slot.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_nudge_asks_for_one_look_and_admits_nobody() {
        let (clock, inbox, slot) = registered();
        inbox.deliver(&message(&inbox, &slot, -5));
        assert!(inbox.to_look().now_or_never().is_none(), "the join's reply is not in");
        settle(&clock, &inbox, &slot, 5);
        assert_eq!(inbox.to_look().now_or_never().unwrap().len(), 1);
        // Repeated, and of another incarnation.
        inbox.deliver(&message(&inbox, &slot, -5));
        inbox.deliver(&message(&inbox, &slot, -5));
        inbox.deliver(&message(&inbox, &slot, -4));
        let looked: Vec<_> = inbox.to_look().now_or_never().unwrap().iter().map(|slot| slot.id).collect();
        assert_eq!((looked, slot.admitted_at()), (vec![slot.id], None));
        assert!(inbox.to_look().now_or_never().is_none());
    }
}
