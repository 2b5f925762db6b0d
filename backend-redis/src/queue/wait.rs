use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::NodeState;
use latchwork_core::backend::decide::{recheck, renewal_period};
use latchwork_core::{Claim, Error, Moment, Result, Token};

use crate::client::Client;
use crate::watch::Attempt;

/// More nodes may expire than one script drops.
const SOONEST: Duration = Duration::from_millis(5);

/// The node ahead expires after `ahead`.
pub(crate) fn next_recheck(client: &Client, ahead: Duration) -> Moment {
    let now = client.clock.now();
    // For nodes that expire before the next round of renewals, which starts within a period.
    recheck(now + 2 * renewal_period(client.ttl), now + ahead.max(SOONEST))
}

/// Cancel-safe: the node continues to wait.
pub(super) async fn admitted(
    client: &Client,
    attempt: &Arc<Attempt>,
    state: &NodeState,
    claim: Claim,
) -> Result<()> {
    let clock = &client.clock;
    loop {
        let changed = attempt.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        // First: the admission of an expired node does not count (QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT,
        // LEASE-LOST-IS-FINAL).
        let seen = state.state();
        if let Some(reason) = state.lost() {
            return Err(Error::lost(reason));
        }
        if attempt.admitted_at().is_some() {
            return Token::new(0, state.sequence()).map(|_| ());
        }
        if let Some(stored) = attempt.unfit() {
            return Err(claim.outweighs(&stored));
        }
        tokio::select! {
            () = changed => {}
            _ = state.changed(seen) => {}
            () = clock.sleep_until(attempt.next_recheck()) => {
                attempt.recheck_at(clock.now() + renewal_period(client.ttl));
                // All readers after one writer are due together, and share a request.
                client.inbox.request_recheck(attempt);
            }
        }
    }
}
