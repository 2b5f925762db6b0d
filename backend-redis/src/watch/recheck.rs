//! Rechecks: a message says to look at a node again now, before the next round of renewals.
//!
//! The node was revoked, or does not fit a new limit. Only its renewal decides which, so a late or
//! forged message costs one request and changes nothing. A waiter whose own timer runs out
//! (QUEUE-LOOK-AT-EXPIRY) comes here too: many at one time cost one request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use latchwork_core::Result;

use super::attempt::Attempt;
use crate::client::Client;
use crate::layout::QueueKeys;
use crate::renewal;

/// The task that renews what is due. It ends with the client.
pub(crate) async fn run(client: Weak<Client>) {
    let Some((inbox, closing)) =
        client.upgrade().map(|client| (Arc::clone(&client.inbox), client.closing.clone()))
    else {
        return;
    };
    closing
        .run_until_cancelled(async {
            loop {
                let due = inbox.take_rechecks().await;
                let Some(client) = client.upgrade() else { return };
                if let Err(error) = recheck(&client, due).await {
                    tracing::debug!(%error, "a recheck failed; the next renewal repeats it");
                }
            }
        })
        .await;
}

/// Holders and waiters alike.
async fn recheck(client: &Arc<Client>, due: Vec<Arc<Attempt>>) -> Result<()> {
    let mut queues: HashMap<QueueKeys, Vec<Arc<Attempt>>> = HashMap::new();
    for attempt in due {
        if !attempt.is_leaving() && attempt.state().is_some_and(|state| state.lost().is_none()) {
            queues.entry(attempt.queue.clone()).or_default().push(attempt);
        }
    }
    // A refused queue is for the rounds to report, which find its nodes unrenewed.
    renewal::renew(client, queues, |_, _, _| {}).await.map(drop)
}
