use std::sync::Arc;

use latchwork_core::backend::{Backoff, Pauses, or_pending};
use tokio_util::sync::CancellationToken;

use super::context::NodeContext;
use crate::driver::{Driver, EventKind, Op, Txn};
use crate::error::Failure;
use crate::watch::{OwnNode, SHORT_HOLD, Watches};

pub(super) enum MarkWhen {
    Now,
    /// When the limit at this key changes after this revision: from then on, sums do not show which nodes are
    /// admitted.
    LimitChanges(String, u64),
}

/// The task must not keep the client's tasks alive, which would renew the lease of a dropped hold.
pub(super) fn mark_in_background(context: &NodeContext, own: &Arc<OwnNode>, mark: Op, when: MarkWhen) {
    let (driver, watches, own) = (context.driver.clone(), Arc::clone(&context.watches), Arc::clone(own));
    context.leases.runtime.spawn(async move {
        let due = async {
            if let MarkWhen::LimitChanges(limit, after) = when {
                // A short hold costs no watch. A watch that starts late misses nothing.
                tokio::time::sleep(SHORT_HOLD).await;
                watches.key(limit.into_bytes(), EventKind::Puts, after).notified().await;
            }
        };
        tokio::select! {
            () = or_pending(own.left.as_ref().map(CancellationToken::cancelled)) => return,
            _ = own.state.until_lost() => return,
            () = due => {}
        }
        write(&driver, &watches, &own, mark).await;
    });
}

/// Repeats the mark until the server confirms it, because the next node relies on it (CHAIN-MARK-GUARDED).
async fn write(driver: &Driver, watches: &Watches, own: &OwnNode, mark: Op) {
    let mut backoff = Backoff::new(Pauses::OUTAGE);
    while watches.is_own(own) && own.state.lost().is_none() {
        match driver.txn(Txn::when(own.exists(), vec![mark.clone()])).await {
            Ok(_) | Err(Failure::LeaseGone) => return,
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error)) => {
                tracing::debug!(%error, "could not mark an admission; the client tries again");
                backoff.wait(own.state.lease().clock()).await;
            }
        }
    }
}
