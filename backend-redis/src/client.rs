//! What the parts of one client share: the connection, its nodes, and the end of both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchwork_core::contracts::{Close, Flight, Lease, SingleFlight, Turns};
use latchwork_core::{Clock, Error, ErrorKind, LostReason, Moment, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::driver::Driver;
use crate::inbox::{Inbox, Slot};
use crate::layout::Queue;
use crate::lease::ClientLease;
use crate::scripts::{self, Call, Flags, Reply};

/// How long an abandoned attempt's tombstone stands: longer than a request can live.
pub(crate) const TOMBSTONE: Duration = latchwork_core::decide::queue::TOMBSTONE;
/// Scripts in one burst, so that a join never waits behind more than that.
pub(crate) const BURST: usize = 8;
/// Leaves in one burst: what a few renewals cost.
pub(crate) const LEAVES: usize = 64;
/// What a close whose time is over has for saying how far it came.
const GRACE: Duration = Duration::from_millis(100);
/// The longest pause before a close says again what was not confirmed.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) ttl: Duration,
    pub(crate) request_timeout: Duration,
    /// The channel of the own inbox.
    pub(crate) channel: String,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) lease: ClientLease,
    /// The one that it was opened on: what goes on in the background is not to end with that of whoever happened to ask for it.
    pub(crate) runtime: Handle,
    pub(crate) giving_back: SingleFlight<()>,
    turns: Turns,
    closing: watch::Sender<bool>,
    // The answer of the one close that there is.
    closed: OnceLock<Flight<Result<()>>>,
    warned: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        driver: Driver,
        clock: Clock,
        inbox: Arc<Inbox>,
        lease: ClientLease,
        settings: &crate::config::Settings,
    ) -> Self {
        Self {
            driver,
            clock,
            ttl: settings.ttl,
            request_timeout: settings.request_timeout,
            channel: settings.inbox.clone(),
            inbox,
            lease,
            runtime: Handle::current(),
            giving_back: SingleFlight::default(),
            turns: Turns::default(),
            closing: watch::Sender::new(false),
            closed: OnceLock::new(),
            warned: AtomicBool::new(false),
        }
    }

    /// Ready when the client is being closed. Dropping the client drops the sender.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Forgets an attempt, unless the client is being closed: then the close takes it back.
    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        if !*self.closing.borrow() {
            self.inbox.forget(slot);
        }
    }

    /// Runs a script unless the client is closed, or gets closed meanwhile.
    pub(crate) async fn run(&self, call: &Call) -> Result<(Moment, Reply)> {
        let mut closing = self.closing();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(Error::closed()),
            answer = self.run_in_turn(call) => answer,
        }
    }

    /// Renewals, which do not come here, never stand behind more than the turns that there are.
    async fn run_in_turn(&self, call: &Call) -> Result<(Moment, Reply)> {
        let (_turn, left) = self.turns.take(self.request_timeout).await?;
        self.driver.run(call, left).await
    }

    /// Acts upon what a script says beside its result.
    pub(crate) fn heed(self: &Arc<Self>, flags: Flags, queue: &Queue) {
        if flags.untold() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the server refused to publish to another client's inbox: hand-offs wait for the re-check (see its ACL)"
            );
        }
        if flags.more() {
            self.runtime.spawn(sweep(Arc::clone(self), queue.clone()));
        }
    }

    /// Ends the client once; every caller gets the one answer.
    pub(crate) async fn close(self: &Arc<Self>, how: Close) -> Result<()> {
        let closed = self.closed.get_or_init(|| {
            self.closing.send_replace(true);
            let client = Arc::clone(self);
            if how == Close::Abrupt {
                // Nothing may be sent from here on, not even by a task that runs beside us.
                client.driver.cut();
            }
            // Told here: nobody may drive the runtime that the rest is done on.
            let slots = self.part(how);
            Flight::begin(&self.runtime, async move { client.end(how, slots).await })
        });
        closed.clone().landed_within(self.request_timeout.saturating_add(GRACE), "the close").await?
    }

    fn part(&self, how: Close) -> Vec<Arc<Slot>> {
        let slots = self.inbox.all();
        for slot in &slots {
            slot.leave();
            // A client that died does not know it: what it held is lost at its deadline.
            if let (Close::Orderly, Some(state)) = (how, slot.state()) {
                state.gone(LostReason::Closed);
            }
        }
        slots
    }

    async fn end(&self, how: Close, slots: Vec<Arc<Slot>>) -> Result<()> {
        let until = self.clock.now() + self.request_timeout;
        let mut result = Ok(());
        if how == Close::Orderly {
            let now = self.clock.now();
            let calls: Vec<_> = slots.iter().filter_map(|slot| last_call(slot, now)).collect();
            if let Err(error) = self.confirm_all(&calls, until).await {
                tracing::debug!(%error, "a node was not given back at close");
                let what =
                    "closed, but the server did not confirm every node: the rest runs out with its lease";
                result = Err(Error::new(ErrorKind::Unavailable, what).because(error));
            }
            self.driver.close(until.since(self.clock.now())).await;
        }
        self.driver.cut();
        self.lease.close();
        result
    }

    /// Runs calls that may be repeated, each once and then those again that were not confirmed, until the time is over: the
    /// connection may just have broken, or the server be on its way out. A refusal is told first.
    async fn confirm_all(&self, calls: &[Call], until: Moment) -> Result<()> {
        let (mut left, mut refused) = (calls.iter().collect::<Vec<_>>(), None);
        // Time is left for another connection, should this one have fallen silent.
        let most = self.renewal_bound().min(self.request_timeout / 2);
        let mut pause = Duration::from_millis(10);
        loop {
            let (mut again, mut unconfirmed) = (Vec::new(), None);
            for burst in left.chunks(LEAVES) {
                let time = until.since(self.clock.now()).min(most);
                let answers = self.driver.run_all(burst.iter().copied(), time).await;
                for (&call, answer) in burst.iter().zip(answers) {
                    match answer {
                        Ok(_) => {}
                        Err(error) if error.is_retryable() => {
                            again.push(call);
                            unconfirmed = Some(error);
                        }
                        Err(error) => refused = Some(error),
                    }
                }
            }
            let time = until.since(self.clock.now());
            if unconfirmed.is_none() || time.is_zero() {
                return refused.or(unconfirmed).map_or(Ok(()), Err);
            }
            tokio::time::sleep(pause.min(time)).await;
            (left, pause) = (again, (pause * 2).min(LONGEST_PAUSE));
        }
    }

    /// Why a node is not there, or not what it was: its server is another one since the node was last seen, and does not know
    /// it; else somebody has removed it.
    pub(crate) fn why_gone(&self, lease: &Lease) -> LostReason {
        let last_seen = lease.deadline() - lease.ttl().saturating_sub(lease.margin());
        if last_seen < self.driver.incarnation_since() { LostReason::Forgotten } else { LostReason::Revoked }
    }

    /// The lease that the client as a whole has now.
    pub(crate) fn lease(&self) -> Lease {
        self.lease.current()
    }
}

