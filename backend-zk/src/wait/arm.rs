//! Arming what a wait watches.

use futures_util::future::{join_all, select_all};

use super::Armed;
use crate::error::Fault;
use crate::limit::Limit;
use crate::lookouts::Place;
use crate::names::Queue;
use crate::node::ZkNode;

/// Up to so many nodes ahead the head waiter of permits watches each of them; beyond, the directory, which wakes
/// it for joins too.
const WATCHED_ONE_BY_ONE: usize = 4;

/// What arming the head's watches showed.
pub(super) enum Ahead {
    /// The same nodes are ahead; any of the watches ends the wait.
    Same(Armed),
    /// The queue moved on.
    Moved(Queue),
    /// Something is not what the listing said: list again.
    Changed,
}

impl ZkNode {
    /// Arms the watch on the own node, unless it is.
    pub(super) async fn arm_own(&self, own: &mut Option<Armed>) -> std::result::Result<(), Fault> {
        if own.is_none() {
            match self.session.driver.watch(&self.path).await {
                Ok((_, _, watch)) => *own = Some(Box::pin(watch.event())),
                Err(Fault::NoNode) => self.removed_while_waiting(),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Arms the watches on the own node and for the release of the one at this path, in one trip, where there is room: without, it
    /// lists when that one has left.
    pub(super) async fn arm_to_be_told(
        &self,
        own: &mut Option<Armed>,
        path: &str,
    ) -> std::result::Result<Option<Armed>, Fault> {
        let driver = &self.session.driver;
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let Some(told) = self.released_path(name) else { return Ok(None) };
        let rooms = [own.is_none().then_some(&*self.path), Some(told.as_str())];
        let rooms: Option<Vec<_>> = rooms.into_iter().flatten().map(|path| driver.room_for(path)).collect();
        if rooms.is_none() {
            return Ok(None);
        }
        let (own_armed, told) = tokio::join!(biased; self.arm_own(own), driver.watch_for(&told));
        own_armed?;
        Ok(told?.map(|watch| Box::pin(watch.event()) as Armed))
    }

    /// What a head waiter of permits watches: each node ahead, or the directory of many.
    pub(super) fn paths_ahead(&self, queue: &Queue, ahead: usize) -> Vec<String> {
        if ahead > WATCHED_ONE_BY_ONE {
            return vec![self.queue().to_owned()];
        }
        queue.0[..ahead].iter().map(|place| self.beside(&place.name)).collect()
    }

    /// The head waiter of permits waits for ANY node ahead to leave, and for the limit to change (RULES B6, B6b).
    pub(super) async fn arm_head(
        &self,
        place: &Place<'_>,
        paths: &[String],
        ahead: usize,
        limit: Limit,
    ) -> std::result::Result<Ahead, Fault> {
        let arm_limit = async {
            match &self.limit {
                Some(path) => match place.watch(path).await {
                    Ok((data, stat, watch)) => Ok(Some((Limit::read(&data, &stat), watch))),
                    // Removed by somebody: nothing to watch; the look of the re-check tells of it.
                    Err(Fault::NoNode) => Ok(None),
                    Err(fault) => Err(fault),
                },
                None => Ok(None),
            }
        };
        let mut watches = Vec::new();
        let mut now = None;
        let stored = if ahead <= WATCHED_ONE_BY_ONE {
            let (stored, armed) =
                tokio::join!(biased; arm_limit, join_all(paths.iter().map(|path| place.watch(path))));
            for armed in armed {
                watches.push(armed?.2);
            }
            stored?
        } else {
            let (stored, listed) = tokio::join!(biased; arm_limit, place.children_watched(self.queue()));
            let (children, watch) = listed?;
            now = Some(Queue::read(self.kind, children));
            watches.push(watch);
            stored?
        };
        if let Some((stored, watch)) = stored {
            if stored.permits != limit.permits {
                return Ok(Ahead::Changed);
            }
            watches.push(watch);
        }
        // Joins behind us are none of our business; who left ahead of us is.
        if let Some(now) = now.filter(|now| now.position(self.name()) != Some(ahead)) {
            // What decides is listed by our own session (RULES B1).
            return Ok(if place.is_here() { Ahead::Moved(now) } else { Ahead::Changed });
        }
        let events = watches.into_iter().map(|watch| Box::pin(watch.event()) as Armed);
        let any = select_all(events);
        Ok(Ahead::Same(Box::pin(async move { any.await.0 })))
    }
}
