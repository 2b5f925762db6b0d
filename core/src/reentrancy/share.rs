use std::future::Future;
use std::sync::{Arc, OnceLock};

use super::ledger::{Entrant, Generation, Left, Mode};
use super::owners::{OwnedKey, Owners};
use super::waiting::{Bounds, Waited, Waiting, give_back};
use crate::attempt::OnQueue;
use crate::error::{Error, ErrorKind, Result};
use crate::held_node::HeldNode;
use crate::hold::{Ended, Tenure};

/// One guard's share of its owner's node. A drop releases it in the background.
pub(crate) struct Share {
    owners: Arc<Owners>,
    key: OwnedKey,
    generation: Generation,
    mode: Mode,
    pub(crate) held: Arc<HeldNode>,
    pub(crate) tenure: Arc<Tenure>,
    left: OnceLock<Left<Arc<HeldNode>>>,
}

impl Share {
    /// Acquires by `acquire` in the background, unless the owner holds or another of its tasks acquires.
    /// `None`: `acquire` was refused.
    pub(crate) async fn enter<F>(
        owners: &Arc<Owners>,
        key: OwnedKey,
        mode: Mode,
        bounds: Bounds,
        acquire: impl Fn(OnQueue) -> F,
    ) -> Result<Option<Self>>
    where
        F: Future<Output = Result<Option<HeldNode>>> + Send + 'static,
    {
        loop {
            let waiting = match owners.enter(&key, mode) {
                Entrant::Again(generation, held) => {
                    return Ok(Some(Self::new(owners, key, generation, mode, held)));
                }
                Entrant::Deadlock => {
                    let why = "the owner holds a read guard: release this guard, then acquire the write lock";
                    return Err(Error::new(ErrorKind::Deadlock, why));
                }
                Entrant::Acquire(generation) => Waiting::begin(owners, &key, generation, mode, &acquire),
                Entrant::Join(generation) => Waiting::join(owners, &key, generation, mode),
                Entrant::Later(generation) => Waiting::later(owners, &key, generation),
            };
            match waiting.outcome(bounds).await? {
                Waited::Held(generation, held) => {
                    return Ok(Some(Self::new(owners, key, generation, mode, held)));
                }
                Waited::Refused => return Ok(None),
                Waited::Over => {}
            }
        }
    }

    fn new(
        owners: &Arc<Owners>,
        key: OwnedKey,
        generation: Generation,
        mode: Mode,
        held: Arc<HeldNode>,
    ) -> Self {
        let (owners, tenure, left) = (Arc::clone(owners), held.beside(), OnceLock::new());
        Self { owners, key, generation, mode, held, tenure, left }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.owners.count(&self.key) == 1
    }

    /// The owner's last hold frees the node, and its last writing hold downgrades it. Every call waits until
    /// the server has confirmed that.
    pub(crate) async fn release(&self) -> Result<Ended> {
        let (first, left) = self.leave();
        if let Some(lost @ Ended::Lost(_)) = self.tenure.by_its_owner() {
            match left {
                Left::Last(node) if first => node.give_back_lost(),
                left if first => give_back(left),
                _ => {}
            }
            return Ok(lost);
        }
        match left {
            Left::Last(node) => node.release().await,
            Left::Downgrade(node) => self.downgrade_node(node, first).await,
            Left::Remaining | Left::Unwanted | Left::Stale => Ok(Ended::Released),
        }
    }

    /// For an owner whose reading holds remain.
    async fn downgrade_node(&self, node: &HeldNode, first: bool) -> Result<Ended> {
        if node.is_kept() {
            // The writer has finished, and other clients must not read yet.
            if first {
                node.downgrade_later();
            }
            return Ok(Ended::Released);
        }
        match node.downgrade().await {
            Ok(()) => Ok(Ended::Released),
            // The last reader gave the node back in between.
            Err(_) if node.tenure.by_its_owner().is_some() => node.release().await,
            Err(error) => match error.lost_reason() {
                Some(reason) => Ok(Ended::Lost(reason)),
                None => Err(Error::new(ErrorKind::OutcomeUnknown, "the server did not confirm the release")
                    .because(error)
                    .in_operation("release")
                    .on(self.key.1.name())),
            },
        }
    }

    pub(crate) async fn downgrade(mut self) -> Result<Self> {
        self.tenure.check()?;
        let left = self.owners.convert(&self.key, self.generation);
        self.mode = Mode::Shared;
        if let Left::Downgrade(node) = left {
            node.downgrade().await?;
        }
        // A stale generation is a lost one.
        self.tenure.check()?;
        Ok(self)
    }

    /// Returns whether this was the first call.
    fn leave(&self) -> (bool, &Left<Arc<HeldNode>>) {
        let mut first = false;
        let left = self.left.get_or_init(|| {
            first = self.tenure.end();
            self.owners.leave(&self.key, self.generation, self.mode)
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
