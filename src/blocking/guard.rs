//! The guard of every recipe.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;

use super::home::Home;
use super::iter::Answers;
use super::loss::Loss;
use crate::contracts::LeaseState;
use crate::{Error, Fenced, Hold, Release, Result, Token};

/// A hold, of the recipe whose async guard `G` is. Released by [`release`](Guard::release), or in the
/// background when it is dropped, which never blocks.
///
/// It is held as an async guard is: the coordinator's thread renews the lease, whatever this thread
/// does. `fn write<G: Fenced>(hold: &Guard<G>)` takes every guard that fences.
///
/// ```
/// use latchwork::{Fenced, Result, blocking};
///
/// fn write<G: Fenced>(hold: &blocking::Guard<G>) -> Result<String> {
///     hold.check()?; // fails once it is lost
///     Ok(format!("UPDATE ledger SET fence = {0} WHERE fence <= {0}", hold.fence()))
/// }
///
/// # fn main() -> Result<()> {
/// # let coordinator = blocking::connect("memory://")?;
/// let hold = coordinator.mutex("ledger")?.acquire()?;
/// println!("{}", write(&hold)?);
/// # coordinator.close() }
/// ```
#[must_use = "a guard that is dropped at once releases at once"]
pub struct Guard<G: Hold> {
    // Dropped first: the runtime then gives it back.
    pub(super) hold: G,
    pub(super) home: Home,
}

impl<G: Hold> Guard<G> {
    pub(super) fn new(hold: G, home: &Home) -> Self {
        Self { hold, home: home.clone() }
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        Hold::key(&self.hold)
    }

    /// Whether it is held, by the clock at this call.
    pub fn is_held(&self) -> bool {
        Hold::is_held(&self.hold)
    }

    /// Fails once it is no longer held. As [`Hold::check`].
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    pub fn check(&self) -> Result<()> {
        Hold::check(&self.hold)
    }

    /// The state by the clock at this call. As [`Hold::state`].
    pub fn state(&self) -> LeaseState {
        Hold::state(&self.hold)
    }

    /// How much time is left. As [`Hold::remaining`].
    pub fn remaining(&self) -> Duration {
        Hold::remaining(&self.hold)
    }

    /// The states, from now until it is lost or released. As [`Hold::states`].
    pub fn states(&self) -> Answers<LeaseState> {
        Answers::of(Hold::states(&self.hold).map(Ok), &self.home)
    }

    /// Says when the hold ends. As [`Hold::lost`].
    pub fn lost(&self) -> Loss {
        Loss::of(Hold::lost(&self.hold), &self.home)
    }

    /// Runs `work` while it is held. Nothing stops the work at a loss: where it takes long, it must
    /// look at [`check`](Self::check). As [`Hold::run`] otherwise: the hold is not released.
    ///
    /// # Errors
    /// `Lost`, with the key and the reason: the work is not run on a hold that has ended, and its
    /// answer is dropped if the hold ended meanwhile.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.still_held()?;
        let done = work();
        self.still_held()?;
        Ok(done)
    }

    fn still_held(&self) -> Result<()> {
        // Of several keys it names the one that was lost.
        let lost = Hold::lost(&self.hold);
        lost.reason().map_or(Ok(()), |reason| Err(Error::lost(reason).in_operation("run").on(lost.key())))
    }

    /// Gives the hold back, and waits until the server has confirmed it. As [`Hold::release`].
    ///
    /// # Errors
    /// `Unknown` when it was not confirmed, or when it is not known what removed it; `InAsyncCode`:
    /// it is still held.
    pub fn release(&self) -> Result<Release> {
        self.home.run(Hold::release(&self.hold))
    }

    /// Runs `work` and releases, as `with_lock` does.
    pub(super) fn under<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T> {
        let done = self.run(|| work(&self))?;
        match self.release()? {
            Release::Released => Ok(done),
            Release::AlreadyLost(reason) => Err(Error::lost(reason).in_operation("release").on(self.key())),
        }
    }
}

impl<G: Fenced> Guard<G> {
    /// The fencing token, for generic code. Each guard that fences has it as its `token` too.
    pub fn fence(&self) -> Token {
        Fenced::token(&self.hold)
    }
}

/// The token of a guard that fences.
macro_rules! fences {
    () => {
        /// The fencing token, strictly above that of every holder before. As
        /// [`Fenced::token`](crate::Fenced::token).
        pub fn token(&self) -> crate::Token {
            self.fence()
        }
    };
}
pub(super) use fences;

impl<G: Hold> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hold.fmt(f)
    }
}
