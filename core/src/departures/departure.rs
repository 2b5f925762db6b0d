//! What is to be taken back, and how: again and again, until it is confirmed, refused, or moot.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Join, Leave, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::pauses::Pauses;

/// What is to be taken back.
#[derive(Clone)]
pub(crate) enum Departure {
    /// A node that is known. `asked`: a request may have removed it, whose reply was lost.
    Leave { queue: Address, node: Arc<dyn Node>, asked: bool },
    /// A writer's node of which a reader's remains: `at_once`, or when the node's least time is over.
    Downgrade { queue: Address, node: Arc<dyn Node>, at_once: bool },
    /// An attempt whose outcome is unknown, and the instant after which its lease has taken it anyway.
    Abandon(Join, Moment),
}

impl Departure {
    pub(super) fn queue(&self) -> &Address {
        match self {
            Departure::Leave { queue, .. } | Departure::Downgrade { queue, .. } => queue,
            Departure::Abandon(join, _) => &join.queue,
        }
    }

    /// A try of it has failed: a request may have been carried out though, unless it was surely not sent.
    pub(crate) fn failed(&mut self, error: &Error) {
        if let Departure::Leave { asked, .. } = self {
            *asked |= error.kind() != &ErrorKind::Unavailable;
        }
    }

    /// What its end tells: who finds nothing there behind a request without an answer does not know whose hand that was.
    pub(crate) fn told(&self, outcome: Result<()>) -> Result<()> {
        match (self, outcome) {
            (Departure::Leave { asked: true, .. }, Err(error)) if error.lost_reason().is_some() => {
                let why =
                    "it is given back, but a reply was lost: whether it was held until then is not known";
                Err(Error::new(ErrorKind::Unknown, why))
            }
            (_, outcome) => outcome,
        }
    }

    /// Whether there is nothing left to take back: the server has forgotten it by itself.
    pub(super) fn is_moot(&self, now: Moment) -> bool {
        match self {
            // The margin and more have passed on the server too when our own deadline lies a TTL behind.
            Departure::Leave { node, .. } | Departure::Downgrade { node, .. } => {
                let lease = node.state().lease();
                now >= lease.deadline() + lease.ttl()
            }
            Departure::Abandon(_, moot) => now >= *moot,
        }
    }

    /// Once. One that is not there any more is `Lost`.
    pub(super) async fn carry_out(&self, backend: &dyn Backend) -> Result<()> {
        match self {
            Departure::Leave { node, .. } => match node.leave().await? {
                Leave::Removed => Ok(()),
                Leave::Absent(reason) => Err(Error::lost(reason)),
            },
            Departure::Downgrade { node, .. } => node.downgrade().await,
            Departure::Abandon(join, _) => backend.abandon(join).await,
        }
    }

    /// The node that is not to be given back yet.
    pub(super) fn kept(&self) -> Option<Arc<dyn Node>> {
        match self {
            Departure::Leave { node, .. } | Departure::Downgrade { node, at_once: false, .. } => {
                let state = node.state();
                // What was lost, at a fixed end say, is kept no more.
                (state.is_kept() && state.lost().is_none()).then(|| Arc::clone(node))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Leave { queue, node, .. } => write!(f, "Leave({queue:?}, {node:?})"),
            Departure::Downgrade { queue, node, .. } => write!(f, "Downgrade({queue:?}, {node:?})"),
            Departure::Abandon(join, _) => write!(f, "Abandon({:?}, {})", join.queue, join.id),
        }
    }
}

/// Waits until a node's least time is over, or there is nothing to keep any more.
pub(super) async fn kept_out(node: &dyn Node) {
    let state = node.state();
    tokio::select! {
        () = state.lease().clock().sleep_until(state.kept_until()) => {}
        _ = state.until_lost() => {}
    }
}

/// There is nothing left to take back: its lease has taken it, it was given back meanwhile, or the client is closed.
pub(crate) fn is_over(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Lost { .. } | ErrorKind::NotHeld | ErrorKind::Closed)
}

/// Carries a departure out, again and again: until it is confirmed, refused, or moot. The pauses are short beside the time that a try
/// has, which may wait for it.
pub(crate) async fn settle(
    backend: &dyn Backend,
    departure: &mut Departure,
    request_timeout: Duration,
) -> Result<()> {
    let clock = backend.lease().clock().clone();
    let first = Duration::from_millis(20);
    // With their jitter up to half of that time.
    let mut pauses = Pauses::new(first, (request_timeout / 4).clamp(first, Duration::from_secs(1)));
    while let Err(error) = departure.carry_out(backend).await {
        if is_over(&error) {
            return Err(error);
        }
        if !error.is_retryable() {
            tracing::debug!(?departure, %error, "a departure was refused");
            return Err(error);
        }
        departure.failed(&error);
        if departure.is_moot(clock.now()) {
            tracing::debug!(?departure, %error, "a departure was not confirmed within its lease");
            return Err(error);
        }
        pauses.pause(&clock).await;
    }
    Ok(())
}
