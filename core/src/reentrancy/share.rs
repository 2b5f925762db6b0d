//! One hold of an owner: its share of the node that all holds of a generation hang on.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use super::ledger::{Entered, Generation, Left, Mode};
use super::owner::Owner;
use super::owners::OwnedKey;
use crate::clock::Moment;
use crate::contracts::Patience;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::Release;
use crate::holding::Holding;

/// One hold of an owner. Dropping it is a release in the background.
pub(crate) struct Share {
    coordinator: Coordinator,
    key: OwnedKey,
    generation: Generation,
    mode: Mode,
    holding: Arc<Holding>,
    // How it ended by its owner's hand, once it did.
    ended: OnceLock<Release>,
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
        mut acquire: impl FnMut() -> F,
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
                    let Some(holding) = acquire().await? else { return Ok(None) };
                    (generation, acquiring.done(mode, holding))
                }
                Entered::Deadlock => {
                    let why = "this owner reads, and would wait for itself: it must release first";
                    return Err(Error::new(ErrorKind::Deadlock, why));
                }
                Entered::Join => {
                    tokio::select! {
                        () = changed => continue,
                        () = clock.sleep_until(deadline) => return Err(crate::attempt::late(patience)),
                    }
                }
            };
            let (coordinator, ended) = (coordinator.clone(), OnceLock::new());
            return Ok(Some(Self { coordinator, key, generation, mode, holding, ended }));
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.key.0
    }

    /// The node that it shares.
    pub(crate) fn holding(&self) -> &Holding {
        &self.holding
    }

    pub(crate) fn check(&self) -> Result<()> {
        let key = self.key.1.name();
        match self.ended.get() {
            None => self.holding.tenure.check(),
            Some(Release::AlreadyLost(reason)) => Err(Error::lost(*reason).on(key)),
            Some(Release::Released) => Err(Error::new(ErrorKind::NotHeld, "this hold was released").on(key)),
        }
    }

    /// Gives this hold back; the owner's last frees the node, its last that writes turns it into a reader's. Waits
    /// until the server has confirmed that; where nothing changes for the server, nothing is sent.
    pub(crate) async fn release(&self) -> Result<Release> {
        let left = self.leave();
        match (self.ended.get(), left) {
            (Some(Release::AlreadyLost(reason)), left) => {
                // The server's side is given back all the same, but nobody waits for it.
                Self::give_back(left);
                Ok(Release::AlreadyLost(*reason))
            }
            (_, Left::Last(node)) => node.release().await,
            (_, Left::Downgrade(node)) => node.downgrade().await.map(|()| Release::Released),
            (_, Left::Remaining | Left::Stale) => Ok(Release::Released),
        }
    }

    /// A hold that writes reads from now on. Where it was the owner's last that writes, the node is downgraded.
    pub(crate) async fn downgrade(mut self) -> Result<Self> {
        self.check()?;
        let turned = self.coordinator.owners().convert(&self.key, self.generation);
        self.mode = Mode::Shared;
        if let Left::Downgrade(node) = turned {
            node.downgrade().await?;
        }
        // A stale generation is a lost one.
        self.check()?;
        Ok(self)
    }

    /// Ends it: the first call counts.
    fn leave(&self) -> Left<Arc<Holding>> {
        let lost = self.holding.tenure.lost();
        match self.ended.set(lost.map_or(Release::Released, Release::AlreadyLost)) {
            Ok(()) => self.coordinator.owners().leave(&self.key, self.generation, self.mode),
            Err(_) => Left::Stale,
        }
    }

    fn give_back(left: Left<Arc<Holding>>) {
        match left {
            Left::Last(node) => node.let_go(),
            Left::Downgrade(node) => node.downgrade_later(),
            Left::Remaining | Left::Stale => {}
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        Self::give_back(self.leave());
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
