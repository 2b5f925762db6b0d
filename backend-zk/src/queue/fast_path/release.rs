//! Announced releases (CHAIN-ANNOUNCED-RELEASE): one transaction creates and deletes a node in `released`,
//! and deletes the own node. The next node watches both paths, and only the two events together admit it.
//! `docs/protocol/zookeeper-fast-path.md` has the reasons.

use std::task::{Context, Poll};
use std::time::Duration;

use latchwork_core::{Clock, Moment};

use crate::driver::{Armed, Event};
use crate::error::Answer;
use crate::queue::woken::Woken;
use crate::queue::zk_node::ZkNode;

/// The longest time between the two events of one transaction.
const TOGETHER: Duration = Duration::from_millis(50);

/// Returns whether the node left in this way. It announces only if the next node may wait for more than this
/// node, and not after a loss, when it may not be the first.
pub(crate) async fn announce_release(node: &ZkNode) -> Answer<bool> {
    let announced = node.has_entered() && node.is_contended() && node.state.lost().is_none();
    match node.released_path(node.name()).filter(|_| announced) {
        Some(released) => node.session.driver.announce_and_delete(&released, &node.path).await,
        None => Ok(false),
    }
}

pub(crate) struct Release {
    watch: Option<Armed>,
    announced: Option<Moment>,
}

impl Release {
    pub(crate) fn new(watch: Armed) -> Self {
        Self { watch: Some(watch), announced: None }
    }

    /// `watched`: the watch on the predecessor, polled first. Its event is the second of a release, so the
    /// first has arrived by then.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        watched: Poll<Event>,
        clock: &Clock,
    ) -> Poll<Woken> {
        let announced = match &mut self.watch {
            Some(watch) => watch.as_mut().poll(context),
            None => Poll::Pending,
        };
        if announced.is_ready() {
            self.watch = None;
        }
        match (announced, watched) {
            (Poll::Ready(Event::Created), Poll::Ready(Event::Deleted)) => Poll::Ready(Woken::Released),
            (Poll::Ready(Event::Created), Poll::Pending) => {
                self.announced = Some(clock.now());
                Poll::Pending
            }
            (Poll::Ready(event), Poll::Pending) => Poll::Ready(Woken::by(event)),
            (_, Poll::Ready(Event::Deleted)) if self.was_announced(clock.now()) => {
                Poll::Ready(Woken::Released)
            }
            (_, watched) => watched.map(Woken::by),
        }
    }

    fn was_announced(&self, now: Moment) -> bool {
        self.announced.is_some_and(|at| now.since(at) <= TOGETHER)
    }
}
