//! The join of a dropped try, whose answer may be on its way.
//!
//! *Why it is awaited.* A quorum drops the tries of members that answer after a majority, and their
//! answers come moments later. A node that is known leaves by its name. A join without an answer has
//! to be abandoned: that leaves a tombstone on the server, which on Redis keeps the queue out of its
//! short form for minutes.
//!
//! *Why few are.* A join that is not sent yet may have a place in a line of its client (a semaphore
//! that bounds its requests). It keeps that place from all behind it while nobody polls it. So a join
//! is kept only where its task begins at once; the others are dropped and abandoned.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::clock::{Clock, Moment};
use crate::contracts::{Join, Joined, Node};
use crate::decide::life::Residue;
use crate::error::Result;

/// The join of a dropped try: awaited for a short time, then cleaned up by what it answered.
#[derive(Clone)]
pub(crate) struct LateJoin {
    pub(super) join: Join,
    pub(super) obsolete_at: Moment,
    until: Moment,
    state: Arc<Mutex<LateState>>,
}

enum LateState {
    Asked(BoxFuture<'static, Result<Joined>>),
    Known(Remains),
}

/// What is left of it on the server.
#[derive(Clone)]
pub(super) enum Remains {
    Nothing,
    Node(Arc<dyn Node>),
    Unknown,
}

impl LateJoin {
    /// `until`: for how long it is awaited. After `obsolete_at` the lease has removed its node anyway.
    pub(crate) fn new(
        asked: BoxFuture<'static, Result<Joined>>,
        join: Join,
        until: Moment,
        obsolete_at: Moment,
    ) -> Self {
        Self { join, obsolete_at, until, state: Arc::new(Mutex::new(LateState::Asked(asked))) }
    }

    /// What is left of it: at its first call after its answer, or after a while.
    pub(super) async fn remains(&self, clock: &Clock) -> Remains {
        // One task at a time calls this. If that dies here, nothing is known.
        let before = std::mem::replace(&mut *self.state.lock(), LateState::Known(Remains::Unknown));
        let asked = match before {
            LateState::Asked(asked) => asked,
            LateState::Known(remains) => {
                *self.state.lock() = LateState::Known(remains.clone());
                return remains;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked => Some(answer),
            () = clock.sleep_until(self.until) => None,
        };
        let remains = match answer {
            Some(Ok(Joined::Admitted(node) | Joined::Waiting(node))) => Remains::Node(node),
            Some(answer) if Residue::of(&self.join, &answer) == Residue::Nothing => Remains::Nothing,
            _ => Remains::Unknown,
        };
        *self.state.lock() = LateState::Known(remains.clone());
        remains
    }
}

impl fmt::Debug for LateJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LateJoin({:?}, {})", self.join.queue, self.join.id)
    }
}
