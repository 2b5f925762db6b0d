//! One hold of an owner: its share of the node that all holds of a generation hang on.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use super::ledger::{Entered, Generation, Left, Mode};
use super::owner::Owner;
use super::owners::OwnedKey;
use crate::attempt::OnQueue;
use crate::clock::Moment;
use crate::contracts::Patience;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::Release;
use crate::holding::{Holding, Tenure};

/// One hold of an owner. Dropping it is a release in the background.
pub(crate) struct Share {
    coordinator: Coordinator,
    key: OwnedKey,
    generation: Generation,
    mode: Mode,
    holding: Arc<Holding>,
    tenure: Arc<Tenure>,
    // What its end meant for the node.
    left: OnceLock<Left<Arc<Holding>>>,
}

impl Share {
    /// Enters again where the owner holds, else acquires by `acquire`, or waits for another task of the owner that does.
    /// `None`: `acquire` was refused.
    pub(crate) async fn enter<F>(
        coordinator: &Coordinator,
        key: OwnedKey,
        mode: Mode,
        deadline: Moment,
        patience: Patience,
        mut acquire: impl FnMut(OnQueue) -> F,
    ) -> Result<Option<Self>>
    where
        F: Future<Output = Result<Option<Holding>>>,
    {
        let (owners, clock) = (coordinator.owners(), coordinator.clock());
        loop {
            let changed = owners.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (generation, holding) = match owners.enter(&key, mode) {
                Entered::Again(generation, holding) => (generation, holding),
                Entered::Acquire(generation) => {
                    let acquiring = Acquiring { coordinator, key: &key, generation };
                    let Some(holding) = acquire(acquiring.on_queue()).await? else { return Ok(None) };
                    (generation, acquiring.done(mode, holding))
                }
                Entered::Deadlock => {
                    let why = "this owner reads: it must release first, then write";
                    return Err(Error::new(ErrorKind::Deadlock, why));
                }
                // Where it waits for others, a try would too.
                Entered::Join { queued: true } if patience == Patience::Try => return Ok(None),
                Entered::Join { .. } => {
                    tokio::select! {
                        () = changed => continue,
                        () = clock.sleep_until(deadline) => return Err(crate::attempt::late(patience)),
                    }
                }
            };
            let (coordinator, tenure) = (coordinator.clone(), holding.tenure.beside());
            let left = OnceLock::new();
            return Ok(Some(Self { coordinator, key, generation, mode, holding, tenure, left }));
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.key.0
    }

    /// The node that it shares.
    pub(crate) fn holding(&self) -> &Holding {
        &self.holding
    }

    /// Its own, which ends by its own release.
    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// Gives this hold back; the owner's last frees the node, its last that writes turns it into a reader's. Waits
    /// until the server has confirmed that, in a later call too; where nothing changes for the server, nothing is sent.
    pub(crate) async fn release(&self) -> Result<Release> {
        let (first, left) = self.leave();
        if let Some(lost @ Release::AlreadyLost(_)) = self.tenure.ended() {
            // The server's side is given back all the same, but nobody waits for it.
            if first {
                Self::give_back(left);
            }
            return Ok(lost);
        }
        match left {
            Left::Last(node) => node.release().await,
            Left::Downgrade(node) => self.turn(node, first).await,
            Left::Remaining | Left::Stale => Ok(Release::Released),
        }
    }

    /// The owner's last that writes is released, and others that read remain.
    async fn turn(&self, node: &Holding, first: bool) -> Result<Release> {
        if node.tenure.node.state().is_kept() {
            // Nothing to wait for: the writer is done with it, and others must not read yet.
            if first {
                node.downgrade_later();
            }
            return Ok(Release::Released);
        }
        match node.downgrade().await {
            Ok(()) => Ok(Release::Released),
            // The last reader has given the node back meanwhile, and with it the turn.
            Err(_) if node.tenure.ended().is_some() => node.release().await,
            // The server says that the node is gone: it was held until now, and there is nothing left to turn.
            Err(error) if error.lost_reason() == Some(LostReason::Revoked) => Ok(Release::Released),
            Err(error) => Err(Error::new(ErrorKind::Unknown, "the release was not confirmed")
                .because(error)
                .in_operation("release")
                .on(self.key.1.name())),
        }
    }

    /// A hold that writes reads from now on. Where it was the owner's last that writes, the node is downgraded.
    pub(crate) async fn downgrade(mut self) -> Result<Self> {
        self.tenure.check()?;
        let turned = self.coordinator.owners().convert(&self.key, self.generation);
        self.mode = Mode::Shared;
        if let Left::Downgrade(node) = turned {
            node.downgrade().await?;
        }
        // A stale generation is a lost one.
        self.tenure.check()?;
        Ok(self)
    }

    /// Ends it: the first call counts. Answers whether this was it, and what it means for the node.
    fn leave(&self) -> (bool, &Left<Arc<Holding>>) {
        let mut first = false;
        let left = self.left.get_or_init(|| {
            first = self.tenure.end();
            self.coordinator.owners().leave(&self.key, self.generation, self.mode)
        });
        (first, left)
    }

    fn give_back(left: &Left<Arc<Holding>>) {
        match left {
            Left::Last(node) => node.let_go(),
            Left::Downgrade(node) => node.downgrade_later(),
            Left::Remaining | Left::Stale => {}
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let (true, left) = self.leave() {
            Self::give_back(left);
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("owner", self.owner())
            .field("mode", &self.mode)
            .field("holding", &self.holding)
            .finish_non_exhaustive()
    }
}

/// An acquisition under way. Dropped before it is done, another task of the owner takes over (RULES D4).
struct Acquiring<'a> {
    coordinator: &'a Coordinator,
    key: &'a OwnedKey,
    generation: Generation,
}

impl Acquiring<'_> {
    /// Tells the owner's other tasks that it waits behind others.
    fn on_queue(&self) -> OnQueue {
        let (coordinator, key, generation) = (self.coordinator.clone(), self.key.clone(), self.generation);
        OnQueue::new(move || coordinator.owners().queued(&key, generation))
    }

    fn done(self, mode: Mode, holding: Holding) -> Arc<Holding> {
        let holding = Arc::new(holding);
        self.coordinator.owners().acquired(self.key, self.generation, mode, Arc::clone(&holding));
        holding
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        // Does nothing once it is done: the entry is no acquisition any more.
        self.coordinator.owners().gave_up(self.key, self.generation);
    }
}
