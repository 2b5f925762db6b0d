use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use latchwork_core::backend::{NodeId, NodeWriter};
use latchwork_core::{Clock, Moment};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::attempt::Attempt;

/// `secret@channel`.
pub(crate) struct InboxAddress<'a> {
    secret: u64,
    channel: &'a str,
}

impl fmt::Display for InboxAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}@{}", self.secret, self.channel)
    }
}

#[derive(Debug)]
pub(crate) struct Inbox {
    clock: Clock,
    channel: String,
    attempts: Mutex<HashMap<NodeId, Arc<Attempt>>>,
    // Each attempt at most once.
    rechecks: Mutex<Vec<Arc<Attempt>>>,
    recheck_due: Notify,
    // A keyed hash (SipHash with a random key), so a repeated join has the secret of the first.
    secrets: RandomState,
}

impl Inbox {
    pub(crate) fn new(clock: Clock, channel: String) -> Self {
        Self {
            clock,
            channel,
            attempts: Mutex::default(),
            rechecks: Mutex::default(),
            recheck_due: Notify::new(),
            secrets: RandomState::new(),
        }
    }

    pub(crate) fn address(&self, id: NodeId) -> InboxAddress<'_> {
        InboxAddress { secret: self.secret(id), channel: &self.channel }
    }

    /// An admission message must contain it, and only a client that can read the queue knows it: ids and
    /// sequence numbers also occur in re-check messages, logs and listings. It is published with the node's
    /// admission.
    fn secret(&self, id: NodeId) -> u64 {
        self.secrets.hash_one(id)
    }

    pub(crate) fn register(&self, attempt: &Arc<Attempt>) {
        self.attempts.lock().insert(attempt.id, Arc::clone(attempt));
    }

    pub(crate) fn settle(
        &self,
        attempt: &Arc<Attempt>,
        state: NodeWriter,
        admitted: bool,
        next_recheck: Moment,
    ) {
        if let Some(sequence) = attempt.settle(state, admitted, next_recheck) {
            self.notify_recheck(attempt, sequence);
        }
    }

    fn notify_recheck(&self, attempt: &Arc<Attempt>, sequence: u64) {
        if attempt.notify_recheck(sequence) {
            self.rechecks.lock().push(Arc::clone(attempt));
            self.recheck_due.notify_one();
        }
    }

    /// QUEUE-LOOK-AT-EXPIRY. Sent together with other due re-checks.
    pub(crate) fn request_recheck(&self, attempt: &Arc<Attempt>) {
        if let Some(state) = attempt.state() {
            self.notify_recheck(attempt, state.sequence());
        }
    }

    pub(super) async fn take_rechecks(&self) -> Vec<Arc<Attempt>> {
        loop {
            let due = std::mem::take(&mut *self.rechecks.lock());
            if !due.is_empty() {
                due.iter().for_each(|attempt| attempt.begin_recheck());
                return due;
            }
            self.recheck_due.notified().await;
        }
    }

    pub(crate) fn forget(&self, attempt: &Arc<Attempt>) {
        let mut attempts = self.attempts.lock();
        if attempts.get(&attempt.id).is_some_and(|known| Arc::ptr_eq(known, attempt)) {
            attempts.remove(&attempt.id);
        }
    }

    pub(crate) fn forget_id(&self, id: NodeId) {
        self.attempts.lock().remove(&id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Attempt>> {
        self.attempts.lock().values().cloned().collect()
    }

    /// `id sequence.secret …` for admissions, `id -sequence …` for rechecks. Other text, and an admission
    /// without the node's secret, is ignored.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Ok(text) = std::str::from_utf8(message) else { return };
        let now = self.clock.now();
        let mut words = text.split_ascii_whitespace();
        while let (Some(id), Some(sequence)) = (words.next(), words.next()) {
            let (sequence, secret) = match sequence.split_once('.') {
                Some((sequence, secret)) => (sequence, u64::from_str_radix(secret, 16).ok()),
                None => (sequence, None),
            };
            let (Some(id), Ok(sequence)) = (NodeId::parse(id), sequence.parse::<i64>()) else { return };
            let attempt = self.attempts.lock().get(&id).cloned();
            match attempt {
                Some(attempt) if sequence < 0 => self.notify_recheck(&attempt, sequence.unsigned_abs()),
                Some(attempt) if secret == Some(self.secret(id)) => {
                    attempt.notify_admitted(sequence.unsigned_abs(), now);
                }
                Some(_) => {
                    tracing::debug!(%id, "ignored an admission message without the secret of the node")
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use latchwork_core::backend::LeaseWriter;
    use latchwork_core::{Address, Kind};

    use super::*;
    use crate::layout::QueueKeys;

    const TTL: Duration = Duration::from_secs(10);

    fn registered() -> (Clock, Inbox, Arc<Attempt>) {
        let clock = Clock::tokio();
        let inbox = Inbox::new(clock.clone(), "n:inbox:c".to_owned());
        let queue = QueueKeys::of(&Address::new("n", Kind::Mutex, "k").unwrap()).unwrap();
        let attempt = Attempt::new(queue, NodeId::from_bytes([7; 16]), false);
        inbox.register(&attempt);
        (clock, inbox, attempt)
    }

    fn settle(clock: &Clock, inbox: &Inbox, attempt: &Arc<Attempt>, sequence: u64) {
        let state = NodeWriter::new(LeaseWriter::new(clock.clone(), TTL, clock.now()), sequence);
        inbox.settle(attempt, state, false, Moment::NEVER);
    }

    fn message(inbox: &Inbox, attempt: &Attempt, sequence: i64) -> Vec<u8> {
        format!("{} {sequence}.{:x}", attempt.id, inbox.secret(attempt.id)).into_bytes()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_overtakes_the_joins_reply_is_kept() {
        let (clock, inbox, attempt) = registered();
        inbox.deliver(&message(&inbox, &attempt, 5));
        assert_eq!(attempt.admitted_at(), None);
        settle(&clock, &inbox, &attempt, 5);
        assert!(attempt.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_for_another_node_or_another_attempt_counts_for_nothing() {
        let (clock, inbox, attempt) = registered();
        settle(&clock, &inbox, &attempt, 5);
        inbox.deliver(&message(&inbox, &attempt, 4));
        inbox.deliver(b"");
        inbox.deliver(b"\xff\xff");
        inbox.deliver(b"00000000000000000000000000000009 5");
        assert_eq!(attempt.admitted_at(), None);
        inbox.deliver(&message(&inbox, &attempt, 5));
        assert!(attempt.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_neither_moves_the_deadline_nor_counts_after_it() {
        let (clock, inbox, attempt) = registered();
        settle(&clock, &inbox, &attempt, 5);
        let deadline = attempt.state().unwrap().lease().deadline();
        clock.jump(TTL);
        inbox.deliver(&message(&inbox, &attempt, 5));
        assert_eq!((attempt.admitted_at(), attempt.state().unwrap().lease().deadline()), (None, deadline));
    }

    #[tokio::test(start_paused = true)]
    async fn message_without_the_node_secret_admits_no_waiter() {
        let (clock, inbox, attempt) = registered();
        settle(&clock, &inbox, &attempt, 5);
        let other = inbox.secret(NodeId::random());
        for forged in ["5".to_owned(), "5.".to_owned(), "5.0".to_owned(), format!("5.{other:x}")] {
            inbox.deliver(format!("{} {forged}", attempt.id).as_bytes());
            assert_eq!(attempt.admitted_at(), None, "{forged}");
        }
        inbox.deliver(&message(&inbox, &attempt, 5));
        assert!(attempt.admitted_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn recheck_message_causes_one_recheck_and_no_admission() {
        let (clock, inbox, attempt) = registered();
        inbox.deliver(&message(&inbox, &attempt, -5));
        assert!(inbox.take_rechecks().now_or_never().is_none(), "the reply to the join has not arrived");
        settle(&clock, &inbox, &attempt, 5);
        assert_eq!(inbox.take_rechecks().now_or_never().unwrap().len(), 1);
        inbox.deliver(&message(&inbox, &attempt, -5));
        inbox.deliver(&message(&inbox, &attempt, -5));
        inbox.deliver(&message(&inbox, &attempt, -4));
        let due: Vec<_> =
            inbox.take_rechecks().now_or_never().unwrap().iter().map(|attempt| attempt.id).collect();
        assert_eq!((due, attempt.admitted_at()), (vec![attempt.id], None));
        assert!(inbox.take_rechecks().now_or_never().is_none());
    }
}