/// What is said about a slot when its client is closed in order: nothing of one that is to be kept for a while yet. It is
/// left to its expiry, which is not put off: nothing outlives its client by more than a TTL.
fn last_call(slot: &Slot, now: Moment) -> Option<Call> {
    let kept = slot.state().is_some_and(|state| state.kept_until() > now);
    (!kept).then(|| farewell(slot))
}

/// How a slot is given back: by name and sequence. While a join of it is out that may still arrive, by name
/// alone and with a tombstone that the late one meets (RULES A10, A11).
pub(crate) fn farewell(slot: &Slot) -> Call {
    match slot.state() {
        Some(state) if !slot.repeated => scripts::leave(&slot.queue, slot.id, state.sequence(), None),
        _ => scripts::abandon(&slot.queue, slot.id, TOMBSTONE, None),
    }
}

/// More had expired, or was to be told, than one script looks at: goes on until nothing is left. Should this
/// client die meanwhile, the waiters' own re-checks do it.
async fn sweep(client: Arc<Client>, queue: Queue) {
    let call = scripts::renew([(&queue, Vec::new())], client.ttl, None);
    loop {
        let answer = client.run(&call).await.and_then(|(_, reply)| scripts::renewed(reply));
        match answer {
            Ok((_, queues)) if matches!(queues.first(), Some(Ok((flags, _))) if flags.more()) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "a queue was not swept to its end");
                return;
            }
        }
    }
}
