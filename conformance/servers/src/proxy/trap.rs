//! Faults that wait for one request, and their events.

use std::fmt;
use std::sync::Mutex;

use tokio::sync::{oneshot, watch};

/// The awaited event can no longer come: the proxy was dropped, or the connection that it was to
/// happen on broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy was dropped, or the connection broke, before the awaited event")]
pub struct EventLost;

/// Something awaited at the proxy: a request that passed, a reply that was dropped or held.
///
/// It is armed from the call that made it, and dropping it disarms it.
#[derive(Debug)]
#[must_use = "dropping the event disarms it"]
pub struct Event(watch::Receiver<bool>);

impl Event {
    /// Whether it has happened.
    pub fn has_fired(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it has happened; at once if it already has.
    ///
    /// # Cancel safety
    /// Cancel safe: waiting again sees what happened in between.
    ///
    /// # Errors
    /// [`EventLost`] when the proxy was dropped first, or the connection broke between a request
    /// and its reply.
    pub async fn fired(&mut self) -> Result<(), EventLost> {
        self.0.wait_for(|fired| *fired).await.map(drop).map_err(|_| EventLost)
    }
}

/// A request that the proxy keeps back while its client has already lost the connection.
///
/// Dropping it before [`deliver`](Parked::deliver) loses the request for good.
#[derive(Debug)]
#[must_use = "dropping it loses the request"]
pub struct Parked {
    caught: Event,
    deliver: oneshot::Sender<()>,
    delivered: oneshot::Receiver<()>,
}

impl Parked {
    /// Waits until the request was caught. From then on its client's connection is closed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Errors
    /// [`EventLost`] when the proxy was dropped first.
    pub async fn caught(&mut self) -> Result<(), EventLost> {
        self.caught.fired().await
    }

    /// Sends the request to the server, on the connection that the client had, and waits until the
    /// server begins to answer it or closes the connection. The client does not get the answer.
    ///
    /// # Cancel safety
    /// Cancelled, the request is still delivered.
    ///
    /// # Errors
    /// [`EventLost`] when the proxy was dropped, or the connection to the server had broken.
    pub async fn deliver(mut self) -> Result<(), EventLost> {
        self.caught().await?;
        self.deliver.send(()).map_err(|()| EventLost)?;
        self.delivered.await.map_err(|_| EventLost)
    }
}

/// What happens to the request that a trap caught, or to its reply.
pub(super) enum Catch {
    /// The request passes, and nothing else happens.
    Tell,
    /// The request passes; the answer is lost and the connection closed.
    DropReply,
    /// The request passes; the chunks from the server wait for `resume`.
    HoldReply,
    /// The request waits; the client's connection is closed.
    Park(Delivery),
}

/// The delivery of a request that waits: asked for, and done.
pub(super) struct Delivery {
    pub(super) asked: oneshot::Receiver<()>,
    pub(super) done: oneshot::Sender<()>,
}

type Matcher = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A catch that awaits its request.
pub(super) struct Trap {
    matches: Matcher,
    pub(super) catch: Catch,
    pub(super) fired: watch::Sender<bool>,
}

/// The traps that are set, oldest first.
#[derive(Default)]
pub(super) struct Traps(Mutex<Vec<Trap>>);

impl fmt::Debug for Traps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traps").field("armed", &self.lock().len()).finish()
    }
}

impl Traps {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Trap>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn arm(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static, catch: Catch) -> Event {
        let (fired, event) = watch::channel(false);
        self.lock().push(Trap { matches: Box::new(matches), catch, fired });
        Event(event)
    }

    pub(super) fn park(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Parked {
        let (deliver, asked) = oneshot::channel();
        let (done, delivered) = oneshot::channel();
        let caught = self.arm(matches, Catch::Park(Delivery { asked, done }));
        Parked { caught, deliver, delivered }
    }

    /// Takes the traps that this request falls into: every event, and the oldest of the others.
    /// Those whose event was dropped go on the way.
    pub(super) fn spring(&self, request: &[u8]) -> Vec<Trap> {
        let mut faulty = false;
        self.lock()
            .extract_if(.., |trap| {
                if trap.fired.is_closed() {
                    return true;
                }
                let tells = matches!(trap.catch, Catch::Tell);
                let caught = (tells || !faulty) && (trap.matches)(request);
                faulty |= caught && !tells;
                caught
            })
            .filter(|trap| !trap.fired.is_closed())
            .collect()
    }
}
