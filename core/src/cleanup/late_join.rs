//! The join of a dropped try, whose answer may still arrive.
//!
//! *Why the clean-up awaits it.* A quorum lock drops the tries of members that have not answered when a majority
//! is held, and their answers arrive moments later. A known node leaves by its name. A join without an answer must
//! be abandoned, which leaves a tombstone on the server. On Redis the tombstone keeps the queue out of its short
//! form for minutes.
//!
//! *Why only a few.* A join that is not sent yet may wait for a semaphore that bounds the requests of its client.
//! While it is not polled, it blocks all later requests. So a join is kept only if its task starts at once; other
//! joins are dropped and abandoned.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::clock::{Clock, Moment};
use crate::contracts::{Join, Joined, Node};
use crate::decide::life::Residue;
use crate::error::Result;

/// The join of a dropped try: awaited for a short time, then cleaned up according to its answer.
#[derive(Clone)]
pub(crate) struct LateJoin {
    pub(super) join: Join,
    pub(super) obsolete_at: Moment,
    // What remains on the server, when that is known: by its answer, or after a time.
    pub(super) remains: Shared<BoxFuture<'static, Remains>>,
}

/// The remains of a join on the server.
#[derive(Clone)]
pub(super) enum Remains {
    Nothing,
    Node(Arc<dyn Node>),
    Unknown,
}

impl LateJoin {
    /// It is awaited until `until`. After `obsolete_at` the end of the lease has removed its node anyway.
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
