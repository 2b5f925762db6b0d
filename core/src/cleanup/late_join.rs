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

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::clock::{Clock, Moment};
use crate::contracts::{Join, Joined, Node};
use crate::decide::life::Residue;
use crate::error::Result;

/// The join of a dropped try: awaited for a short time, then cleaned up by what it answered.
#[derive(Clone)]
pub(crate) struct LateJoin {
    pub(super) join: Join,
    pub(super) obsolete_at: Moment,
    // What is left of it, once that is known: by its answer, or after a while.
    pub(super) remains: Shared<BoxFuture<'static, Remains>>,
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
        clock: Clock,
        until: Moment,
        obsolete_at: Moment,
    ) -> Self {
        let own = join.clone();
        let remains = async move {
            let answer = tokio::select! {
                biased;
                answer = asked => answer,
                () = clock.sleep_until(until) => return Remains::Unknown,
            };
            match answer {
                Ok(Joined::Admitted(node) | Joined::Waiting(node)) => Remains::Node(node),
                answer if Residue::of(&own, &answer) == Residue::Nothing => Remains::Nothing,
                _ => Remains::Unknown,
            }
        };
        Self { join, obsolete_at, remains: remains.boxed().shared() }
    }
}

impl fmt::Debug for LateJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LateJoin({:?}, {})", self.join.queue, self.join.id)
    }
}
