//! The head of a queue of permits watches all nodes ahead (CHAIN-PERMITS-HEAD-AND-MARKS).

use futures_util::future::{join_all, select_all};

use crate::driver::Armed;
use crate::error::{Answer, if_there};
use crate::layout::Contenders;
use crate::queue::fast_path::Watcher;
use crate::queue::limit::WrittenLimit;
use crate::queue::zk_node::ZkNode;

/// Beyond this number of nodes, the directory is watched, which also reports joins.
const WATCHED_ONE_BY_ONE: usize = 4;

pub(super) enum HeadWatch {
    Armed(Armed),
    Moved(Contenders),
    Changed,
}

pub(super) fn paths_ahead(node: &ZkNode, contenders: &Contenders, ahead: usize) -> Vec<String> {
    if ahead > WATCHED_ONE_BY_ONE {
        return vec![node.queue().to_owned()];
    }
    contenders.0[..ahead].iter().map(|contender| node.beside(&contender.name)).collect()
}

pub(super) async fn arm(
    node: &ZkNode,
    watcher: &Watcher<'_>,
    paths: &[String],
    ahead: usize,
    limit: WrittenLimit,
) -> Answer<HeadWatch> {
    let arm_limit = async {
        let Some(path) = &node.limit else { return Ok(None) };
        // The re-check finds a new limit after a removal.
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
    // Joins do not matter.
    if let Some(now) = now.filter(|now| now.position(node.name()) != Some(ahead)) {
        // The listing that decides must be on the own session (CHAIN-OWN-NODE-AND-DEADLINE).
        return Ok(if watcher.is_own() { HeadWatch::Moved(now) } else { HeadWatch::Changed });
    }
    let any = select_all(watches.into_iter().map(|watch| watch.boxed()));
    Ok(HeadWatch::Armed(Box::pin(async move { any.await.0 })))
}
