use std::fmt;
use std::sync::Mutex;

use tokio::sync::{oneshot, watch};

/// The awaited event cannot come any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy was dropped, or the connection broke, before the awaited event")]
pub struct EventLost;

/// An awaited event at the proxy. A drop disarms it.
#[derive(Debug)]
#[must_use = "dropping the event disarms it"]
pub struct Event(watch::Receiver<bool>);

impl Event {
    /// Returns whether the event has happened.
    pub fn has_fired(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the event. Cancel safe: a later call sees an earlier event.
    ///
    /// # Errors
    /// [`EventLost`] if the proxy was dropped first, or the connection broke between a request and its reply.
    pub async fn fired(&mut self) -> Result<(), EventLost> {
        self.0.wait_for(|fired| *fired).await.map(drop).map_err(|_| EventLost)
    }
}

/// A request that the proxy holds. A drop before [`deliver`](Parked::deliver) loses it.
#[derive(Debug)]
#[must_use = "dropping it loses the request"]
pub struct Parked {
    caught: Event,
    deliver: oneshot::Sender<()>,
    delivered: oneshot::Receiver<()>,
}

impl Parked {
    /// Waits until the request is caught and its client's connection is closed. Cancel safe.
    ///
    /// # Errors
    /// [`EventLost`] if the proxy was dropped first.
    pub async fn caught(&mut self) -> Result<(), EventLost> {
        self.caught.fired().await
    }

    /// Sends the request on the client's former connection, and waits until the server starts its answer or closes the
    /// connection.
    ///
    /// # Cancel safety
    /// A cancelled call still delivers the request.
    ///
    /// # Errors
    /// [`EventLost`] if the proxy was dropped, or the connection to the server had broken.
    pub async fn deliver(mut self) -> Result<(), EventLost> {
        self.caught().await?;
        self.deliver.send(()).map_err(|()| EventLost)?;
        self.delivered.await.map_err(|_| EventLost)
    }
}

pub(super) enum Catch {
    /// The request passes.
    Tell,
    /// The answer is dropped, and the connection is closed.
    DropReply,
    /// The chunks from the server wait for `resume`.
    HoldReply,
    /// The client's connection is closed.
    Park(Delivery),
}

pub(super) struct Delivery {
    pub(super) asked: oneshot::Receiver<()>,
    pub(super) done: oneshot::Sender<()>,
}

type Matcher = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A fault that awaits its request.
pub(super) struct Trap {
    matches: Matcher,
    pub(super) catch: Catch,
    pub(super) fired: watch::Sender<bool>,
}

/// Oldest first.
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

    /// All plain events, and the oldest of the others. Also removes traps whose event was dropped.
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
