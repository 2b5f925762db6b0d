//! The join of a dropped try, whose answer may still arrive.
//!
//! A quorum lock drops the tries that have not answered when it has a majority. Without the answer, the join
//! would leave a tombstone, which keeps a Redis queue out of its short form for minutes.
//!
//! A join that is not polled blocks later requests of its client if it waits for the client's semaphore. So a
//! join is kept only if its task starts at once.

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
