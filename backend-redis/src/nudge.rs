//! Nudges: messages that say nothing but to look again at a node, now and not at the next round. It was revoked, or
//! its weight does not fit a new limit. Its renewal alone decides, so that a late or forged message costs one and no more. A
//! waiter for whom it is time to look again by itself (RULES A13) nudges itself: many at one time cost one request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use latchwork_core::Result;

use crate::client::Client;
use crate::inbox::Slot;
use crate::layout::Queue;

/// The task: renews what is nudged. Ends with the client.
pub(crate) async fn heed(client: Weak<Client>) {
    let Some((inbox, mut closing)) =
        client.upgrade().map(|client| (Arc::clone(&client.inbox), client.closing()))
    else {
        return;
    };
    loop {
        let slots = tokio::select! {
            slots = inbox.to_look() => slots,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let Some(client) = client.upgrade() else { return };
        tokio::select! {
            looked = client.look_again(slots) => {
                if let Err(error) = looked {
                    tracing::debug!(%error, "could not look again; the next renewal does");
                }
            }
            _ = closing.wait_for(|closing| *closing) => return,
        }
    }
}

impl Client {
    /// Holders and waiters alike.
    async fn look_again(self: &Arc<Self>, slots: Vec<Arc<Slot>>) -> Result<()> {
        let mut queues: HashMap<Queue, Vec<Arc<Slot>>> = HashMap::new();
        for slot in slots {
            if !slot.has_left() && slot.state().is_some_and(|state| state.lost().is_none()) {
                queues.entry(slot.queue.clone()).or_default().push(slot);
            }
        }
        // A queue that was refused says so to its own nodes.
        self.renew_each(queues, |_, _| {}).await.map(|_| ())
    }
}
