//! Re-checks: a message asks for a renewal of a node before the next round, because it was revoked, or does
//! not fit a new limit.
//!
//! Only the renewal decides, so a late or forged message costs one request and changes nothing. A waiter
//! whose timer ends (QUEUE-LOOK-AT-EXPIRY) is renewed here too.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use futures_util::stream::{FuturesUnordered, StreamExt};
use latchwork_core::Result;
use latchwork_core::backend::NodeId;

use super::attempt::Attempt;
use crate::client::Client;
use crate::driver::Place;
use crate::layout::QueueKeys;
use crate::renewal;

pub(crate) async fn run(client: Weak<Client>) {
    let Some((inbox, closing)) =
        client.upgrade().map(|client| (Arc::clone(&client.inbox), client.closing.clone()))
    else {
        return;
    };
    closing
        .run_until_cancelled(async {
            // One at a time for each server, so that a silent server delays no other.
            let mut due: HashMap<Place, HashMap<NodeId, Arc<Attempt>>> = HashMap::new();
            let (mut asked, mut asking) = (HashSet::new(), FuturesUnordered::new());
            loop {
                tokio::select! {
                    attempts = inbox.take_rechecks() => {
                        let Some(client) = client.upgrade() else { return };
                        for attempt in attempts {
                            let place = client.driver.place(attempt.queue.tag());
                            due.entry(place).or_default().insert(attempt.id, attempt);
                        }
                    }
                    Some(place) = asking.next() => drop(asked.remove(&place)),
                }
                let Some(client) = client.upgrade() else { return };
                let next: Vec<_> = due.extract_if(|place, _| !asked.contains(place)).collect();
                for (place, attempts) in next {
                    asked.insert(place.clone());
                    let client = Arc::clone(&client);
                    asking.push(async move {
                        if let Err(error) = recheck(&client, attempts.into_values()).await {
                            tracing::debug!(%error, "the re-check of some nodes failed; the next renewal repeats it");
                        }
                        place
                    });
                }
            }
        })
        .await;
}

async fn recheck(client: &Arc<Client>, due: impl Iterator<Item = Arc<Attempt>>) -> Result<()> {
    let mut queues: HashMap<QueueKeys, Vec<Arc<Attempt>>> = HashMap::new();
    for attempt in due {
        if !attempt.is_leaving() && attempt.state().is_some_and(|state| state.lost().is_none()) {
            queues.entry(attempt.queue.clone()).or_default().push(attempt);
        }
    }
    // The next round of renewals reports a refused queue.
    renewal::renew(client, queues, |_, _, _| {}).await.map(drop)
}
