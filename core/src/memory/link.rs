use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::store::Memory;
use super::stored_node::LeaseId;
use crate::address::Address;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::seen::{Rechecks, Requests};
use crate::until::until;

pub(super) const NAME: &str = "memory";

const KINDS: [&str; 11] =
    ["count", "facts", "join", "look", "leave", "list", "limit", "renew", "read", "write", "watch"];

/// The link between one client and its store, for planned faults. Its waits are cancel-safe.
#[derive(Clone)]
pub struct Link(Arc<LinkInner>);

struct LinkInner {
    sent: Requests,
    rechecks: Rechecks,
    store: Memory,
    timeout: Duration,
    faults: Mutex<Faults>,
    caught: Notify,
}

#[derive(Default)]
struct Faults {
    cut: bool,
    closed: bool,
    // Also requests whose senders have given up.
    holding: Option<VecDeque<Box<dyn FnOnce() + Send>>>,
    // `Some(None)`: the next request will be caught.
    parked: Option<Option<Box<dyn FnOnce() + Send>>>,
    requests: u64,
    delay: Duration,
    replies_to_drop: u32,
    lease: LeaseId,
    renewal: Option<AbortHandle>,
}

impl Link {
    pub(super) fn new(store: Memory, timeout: Duration) -> Self {
        let (sent, rechecks) = (Requests::new(NAME, KINDS), Rechecks::new(NAME));
        let (faults, caught) = (Mutex::default(), Notify::new());
        Self(Arc::new(LinkInner { sent, rechecks, store, timeout, faults, caught }))
    }

    /// Cuts the link until [`heal`](Link::heal): all requests fail with `Unavailable`.
    pub fn cut(&self) {
        self.0.faults.lock().cut = true;
    }

    /// Undoes [`cut`](Link::cut) and [`delay`](Link::delay), and carries out the held requests.
    pub fn heal(&self) {
        {
            let mut faults = self.0.faults.lock();
            faults.cut = false;
            faults.delay = Duration::ZERO;
        }
        self.resume();
    }

    /// Holds back all requests until [`resume`](Link::resume).
    pub fn hold(&self) {
        self.0.faults.lock().holding.get_or_insert_default();
    }

    /// Waits until a request is held back.
    pub async fn held(&self) {
        self.until(|faults| faults.holding.as_ref().is_some_and(|requests| !requests.is_empty())).await;
    }

    async fn until(&self, done: impl Fn(&Faults) -> bool) {
        until(&self.0.caught, || done(&self.0.faults.lock()).then_some(())).await
    }

    /// Carries out the held requests in order, including requests whose sender has given up.
    pub fn resume(&self) {
        let requests = self.0.faults.lock().holding.take();
        for request in requests.into_iter().flatten() {
            request();
        }
    }

    /// Catches the next request until [`deliver_parked`](Link::deliver_parked). Its sender loses the
    /// connection.
    pub fn park_next_request(&self) {
        self.0.faults.lock().parked = Some(None);
    }

    /// Waits until the request of [`park_next_request`](Link::park_next_request) is caught.
    pub async fn parked(&self) {
        self.until(|faults| matches!(faults.parked, Some(Some(_)))).await;
    }

    /// Carries out the caught request. Returns whether there was one.
    pub fn deliver_parked(&self) -> bool {
        let request = self.0.faults.lock().parked.take().flatten();
        request.map(|request| request()).is_some()
    }

    /// Returns the number of sent requests, including renewals of the lease.
    pub fn requests(&self) -> u64 {
        self.0.faults.lock().requests
    }

    /// Delays each request by this time, half of it in each direction.
    pub fn delay(&self, delay: Duration) {
        self.0.faults.lock().delay = delay;
    }

    /// Carries out the next request, and loses the reply.
    pub fn drop_next_reply(&self) {
        self.0.faults.lock().replies_to_drop += 1;
    }

    /// Waits until each reply of [`drop_next_reply`](Link::drop_next_reply) has been dropped.
    pub async fn reply_dropped(&self) {
        self.until(|faults| faults.replies_to_drop == 0).await;
    }

    /// Loses the next wake-up of the waiter at `sequence`. Returns whether such a node exists.
    pub fn drop_next_wake(&self, queue: &Address, sequence: u64) -> bool {
        self.0.store.deafen(queue, sequence)
    }

