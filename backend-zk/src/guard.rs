//! What goes on beside a hold: the own node is watched, and marked for those behind it.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use crate::driver::{Event, Watch};
use crate::error::Fault;
use crate::limit;
use crate::node::{Turn, ZkNode};
use crate::tags::admitted;
use crate::wait::Armed;

/// How long a node is held before it is watched: arming shows what has happened by then.
const ARMED_AFTER: Duration = Duration::from_millis(5);

/// How long permits are held before the stored limit is watched.
const SHORT_HOLD: Duration = Duration::from_millis(100);

/// Watches an admitted node, under whichever name it has, and tells its owner when somebody else removes it. Armed by a
/// request of its own that nobody waits for, and that a hold as short as a few round trips does without; one that the
/// wait has armed is taken over. Marks a holder of permits when `limit` changes.
pub(crate) async fn guard(node: Weak<ZkNode>, mut own: Option<Armed>, limit: Option<u32>) {
    // Boxed where it is large and not always there: this future lives as long as the hold.
    let limit = limit.map(|limit| Box::pin(mark_when_limit_changes(node.clone(), limit)));
    let mut limit = pin!(async {
        if let Some(marked) = limit {
            marked.await;
        }
        std::future::pending::<()>().await;
    });
    if own.is_none() {
        tokio::time::sleep(ARMED_AFTER).await;
        if node.upgrade().is_none_or(|node| node.is_leaving()) {
            return;
        }
    }
    loop {
        let mut armed = match own.take() {
            Some(armed) => armed,
            None => match Box::pin(arm_own(&node)).await {
                Some(armed) => armed,
                None => return,
            },
        };
        let event = tokio::select! {
            biased;
            event = &mut armed => event,
            () = &mut limit => return,
        };
        match event {
            Event::Deleted => {
                let Some(node) = node.upgrade().filter(|node| !node.is_leaving()) else { return };
                if node.turn() == Turn::None {
                    return node.removed();
                }
                // By its own downgrade, or not: the read that arms the next watch tells.
            }
            // Its data were written (a mark; a peer's wish for revocation): watched on.
            Event::Changed => {}
            // The lease tells of that.
            Event::SessionOver => return,
        }
    }
}

/// Arms the watch on an own node; `None` where there is nothing more to watch.
async fn arm_own(node: &Weak<ZkNode>) -> Option<Armed> {
    loop {
        let node = node.upgrade()?;
        match watch_own(&node).await {
            Ok(watch) => return Some(Box::pin(watch.event())),
            Err(Fault::NoNode) => {
                node.removed();
                return None;
            }
            Err(fault) if fault.is_transient() => node.session.driver.recovered().await.ok()?,
            Err(fault) => {
                tracing::debug!(?fault, path = node.path, "an own node cannot be watched");
                return None;
            }
        }
    }
}

/// `NoNode`: it is gone under every name that it may have.
async fn watch_own(node: &ZkNode) -> Result<Watch, Fault> {
    loop {
        let turn = node.turn();
        for path in node.paths(turn) {
            match node.session.driver.watch(&path).await {
                Err(Fault::NoNode) => {}
                answer => return answer.map(|(_, _, watch)| watch),
            }
        }
        // Asked to turn meanwhile, it may have another name by now.
        if node.turn() == turn {
            return Err(Fault::NoNode);
        }
    }
}

/// Marks the own node once the stored limit is not what it was at the admission: those behind cannot tell from the
/// sums who is in then (RULES B6b).
async fn mark_when_limit_changes(node: Weak<ZkNode>, limit: u32) {
    // A short hold costs no watch; one that is armed late sees the change in the read that arms it.
    tokio::time::sleep(SHORT_HOLD).await;
    loop {
        let Some(held) = node.upgrade() else { return };
        let Some(path) = &held.site.limit else { return };
        let watch = match held.session.driver.watch(path).await {
            Ok((data, _, watch)) if limit::parse(&data).is_ok_and(|stored| stored == limit) => watch,
            Ok(_) | Err(Fault::NoNode) => break,
            Err(fault) if fault.is_transient() && held.session.driver.recovered().await.is_ok() => continue,
            Err(_) => return,
        };
        // Not kept alive by its own watch.
        drop(held);
        watch.event().await;
    }
    mark_admitted(node).await;
}

/// Marks the own node, so that the next one knows that it is the head: until it is confirmed (RULES B7).
pub(crate) async fn mark_admitted(node: Weak<ZkNode>) {
    while let Some(node) = node.upgrade() {
        let data = admitted(&node.label);
        match node.session.driver.write(&node.path, &data).await {
            Err(fault) if fault.is_transient() => {
                if node.session.driver.recovered().await.is_err() {
                    return;
                }
            }
            // Written; or gone, which the next one sees as well; or refused for good.
            _ => return,
        }
    }
}
