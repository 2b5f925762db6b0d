//! A watch of a queue over both sides.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::participant::Participant;
use crate::address::Address;
use crate::contracts::ChangeWatch;
use crate::decide::moving::Side;
use crate::error::{Error, Result};

/// Watches the sides that a [listing](super::listing) shows. Reports a newly watched side, whose watch
/// answers at once, and a change of the tokens' side.
pub(super) struct MovingWatch {
    participant: Arc<Participant>,
    queue: Address,
    changes: watch::Receiver<u64>,
    tokens: Option<Side>,
    old: Option<Box<dyn ChangeWatch>>,
    new: Option<Box<dyn ChangeWatch>>,
}

impl MovingWatch {
    pub(super) fn new(participant: &Arc<Participant>, queue: &Address) -> Self {
        let (participant, changes) = (Arc::clone(participant), participant.changes());
        Self { participant, queue: queue.clone(), changes, tokens: None, old: None, new: None }
    }

    /// Watches the sides that the phase spans. Returns whether the tokens have changed sides.
    fn watch(&mut self) -> bool {
        let phase = self.participant.phase();
        let sides = phase.spans();
        for (side, watched) in [(Side::Old, &mut self.old), (Side::New, &mut self.new)] {
            let of = self.participant.side(side);
            match sides.has(side) {
                false => *watched = None,
                true if watched.is_none() => {
                    *watched = Some(of.client.backend.watch_queue(&of.address(&self.queue)));
                }
                true => {}
            }
        }
        self.tokens.replace(phase.token()).is_some_and(|before| before != phase.token())
    }
}

async fn changed(watched: &mut Option<Box<dyn ChangeWatch>>) -> Result<()> {
    match watched {
        Some(watched) => watched.changed().await,
        None => std::future::pending().await,
    }
}

#[async_trait]
impl ChangeWatch for MovingWatch {
    async fn changed(&mut self) -> Result<()> {
        loop {
            self.changes.borrow_and_update();
            if self.watch() {
                return Ok(());
            }
            tokio::select! {
                biased;
                changed = changed(&mut self.old) => return changed,
                changed = changed(&mut self.new) => return changed,
                changed = self.changes.changed() => changed.map_err(|_| Error::closed())?,
            }
        }
    }
}

impl fmt::Debug for MovingWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovingWatch")
            .field("queue", &self.queue)
            .field("old", &self.old)
            .field("new", &self.new)
            .finish_non_exhaustive()
    }
}
