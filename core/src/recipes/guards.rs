//! The guards of a read/write lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::queue_handle::Acquired;
use crate::clock::Moment;
use crate::error::Result;
use crate::held_node::HeldNode;
use crate::hold::{Fenced, Hold, Release, Tenure, guard};
use crate::reentrancy::Share;
use crate::token::Token;

/// What a guard has: a node of its own, or a share of its owner's.
pub(super) struct Held {
    by: By,
    waited: Duration,
}

enum By {
    Itself(HeldNode),
    Owner(Share),
}

impl Held {
    pub(super) fn alone(acquired: Acquired) -> Self {
        Self { by: By::Itself(acquired.held), waited: acquired.waited }
    }

    pub(super) fn shared(share: Share, waited: Duration) -> Self {
        Self { by: By::Owner(share), waited }
    }

    pub(super) fn token(&self) -> Token {
        match &self.by {
            By::Itself(held) => held.token(),
            By::Owner(share) => share.token(),
        }
    }

    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        match &self.by {
            By::Itself(held) => held.tenure(),
            By::Owner(share) => share.tenure(),
        }
    }

    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// Bounds the hold: it ends at `end` at the latest, and is given back `at_least` from now on at
    /// the soonest. An owner's hold that was entered again keeps its own bounds.
    pub(super) fn bind(&self, end: Option<Moment>, at_least: Option<Duration>) {
        match &self.by {
            By::Itself(held) => held.bind(end, at_least),
            By::Owner(share) if share.is_alone() => share.bind(end, at_least),
            By::Owner(_) => {}
        }
    }

    pub(super) async fn release(&self) -> Result<Release> {
        match &self.by {
            By::Itself(held) => held.release().await,
            By::Owner(share) => share.release().await,
        }
    }

    /// Gives back a hold that was lost, without waiting.
    pub(super) fn give_back_lost(&self) {
        if let By::Itself(held) = &self.by {
            held.give_back_lost();
        }
    }

    async fn downgrade(self) -> Result<Self> {
        let by = match self.by {
            By::Itself(held) => {
                held.downgrade().await?;
                // The fixed end may have come meanwhile.
                held.tenure.check()?;
                By::Itself(held)
            }
            By::Owner(share) => By::Owner(share.downgrade().await?),
        };
        Ok(Self { by, waited: self.waited })
    }
}

/// A read hold, beside other readers. Released by [`release`](Hold::release), or in the background
/// when it is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub struct ReadGuard(pub(super) Held);

/// A write hold, alone. Released by [`release`](Hold::release), or in the background when it is
/// dropped.
#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub struct WriteGuard(pub(super) Held);

impl ReadGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// The number that identifies this hold on the server. It is no fence: readers hold together.
    /// After a downgrade it is the writer's token.
    pub fn token(&self) -> Token {
        self.0.token()
    }
}

impl WriteGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// Turns the write hold into a read hold, without letting a writer in between. It keeps its
    /// place in the queue and its token, and the readers up to the next writer behind it are
    /// admitted. If the owner has other [`WriteGuard`]s of this lock, the owner goes on writing
    /// until the last of them is released or downgraded.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release; `Unknown` when the server has not
    /// confirmed it by the hold's deadline; `Forbidden` or `Misconfigured` when the server refuses
    /// it. After an error the hold is given back; if its owner reads on, the downgrade is retried
    /// in the background.
    ///
    /// # Cancel safety
    /// A dropped downgrade gives the hold back, in the background.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let key = self.0.tenure().queue.clone();
        let downgraded = self.0.downgrade().await;
        downgraded.map(ReadGuard).map_err(|error| error.in_operation("downgrade").on(key.name()))
    }
}

guard!(ReadGuard by 0);
guard!(WriteGuard by 0, fenced);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Itself(held) => held.fmt(f),
            By::Owner(share) => share.fmt(f),
        }
    }
}
