//! The join of a dropped try, whose answer may still arrive.
//!
//! *Why.* A quorum lock drops the tries of members that have not answered when a majority is held, and their
//! answers arrive moments later. A join without an answer leaves a tombstone, which on Redis keeps the queue
//! out of its short form for minutes.
//!
//! *Why only a few.* A join that waits for the semaphore of its client's requests blocks later requests while
//! it is not polled. So a join is kept only if its task starts at once.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::clock::{Clock, Moment};
use crate::contracts::{Join, Joined, Node};
use crate::decide::life::Residue;
use crate::error::Result;

#[derive(Clone)]
pub(crate) struct LateJoin {
    pub(super) join: Join,
    pub(super) obsolete_at: Moment,
    // Known by the answer, or after a time.
    pub(super) remains: Shared<BoxFuture<'static, Remains>>,
}

#[derive(Clone)]
pub(super) enum Remains {
    Nothing,
    Node(Arc<dyn Node>),
    Unknown,
}

impl LateJoin {
    /// After `obsolete_at` the end of the lease has removed the node anyway.
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
