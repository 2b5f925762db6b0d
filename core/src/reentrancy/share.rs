//! One hold of an owner: its share of the node that all holds of a generation hang on.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use super::acquisition::{Bounds, Waited, Waiting, give_back};
use super::ledger::{Entered, Generation, Left, Mode};
use super::owner::Owner;
use super::owners::OwnedKey;
use crate::attempt::OnQueue;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, Result};
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
    /// Enters again where the owner holds, else acquires by `acquire` in the background, or waits for what another task of the
    /// owner has begun. `None`: `acquire` was refused.
    pub(crate) async fn enter<F>(
        coordinator: &Coordinator,
        key: OwnedKey,
        mode: Mode,
        bounds: Bounds,
        acquire: impl Fn(OnQueue) -> F,
    ) -> Result<Option<Self>>
    where
        F: Future<Output = Result<Option<Holding>>> + Send + 'static,
    {
        let owners = coordinator.owners();
        loop {
            let waiting = match owners.enter(&key, mode) {
                Entered::Again(generation, holding) => {
                    return Ok(Some(Self::new(coordinator, key, generation, mode, holding)));
                }
                Entered::Deadlock => {
                    let why = "this owner reads: it must release first, then write";
                    return Err(Error::new(ErrorKind::Deadlock, why));
                }
                Entered::Acquire(generation) => Waiting::begin(coordinator, &key, generation, mode, &acquire),
                Entered::Join(generation) => Waiting::join(coordinator, &key, generation, mode),
                Entered::Later(generation) => Waiting::later(coordinator, &key, generation),
            };
            match waiting.outcome(bounds).await? {
                Waited::Held(generation, holding) => {
                    return Ok(Some(Self::new(coordinator, key, generation, mode, holding)));
                }
                Waited::Refused => return Ok(None),
                Waited::Over => {}
            }
        }
    }

    fn new(
        coordinator: &Coordinator,
        key: OwnedKey,
        generation: Generation,
        mode: Mode,
        holding: Arc<Holding>,
    ) -> Self {
        let (coordinator, tenure, left) = (coordinator.clone(), holding.beside(), OnceLock::new());
        Self { coordinator, key, generation, mode, holding, tenure, left }
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
        if let Some(lost @ Release::AlreadyLost(_)) = self.tenure.by_its_owner() {
            // The server's side is given back all the same, but nobody waits for it.
            match left {
                Left::Last(node) if first => node.give_back_lost(),
                left if first => give_back(left),
                _ => {}
            }
            return Ok(lost);
        }
        match left {
            Left::Last(node) => node.release().await,
            Left::Downgrade(node) => self.turn(node, first).await,
            Left::Remaining | Left::Unwanted | Left::Stale => Ok(Release::Released),
        }
    }

    /// The owner's last that writes is released, and others that read remain.
    async fn turn(&self, node: &Holding, first: bool) -> Result<Release> {
        if node.node.state().is_kept() {
            // Nothing to wait for: the writer is done with it, and others must not read yet.
            if first {
                node.downgrade_later();
            }
            return Ok(Release::Released);
        }
        match node.downgrade().await {
            Ok(()) => Ok(Release::Released),
            // The last reader has given the node back meanwhile, and with it the turn.
            Err(_) if node.tenure.by_its_owner().is_some() => node.release().await,
            Err(error) => match error.lost_reason() {
                // The server's word: there is nothing left to turn.
                Some(reason) => Ok(Release::AlreadyLost(reason)),
                None => Err(Error::new(ErrorKind::Unknown, "the release was not confirmed")
                    .because(error)
                    .in_operation("release")
                    .on(self.key.1.name())),
            },
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
}

impl Drop for Share {
    fn drop(&mut self) {
        if let (true, left) = self.leave() {
            give_back(left);
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
