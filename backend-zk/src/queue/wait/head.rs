//! The watches of the head waiter of permits: any node ahead may leave first
//! (CHAIN-PERMITS-HEAD-AND-MARKS).

use futures_util::future::{join_all, select_all};

use crate::driver::Armed;
use crate::error::{Answer, if_there};
use crate::layout::Contenders;
use crate::queue::fast_path::Watcher;
use crate::queue::limit::WrittenLimit;
use crate::queue::zk_node::ZkNode;

/// Up to this number of nodes ahead are watched one by one. Beyond it, the directory is watched,
/// which also reports joins.
const WATCHED_ONE_BY_ONE: usize = 4;

/// The result of arming the watches.
pub(super) enum HeadWatch {
    /// The same nodes are ahead. Any watch ends the wait.
    Armed(Armed),
    /// The queue has advanced.
    Moved(Contenders),
    /// Something differs from the listing: list again.
    Changed,
}

/// The paths to watch for this number of nodes ahead.
pub(super) fn paths_ahead(node: &ZkNode, contenders: &Contenders, ahead: usize) -> Vec<String> {
    if ahead > WATCHED_ONE_BY_ONE {
        return vec![node.queue().to_owned()];
    }
    contenders.0[..ahead].iter().map(|contender| node.beside(&contender.name)).collect()
}

/// Arms the watches on these paths and on the stored limit (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS), in
/// one trip.
pub(super) async fn arm(
    node: &ZkNode,
    watcher: &Watcher<'_>,
    paths: &[String],
    ahead: usize,
    limit: WrittenLimit,
) -> Answer<HeadWatch> {
    let arm_limit = async {
        let Some(path) = &node.limit else { return Ok(None) };
        // If another client has removed the limit, the re-check finds a new one.
        if_there(watcher.watch(path).await)
    };
    let mut watches = Vec::new();
    let mut now = None;
    let stored = if ahead <= WATCHED_ONE_BY_ONE {
        let (stored, armed) =
            tokio::join!(biased; arm_limit, join_all(paths.iter().map(|path| watcher.watch(path))));
        for armed in armed {
            watches.push(armed?.2);
        }
        stored?
    } else {
        let (stored, listed) = tokio::join!(biased; arm_limit, watcher.children_watched(node.queue()));
        let (children, watch) = listed?;
        now = Some(node.contenders(children));
        watches.push(watch);
        stored?
    };
    if let Some((data, stat, watch)) = stored {
        if WrittenLimit::read(&data, stat.mzxid).permits != limit.permits {
            return Ok(HeadWatch::Changed);
        }
        watches.push(watch);
    }
    // Joins after the node do not matter, only leaves ahead of it.
    if let Some(now) = now.filter(|now| now.position(node.name()) != Some(ahead)) {
        // The listing that decides must be on the own session (CHAIN-OWN-NODE-AND-DEADLINE).
        return Ok(if watcher.is_own() { HeadWatch::Moved(now) } else { HeadWatch::Changed });
    }
    let any = select_all(watches.into_iter().map(|watch| watch.boxed()));
    Ok(HeadWatch::Armed(Box::pin(async move { any.await.0 })))
}
