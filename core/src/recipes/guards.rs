//! The guards of a read/write lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::queue_handle::Acquired;
use crate::error::Result;
use crate::hold::{Fenced, Hold, Release, own_methods};
use crate::holding::{Holding, Tenure};
use crate::reentrancy::Share;
use crate::token::Token;

/// What a guard has: a node of its own, or a share of its owner's.
pub(super) struct Held {
    by: By,
    waited: Duration,
}

enum By {
    Itself(Holding),
    Owner(Share),
}

impl Held {
    pub(super) fn alone(acquired: Acquired) -> Self {
        Self { by: By::Itself(acquired.holding), waited: acquired.waited }
    }

    pub(super) fn shared(share: Share, waited: Duration) -> Self {
        Self { by: By::Owner(share), waited }
    }

    fn holding(&self) -> &Holding {
        match &self.by {
            By::Itself(holding) => holding,
            By::Owner(share) => share.holding(),
        }
    }

    fn tenure(&self) -> &Arc<Tenure> {
        match &self.by {
            By::Itself(holding) => &holding.tenure,
            By::Owner(share) => share.tenure(),
        }
    }

    async fn release(&self) -> Result<Release> {
        match &self.by {
            By::Itself(holding) => holding.release().await,
            By::Owner(share) => share.release().await,
        }
    }

    async fn downgrade(self) -> Result<Self> {
        let by = match self.by {
            By::Itself(holding) => {
                holding.downgrade().await?;
                // Its fixed end may have come meanwhile.
                holding.tenure.check()?;
                By::Itself(holding)
            }
            By::Owner(share) => By::Owner(share.downgrade().await?),
        };
        Ok(Self { by, waited: self.waited })
    }
}

/// Holds for reading, beside other readers. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct ReadGuard(pub(super) Held);

/// Holds for writing, alone. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct WriteGuard(pub(super) Held);

impl ReadGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// The number that identifies this hold on the server. Not a fence: readers hold together. After a downgrade it is
    /// the writer's token.
    pub fn token(&self) -> Token {
        self.0.holding().token()
    }
}

impl WriteGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// Reads from now on, without letting a writer in between: it keeps its place in the queue and its token, and the
    /// readers up to the next writer behind it come in. Where the owner holds other [`WriteGuard`]s of this lock, it goes on
    /// to write until the last of them is released or downgraded.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release; `Unknown` when the server has not confirmed it by the hold's deadline;
    /// `Forbidden` or `Misconfigured` when it refuses. The hold is given back then; where its owner reads on, the downgrade
    /// is tried on in the background.
    ///
    /// # Cancel safety
    /// A dropped downgrade gives the hold back, in the background.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let key = self.0.tenure().queue.clone();
        let turned = self.0.downgrade().await;
        turned.map(ReadGuard).map_err(|error| error.in_operation("downgrade").on(key.name()))
    }
}

own_methods!(ReadGuard);
own_methods!(WriteGuard, fenced);

#[async_trait]
impl Hold for ReadGuard {
    fn tenure(&self) -> &Arc<Tenure> {
        self.0.tenure()
    }

    async fn release(&self) -> Result<Release> {
        self.0.release().await
    }
}

#[async_trait]
impl Hold for WriteGuard {
    fn tenure(&self) -> &Arc<Tenure> {
        self.0.tenure()
    }

    async fn release(&self) -> Result<Release> {
        self.0.release().await
    }
}

impl Fenced for WriteGuard {
    fn token(&self) -> Token {
        self.0.holding().token()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Itself(holding) => holding.fmt(f),
            By::Owner(share) => share.fmt(f),
        }
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.0).finish()
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.0).finish()
    }
}
