//! What delays an acquisition, and the errors that say so.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Moment;
use crate::contracts::{Backend, LeaseState, Node, Patience};
use crate::error::{Error, ErrorKind};

/// With `fail_fast`, waits until the coordinator stops answering; else for ever. A lazy client's
/// stand-in lease has no deadline yet, and shows nothing.
pub(crate) async fn unanswered(backend: &Arc<dyn Backend>, fail_fast: bool) -> Error {
    let lease = backend.lease();
    if !fail_fast || lease.deadline() == Moment::NEVER {
        return std::future::pending().await;
    }
    let mut state = lease.state();
    while state != LeaseState::Suspended {
        state = lease.changed(state).await;
    }
    Error::new(ErrorKind::Unavailable, "not waited for, as fail_fast asks").because(silence())
}

fn silence() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator has not answered")
}

/// What a passed deadline means. `Timeout` says that others hold, which takes an answer from the
/// server; a try waits for nothing but an answer.
pub(crate) fn late(patience: Patience, unanswered: Option<Error>) -> Error {
    let taken_back = "its place in the queue is being given back";
    match (patience, unanswered) {
        (Patience::Wait, None) => {
            Error::new(ErrorKind::Timeout, format!("not acquired in time; {taken_back}"))
        }
        (Patience::Wait, Some(why)) => {
            Error::new(ErrorKind::Unavailable, format!("not acquired before the deadline; {taken_back}"))
                .because(why)
        }
        (Patience::Try, why) => Error::new(ErrorKind::Unavailable, "no answer within the request timeout")
            .because(why.unwrap_or_else(silence)),
    }
}

/// As [`unanswered`], for a node in the queue, which may have a lease of its own.
pub(super) async fn until_unproven(node: &dyn Node, fail_fast: bool) -> Error {
    if !fail_fast {
        return std::future::pending().await;
    }
    let mut state = node.state().state();
    loop {
        match unproven(state) {
            Some(why) if state == LeaseState::Suspended => return why,
            // A lost lease or node ends the wait by itself.
            _ => state = node.state().changed(state).await,
        }
    }
}

/// Why a waiter cannot know whether others still hold: its lease was not proven within its period.
/// `None` while it is.
pub(crate) fn unproven(state: LeaseState) -> Option<Error> {
    match state {
        LeaseState::Live => None,
        LeaseState::Suspended => {
            let why = "the coordinator has not answered within its period; others held when it did";
            Some(Error::new(ErrorKind::Unavailable, why))
        }
        LeaseState::Lost(reason) => Some(Error::lost(reason)),
    }
}

/// What has delayed an acquisition up to now. When its deadline passes, the error must say whether
/// others held all the time, or the server did not answer.
#[derive(Debug, Default)]
pub(super) struct Obstacle(Mutex<Met>);

#[derive(Debug, Default)]
enum Met {
    /// Nothing has been answered yet.
    #[default]
    Silence,
    Error(Error),
    /// Others are ahead of this node.
    Others(Arc<dyn Node>),
    /// It is admitted, and so many replicas are asked.
    Replicas(u32),
}

impl Obstacle {
    pub(super) fn asks(&self) {
        let mut kept = self.0.lock();
        if matches!(*kept, Met::Others(_)) {
            *kept = Met::Silence;
        }
    }

    pub(super) fn met(&self, error: &Error) {
        *self.0.lock() = Met::Error(error.clone());
    }

    /// The node stands in the queue.
    pub(super) fn waits(&self, node: &Arc<dyn Node>) {
        *self.0.lock() = Met::Others(Arc::clone(node));
    }

    /// The node is admitted, and this many replicas are asked to confirm that.
    pub(super) fn confirms(&self, replicas: u32) {
        *self.0.lock() = Met::Replicas(replicas);
    }

    pub(super) fn why(&self) -> Option<Error> {
        match std::mem::take(&mut *self.0.lock()) {
            Met::Silence => Some(silence()),
            Met::Error(error) => Some(error),
            Met::Others(node) => unproven(node.state().state()),
            Met::Replicas(replicas) => Some(Error::new(
                ErrorKind::Unavailable,
                format!("admitted, and not yet confirmed by {replicas} replicas"),
            )),
        }
    }

    pub(super) fn explain(&self, error: Error) -> Error {
        error.because_of(self.why())
    }
}

/// The server did not answer, in spite of retries.
pub(super) fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator cannot serve the request now")
}
