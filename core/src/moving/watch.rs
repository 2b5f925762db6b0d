//! A watch of a queue on the side that a move has come to.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::participant::Participant;
use crate::address::Address;
use crate::contracts::ChangeWatch;
use crate::decide::moving::Side;
use crate::error::{Error, Result};

/// Watches on the side that gives the tokens. When that changes, it watches the other, which is news.
pub(super) struct MovingWatch {
    participant: Arc<Participant>,
    queue: Address,
    changes: watch::Receiver<u64>,
    watched: Option<(Side, Box<dyn ChangeWatch>)>,
}

impl MovingWatch {
    pub(super) fn new(participant: &Arc<Participant>, queue: &Address) -> Self {
        let (participant, changes) = (Arc::clone(participant), participant.changes());
        Self { participant, queue: queue.clone(), changes, watched: None }
    }
}

#[async_trait]
impl ChangeWatch for MovingWatch {
    async fn changed(&mut self) -> Result<()> {
        loop {
            self.changes.borrow_and_update();
            let side = self.participant.phase().token();
            let watched = match &mut self.watched {
                Some((of, watched)) if *of == side => watched,
                watched => {
                    let of = self.participant.side(side);
                    let anew = of.client.backend.watch_queue(&of.address(&self.queue));
                    &mut watched.insert((side, anew)).1
                }
            };
            tokio::select! {
                biased;
                changed = watched.changed() => return changed,
                changed = self.changes.changed() => changed.map_err(|_| Error::closed())?,
            }
        }
    }
}

impl fmt::Debug for MovingWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovingWatch")
            .field("queue", &self.queue)
            .field("watched", &self.watched)
            .finish_non_exhaustive()
    }
}
