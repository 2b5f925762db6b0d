use std::future::Future;
use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use futures_util::future::Either;
use tokio::runtime::Handle;

use super::unwatched::Unwatched;
use crate::driver::{Armed, Event, Watch, WatchBudget};
use crate::error::{Fault, if_there};
use crate::queue::{ZkNode, mark_admitted, verify_admission};

/// A longer hold of permits also watches the stored limit.
const SHORT_HOLD: Duration = Duration::from_millis(100);

pub(crate) struct NewHolder {
    pub(crate) node: Weak<ZkNode>,
    pub(crate) own: Option<Armed>,
    /// A later write of the limit demands a mark.
    pub(crate) limit_written: Option<i64>,
    pub(crate) verify: bool,
}

impl NewHolder {
    fn is_obsolete(&self) -> bool {
        self.own.is_none() && self.node.upgrade().is_none_or(|node| node.is_leaving())
    }
}

/// Marks a holder of permits when the limit changes. `None`: the session has no budget, and the hold is
/// checked from time to time instead. Large and rare parts are boxed, because the future lives as long as the
/// hold.
pub(super) fn watch<'a>(
    holder: NewHolder,
    unwatched: &'a Unwatched,
    runtime: &Handle,
) -> Option<impl Future<Output = ()> + Send + use<'a>> {
    if holder.is_obsolete() {
        return None;
    }
    let NewHolder { node, own, limit_written, verify } = holder;
    let held = node.upgrade()?;
    if verify {
        runtime.spawn(verify_admission(node.clone()));
    }
    let budgets = || {
        let own = held.driver().dispensable_budget(&held.path)?;
        // Each holder counts the limit's path, although the client crate sends it once.
        let limit = match (held.limit.as_deref(), limit_written) {
            (Some(path), Some(written)) => Some((written, held.driver().dispensable_budget(path)?)),
            _ => None,
        };
        Some((own, limit))
    };
    let Some((budget, limit)) = budgets() else {
        unwatched.add(node, limit_written);
        return None;
    };
    // The watch of the wait is counted already.
    let own = own.ok_or(budget);
    let watch = watch_node(node.clone(), own, limit.as_ref().map(|&(written, _)| written), unwatched);
    let Some((written, budget)) = limit else { return Some(Either::Left(watch)) };
    Some(Either::Right(Box::pin(async move {
        let mut watch = pin!(watch);
        tokio::select! {
            biased;
            () = &mut watch => {}
            () = mark_when_limit_changes(node, written, budget) => watch.await,
        }
    })))
}

/// Takes over the watch of the wait, or arms a new one. Without budget, the node is checked from time to
/// time.
#[expect(clippy::manual_async_fn, reason = "an async fn would keep its arguments twice")]
fn watch_node<'a>(
    node: Weak<ZkNode>,
    own: Result<Armed, WatchBudget>,
    limit_written: Option<i64>,
    unwatched: &'a Unwatched,
) -> impl Future<Output = ()> + Send + use<'a> {
    async move {
        let (mut own, mut budget) = own.map_or_else(|budget| (None, Some(budget)), |own| (Some(own), None));
        loop {
            let event = match own.take() {
                Some(armed) => armed.await,
                None => match Box::pin(arm(&node)).await {
                    Some(watch) => {
                        // The watch has its own budget.
                        drop(budget.take());
                        watch.event_unless_silent().await
                    }
                    None => return,
                },
            };
            match event {
                Event::Deleted => {
                    let Some(node) = node.upgrade().filter(|node| !node.is_leaving()) else { return };
                    if !node.may_be_downgraded() {
                        return node.removed();
                    }
                    // The read that arms the next watch detects the own downgrade.
                }
                // A mark, or a request of Curator's `Revoker`.
                Event::Created | Event::Changed => {}
                Event::SessionOver => return,
            }
            // Another watch may have the budget that was freed.
            let Some(held) = node.upgrade() else { return };
            let Some(again) = held.driver().dispensable_budget(&held.path) else {
                return unwatched.add(node, limit_written);
            };
            budget = Some(again);
        }
    }
}

async fn arm(node: &Weak<ZkNode>) -> Option<Watch> {
    loop {
        let node = node.upgrade()?;
        let driver = node.driver();
        match node.at_any_path(|path| async move { if_there(driver.watch(&path).await) }).await {
            Ok(Some((_, _, watch))) => return Some(watch),
            Ok(None) => {
                node.removed();
                return None;
            }
            Err(fault) if fault.is_transient() => driver.recovered().await.ok()?,
            Err(fault) => {
                tracing::debug!(?fault, path = %node.path, "cannot watch the node of a hold");
                return None;
            }
        }
    }
}

/// After such a write the sums do not show which nodes are admitted, even if the old limit was restored
/// (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS).
async fn mark_when_limit_changes(node: Weak<ZkNode>, written: i64, budget: WatchBudget) {
    // A short hold needs no watch. The read that arms it shows an earlier change.
    tokio::time::sleep(SHORT_HOLD).await;
    loop {
        let Some(held) = node.upgrade() else { return };
        let Some(path) = &held.limit else { return };
        let watch = match held.driver().watch(path).await {
            Ok((_, stat, watch)) if stat.mzxid == written => watch,
            Ok(_) | Err(Fault::NoNode) => break,
            Err(fault) if fault.is_transient() && held.driver().recovered().await.is_ok() => continue,
            Err(_) => return,
        };
        // The watch does not keep its node alive.
        drop(held);
        // The watch has its own budget.
        drop(budget);
        match watch.event().await {
            Event::Created | Event::Changed | Event::Deleted => break,
            Event::SessionOver => return,
        }
    }
    Box::pin(mark_admitted(node)).await;
}
