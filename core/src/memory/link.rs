//! The link between a client and its store, on which faults can be laid.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::store::{LeaseId, Memory};
use crate::address::Address;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, LostReason, Result};

/// The link between one client and its store: cut it, hold or delay its requests, lose a reply, end the
/// lease from outside. For tests.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    store: Memory,
    timeout: Duration,
    state: Mutex<State>,
    // A held request has arrived.
    held: Notify,
}

#[derive(Default)]
struct State {
    cut: bool,
    closed: bool,
    // Requests that wait in the network: carried out on resume, whether or not anybody still waits for the reply.
    holding: Option<VecDeque<Box<dyn FnOnce() + Send>>>,
    // The next request is caught (`Some(None)`) or was (`Some(Some)`), to be delivered late.
    parked: Option<Option<Box<dyn FnOnce() + Send>>>,
    requests: u64,
    delay: Duration,
    replies_to_drop: u32,
    lease: LeaseId,
    keeper: Option<AbortHandle>,
}

impl Link {
    pub(super) fn new(store: Memory, timeout: Duration) -> Self {
        Self(Arc::new(Inner { store, timeout, state: Mutex::default(), held: Notify::new() }))
    }

    /// Requests fail from now on, until [`heal`](Link::heal).
    pub fn cut(&self) {
        self.0.state.lock().cut = true;
    }

    /// Undoes [`cut`](Link::cut) and [`delay`](Link::delay), and lets held requests go.
    pub fn heal(&self) {
        {
            let mut state = self.0.state.lock();
            state.cut = false;
            state.delay = Duration::ZERO;
        }
        self.resume();
    }

    /// Requests are held back from now on, until [`resume`](Link::resume): as though they were late in the network.
    pub fn hold(&self) {
        self.0.state.lock().holding.get_or_insert_default();
    }

    /// Waits until a request is held back.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn held(&self) {
        self.until(|state| state.holding.as_ref().is_some_and(|requests| !requests.is_empty())).await;
    }

    async fn until(&self, done: impl Fn(&State) -> bool) {
        loop {
            let notified = self.0.held.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if done(&self.0.state.lock()) {
                return;
            }
            notified.await;
        }
    }

    /// Carries out what was held back, in order, also the requests whose sender has given up.
    pub fn resume(&self) {
        let requests = self.0.state.lock().holding.take();
        for request in requests.into_iter().flatten() {
            request();
        }
    }

    /// The next request is caught in the network while its sender loses the connection;
    /// [`deliver_parked`](Link::deliver_parked) carries it out later, after others that were sent since.
    pub fn park_next_request(&self) {
        self.0.state.lock().parked = Some(None);
    }

    /// Waits until that request was caught.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn parked(&self) {
        self.until(|state| matches!(state.parked, Some(Some(_)))).await;
    }

    /// Carries out the request that was caught. Answers whether there was one.
    pub fn deliver_parked(&self) -> bool {
        let request = self.0.state.lock().parked.take().flatten();
        request.map(|request| request()).is_some()
    }

    /// How many requests were sent, the lease's renewals among them.
    pub fn requests(&self) -> u64 {
        self.0.state.lock().requests
    }

    /// Every request takes so long from now on: half of it on its way to the store, half back.
    pub fn delay(&self, delay: Duration) {
        self.0.state.lock().delay = delay;
    }

    /// The reply to the next request is lost: it is carried out, and its outcome is unknown to the client.
    pub fn drop_next_reply(&self) {
        self.0.state.lock().replies_to_drop += 1;
    }

    /// Waits until no reply is to be dropped any more: the request came and was carried out.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn reply_dropped(&self) {
        self.until(|state| state.replies_to_drop == 0).await;
    }

    /// The next wake-up to the waiter at `sequence` is lost. Answers whether it waits.
    pub fn drop_next_wake(&self, queue: &Address, sequence: u64) -> bool {
        self.0.store.deafen(queue, sequence)
    }

    /// Ends the client's lease from outside, as an operator would: its nodes go, their owners hear `Revoked`.
    pub fn lose_lease(&self) {
        let lease = self.0.state.lock().lease;
        self.0.store.end_lease(lease, LostReason::Revoked);
    }

    /// Kills the task that renews the lease, as a panic in it would.
    pub fn kill_keeper(&self) {
        if let Some(keeper) = self.0.state.lock().keeper.take() {
            keeper.abort();
        }
    }

    pub(super) fn set_keeper(&self, keeper: AbortHandle) {
        self.0.state.lock().keeper = Some(keeper);
    }

    pub(super) fn set_lease(&self, lease: LeaseId) {
        self.0.state.lock().lease = lease;
    }

    /// Nothing goes through from now on. Answers whether something did until now.
    pub(super) fn close(&self) -> bool {
        let closed = std::mem::replace(&mut self.0.state.lock().closed, true);
        self.kill_keeper();
        !closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    /// Sends a request through the link.
    ///
    /// # Errors
    /// `Unavailable` when it was not sent, `Unknown` when its reply was lost, `Closed`.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let clock = self.0.store.clock();
        match self.route(work)? {
            Route::Held(answer) => self.await_held(clock, answer).await,
            Route::Through(work, delay) => {
                clock.sleep_until(clock.now() + delay / 2).await;
                let reply = work();
                clock.sleep_until(clock.now() + delay / 2).await;
                let mut state = self.0.state.lock();
                if state.replies_to_drop > 0 {
                    state.replies_to_drop -= 1;
                    drop(state);
                    self.0.held.notify_waiters();
                    return Err(Error::new(ErrorKind::Unknown, "the reply was lost"));
                }
                Ok(reply)
            }
        }
    }

    fn route<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(&self, work: W) -> Result<Route<T, W>> {
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(Error::closed());
        }
        if state.cut {
            return Err(Error::new(ErrorKind::Unavailable, "the link is cut"));
        }
        state.requests += 1;
        if let Some(parked @ None) = &mut state.parked {
            *parked = Some(Box::new(move || drop(work())));
            drop(state);
            self.0.held.notify_waiters();
            return Err(Error::new(ErrorKind::Unknown, "the connection was lost"));
        }
        let Some(requests) = &mut state.holding else { return Ok(Route::Through(work, state.delay)) };
        let (reply, answer) = oneshot::channel();
        requests.push_back(Box::new(move || {
            // Nobody may wait for the reply any more.
            let _ = reply.send(work());
        }));
        drop(state);
        self.0.held.notify_waiters();
        Ok(Route::Held(answer))
    }

    async fn await_held<T>(&self, clock: &Clock, answer: oneshot::Receiver<T>) -> Result<T> {
        tokio::select! {
            answer = answer => answer.map_err(|_| Error::new(ErrorKind::Unknown, "the request was lost")),
            () = clock.sleep_until(clock.now() + self.0.timeout) => {
                Err(Error::new(ErrorKind::Unknown, "no reply within the request timeout"))
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
        let state = self.0.state.lock();
        f.debug_struct("Link")
            .field("cut", &state.cut)
            .field("held", &state.holding.is_some())
            .finish_non_exhaustive()
    }
}
