use std::sync::{Arc, Weak};

use crate::decide::queue::Answer;
use crate::decide::{Claim, recheck, renewal_period};
use crate::error::{Error, LostReason, Result};
use crate::memory::client::MemoryClient;
use crate::memory::state::moment;
use crate::memory::stored_node::StoredNode;

/// Cancel-safe: the node continues to wait.
pub(super) async fn admitted(
    client: &Weak<MemoryClient>,
    node: &Arc<StoredNode>,
    claim: Claim,
) -> Result<()> {
    let (state, clock) = (&node.state, node.state.lease().clock());
    let mut told = true;
    loop {
        if let Some(reason) = state.lost() {
            return Err(Error::lost(reason));
        }
        let client = client.upgrade().ok_or_else(Error::closed)?;
        let (store, asked) = (client.store.clone(), Arc::clone(node));
        let look = move || store.look(&asked.queue, asked.id, asked.sequence());
        let looked = client.link.request("look", look).await;
        let period = renewal_period(state.lease().ttl());
        let next = match looked {
            Ok(Answer::Admitted { .. }) => {
                if !told {
                    client.link.rechecks().found_admission();
                }
                return Ok(());
            }
            Ok(Answer::Waiting { ahead_expires, .. }) => recheck(clock.now() + period, moment(ahead_expires)),
            Ok(Answer::Conflict { stored }) => return Err(claim.outweighs(&stored.into())),
            Ok(_) => {
                // `state.lost()` above would have reported the end of the lease.
                state.gone(LostReason::Revoked);
                continue;
            }
            Err(error) if error.may_pass() => clock.now() + period / 4,
            Err(error) => return Err(error),
        };
        told = tokio::select! {
            () = node.woken.notified() => true,
            _ = state.until_lost() => true,
            () = clock.sleep_until(next) => false,
        };
    }
}
