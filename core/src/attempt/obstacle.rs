use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Moment;
use crate::contracts::{Backend, LeaseState, Node, Patience};
use crate::error::{Error, ErrorKind};

/// Never returns without `fail_fast`, or before a lazy client is connected: its placeholder lease has no
/// deadline.
pub(crate) async fn unanswered(backend: &Arc<dyn Backend>, fail_fast: bool) -> Error {
    let lease = backend.lease();
    if !fail_fast || lease.deadline() == Moment::NEVER {
        return std::future::pending().await;
    }
    let mut state = lease.state();
    while state != LeaseState::Suspended {
        state = lease.changed(state).await;
    }
    Error::new(ErrorKind::Unavailable, "gave up at once: fail_fast is set").because(silence())
}

fn silence() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator does not answer")
}

/// `Timeout` needs an answer from the server. A try waits only for an answer, so it never times out.
pub(crate) fn late(patience: Patience, unanswered: Option<Error>) -> Error {
    let taken_back = "the place in the queue is given back in the background";
    match (patience, unanswered) {
        (Patience::Wait, None) => Error::new(
            ErrorKind::Timeout,
            format!("other clients still hold the lock or wait ahead in the queue; {taken_back}"),
        ),
        (Patience::Wait, Some(why)) => Error::new(
            ErrorKind::Unavailable,
            format!("the coordinator did not answer before the deadline; {taken_back}"),
        )
        .because(why),
        (Patience::Try, why) => Error::new(ErrorKind::Unavailable, "no answer within the request timeout")
            .because(why.unwrap_or_else(silence)),
    }
}

/// Awaits the node's lease, which may be another one than the client's.
pub(super) async fn until_unproven(node: &dyn Node, fail_fast: bool) -> Error {
    if !fail_fast {
        return std::future::pending().await;
    }
    let mut state = node.state().state();
    loop {
        match unproven(state) {
            Some(why) if state == LeaseState::Suspended => return why,
            // The loss of the lease or the node ends the wait elsewhere.
            _ => state = node.state().changed(state).await,
        }
    }
}

/// Without a confirmed lease, a waiter cannot know whether other clients still hold.
pub(crate) fn unproven(state: LeaseState) -> Option<Error> {
    match state {
        LeaseState::Live => None,
        LeaseState::Suspended => {
            let why = "the coordinator does not answer; at its last answer, other clients held the lock";
            Some(Error::new(ErrorKind::Unavailable, why))
        }
        LeaseState::Lost(reason) => Some(Error::lost(reason)),
    }
}

/// The obstacle of an acquisition: the error of a deadline says whether other clients held the lock or the
/// server did not answer.
#[derive(Debug, Default)]
pub(super) struct Obstacle(Mutex<Met>);

#[derive(Debug, Default)]
enum Met {
    #[default]
    Silence,
    Error(Error),
    Others(Arc<dyn Node>),
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

    pub(super) fn waits(&self, node: &Arc<dyn Node>) {
        *self.0.lock() = Met::Others(Arc::clone(node));
    }

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
                format!("admitted, but not yet confirmed by {replicas} replicas"),
            )),
        }
    }

    pub(super) fn explain(&self, error: Error) -> Error {
        error.because_of(self.why())
    }
}

pub(super) fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator did not answer the request: try again later")
}