    /// Loses the next change event of a cell, for all its watchers.
    pub fn drop_next_news(&self, cell: &Address) {
        self.0.store.deafen_watches(cell);
    }

    pub(super) fn rechecks(&self) -> &Rechecks {
        &self.0.rechecks
    }

    pub(super) async fn until_closed(&self) {
        self.until(|faults| faults.closed).await;
    }

    /// Ends the client's lease from outside, as an operator does: its holds are lost as `Revoked`.
    pub fn lose_lease(&self) {
        let lease = self.0.faults.lock().lease;
        self.0.store.end_lease(lease, LostReason::Revoked);
    }

    /// Returns how long the store keeps the client's lease, and each of its nodes, without a renewal.
    pub fn lease_left(&self) -> Vec<Duration> {
        let lease = self.0.faults.lock().lease;
        self.0.store.lease_left(lease)
    }

    /// Stops the task that renews the lease, as a panic in it does.
    pub fn stop_renewal(&self) {
        if let Some(renewal) = self.0.faults.lock().renewal.take() {
            renewal.abort();
        }
    }

    pub(super) fn set_renewal(&self, renewal: AbortHandle) {
        self.0.faults.lock().renewal = Some(renewal);
    }

    pub(super) fn set_lease(&self, lease: LeaseId) {
        self.0.faults.lock().lease = lease;
    }

    /// Fails all later requests. Returns whether the client was open.
    pub(super) fn close(&self) -> bool {
        let closed = std::mem::replace(&mut self.0.faults.lock().closed, true);
        self.0.caught.notify_waiters();
        self.stop_renewal();
        !closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.faults.lock().closed
    }

    /// Returns `Unavailable` for a request that was not sent, and `OutcomeUnknown` for a lost reply.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        kind: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let clock = self.0.store.clock();
        match self.route(kind, work)? {
            Route::Held(answer) => self.await_held(clock, answer).await,
            Route::Through(work, delay) => {
                clock.sleep_until(clock.now() + delay / 2).await;
                let reply = work();
                clock.sleep_until(clock.now() + delay / 2).await;
                let mut faults = self.0.faults.lock();
                if faults.replies_to_drop > 0 {
                    faults.replies_to_drop -= 1;
                    drop(faults);
                    self.0.caught.notify_waiters();
                    return Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"));
                }
                Ok(reply)
            }
        }
    }

    fn route<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
        &self,
        kind: &'static str,
        work: W,
    ) -> Result<Route<T, W>> {
        let mut faults = self.0.faults.lock();
        if faults.closed {
            return Err(Error::closed());
        }
        if faults.cut {
            return Err(Error::new(ErrorKind::Unavailable, "the link is cut"));
        }
        faults.requests += 1;
        self.0.sent.sent(kind);
        if let Some(parked @ None) = &mut faults.parked {
            *parked = Some(Box::new(move || drop(work())));
            drop(faults);
            self.0.caught.notify_waiters();
            return Err(Error::new(ErrorKind::OutcomeUnknown, "the connection was lost"));
        }
        let Some(requests) = &mut faults.holding else { return Ok(Route::Through(work, faults.delay)) };
        let (reply, answer) = oneshot::channel();
        requests.push_back(Box::new(move || {
            let _ = reply.send(work());
        }));
        drop(faults);
        self.0.caught.notify_waiters();
        Ok(Route::Held(answer))
    }

    async fn await_held<T>(&self, clock: &Clock, answer: oneshot::Receiver<T>) -> Result<T> {
        tokio::select! {
            answer = answer => answer.map_err(|_| Error::new(ErrorKind::OutcomeUnknown, "the request was lost")),
            () = clock.sleep_until(clock.now() + self.0.timeout) => {
                Err(Error::new(ErrorKind::OutcomeUnknown, "no reply within the request timeout"))
            }
        }
    }
}

enum Route<T, W> {
    Through(W, Duration),
    Held(oneshot::Receiver<T>),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.0.faults.lock();
        f.debug_struct("Link")
            .field("cut", &faults.cut)
            .field("held", &faults.holding.is_some())
            .finish_non_exhaustive()
    }
}
