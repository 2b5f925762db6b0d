//! What all guards and leadership have in common.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;

use crate::contracts::LeaseState;
use crate::error::{LostReason, Result};
use crate::holding::Tenure;
use crate::loss::{Loss, Run, states};
use crate::token::Token;

/// What a release answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it may have been lost before, and another have held it since"]
pub enum Release {
    /// It was held until now, and is given back: free, but where its owner holds on by another guard, or
    /// [`hold_at_least`](crate::recipes::Acquire::hold_at_least) keeps it.
    Released,
    /// It was lost before, as this client knew or the server says: somebody else may have held it since.
    AlreadyLost(LostReason),
}

/// A hold on something: the trait of all guards.
///
/// A lease lock cannot promise that two processes never both *believe* they hold: a process that is paused past
/// its TTL, and continued, goes on for an instant before it looks. `check()` tells it at the first
/// call; the fencing token ([`Fenced`]) lets the resource refuse what was sent in that instant.
///
/// Dropping a hold releases it in the background; it never blocks, and never panics outside a runtime. What was lost at its fixed
/// end or by a close, and is dropped, is given back one [margin](crate::contracts::Lease::margin) after the loss.
///
/// Guards have these methods as their own too, so that only generic code needs this trait.
#[async_trait::async_trait]
pub trait Hold: fmt::Debug + Send + Sync {
    /// The part that all guards have.
    #[doc(hidden)]
    fn tenure(&self) -> &Arc<Tenure>;

    /// The key, as it was given.
    fn key(&self) -> &str {
        self.tenure().queue.name()
    }

    /// Whether it is held, by the clock at this call.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// An error once it is not held any more.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        self.tenure().check()
    }

    /// The state by the clock at this call: `Suspended` while the coordinator does not answer and the deadline has not come;
    /// `Lost`, with the reason `Released`, after a release.
    fn state(&self) -> LeaseState {
        self.tenure().state().unwrap_or(LeaseState::Lost(LostReason::Released))
    }

    /// How much of it is left, by the clock at this call: until its lease's deadline, which moves as long as the coordinator
    /// answers, or its fixed end where that is sooner. Zero once it is lost or released. For work that asks whether it may begin.
    fn remaining(&self) -> Duration {
        self.tenure().remaining()
    }

    /// A stream of states, from now until it is lost or released: for those who pause writes while `Suspended`.
    fn states(&self) -> BoxStream<'static, LeaseState> {
        states(Arc::clone(self.tenure()))
    }

    /// A handle that becomes ready when the hold ends: a future, cloneable, `'static`. It is ready at its first poll when the
    /// deadline has passed by then.
    ///
    /// It answers [`Ended::Lost`](crate::Ended::Lost), or [`Ended::Released`](crate::Ended::Released) when the hold was released
    /// or dropped: a task that waits for it ends with the hold, and the handle keeps nothing alive then.
    fn lost(&self) -> Loss {
        Loss::of(Arc::clone(self.tenure()))
    }

    /// Runs `work` while it is held: drops it when the hold is lost, or released by another task. (What was handed to
    /// `spawn_blocking` or spawned goes on: it must look at [`check`](Hold::check), or wait for [`lost`](Hold::lost).) The hold is
    /// not released at the end: call [`release`](Hold::release), or take the recipe's `with_lock`, which does both. The work need not be `Send`; where it is not, neither is the future.
    ///
    /// # Errors
    /// `Lost`, with the key and the reason; the reason `Released` on a hold that is released, without polling `work`.
    ///
    /// # Cancel safety
    /// As that of `work`.
    fn run<F: Future>(&self, work: F) -> Run<F>
    where
        Self: Sized,
    {
        Run::new(self.lost(), work)
    }

    /// Gives it back, and waits until the server has confirmed; the answer is the server's. Idempotent.
    ///
    /// What was lost before is given back at once, at its fixed end too, and nobody waits for that: call it when the work is over.
    ///
    /// # Errors
    /// `Unknown` when the server refused it, or has not confirmed it by the hold's deadline (it is tried on in
    /// the background, and the lease's end frees it); also when the reply to a first try was lost, and the node is not there at
    /// the next: by that try, or by another's hand before it. `RuntimeGone` where the coordinator's runtime has ended.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release>;
}

/// A guard of a kind that is not known here: `Box<dyn Hold>` is a hold itself, under which work can be run.
#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl<H: Hold + ?Sized> Hold for Box<H> {
    fn tenure(&self) -> &Arc<Tenure> {
        (**self).tenure()
    }

    fn key(&self) -> &str {
        (**self).key()
    }

    fn is_held(&self) -> bool {
        (**self).is_held()
    }

    fn check(&self) -> Result<()> {
        (**self).check()
    }

    fn state(&self) -> LeaseState {
        (**self).state()
    }

    fn remaining(&self) -> Duration {
        (**self).remaining()
    }

    fn states(&self) -> BoxStream<'static, LeaseState> {
        (**self).states()
    }

    fn lost(&self) -> Loss {
        (**self).lost()
    }

    fn run<F: Future>(&self, work: F) -> Run<F>
    where
        Self: Sized,
    {
        Run::new((**self).lost(), work)
    }

    async fn release(&self) -> Result<Release> {
        (**self).release().await
    }
}

/// A hold that fences: mutex, writer, leader. The tokens of readers and permits identify, they do not fence.
pub trait Fenced: Hold {
    /// The fencing token: always readable, strictly above that of every holder before (NODE-TOKEN).
    /// Refusing a stale one is the resource's part: `UPDATE … SET fence = $1 … WHERE fence <= $1`.
    fn token(&self) -> Token;
}

#[deny(clippy::missing_trait_methods)]
impl<H: Fenced + ?Sized> Fenced for Box<H> {
    fn token(&self) -> Token {
        (**self).token()
    }
}

/// Gives a guard the methods of [`Hold`] as its own, and with `fenced` that of [`Fenced`], so that whoever uses it needs no `use`.
macro_rules! own_methods {
    ($guard:ident) => {
        impl $guard {
            /// The key, as it was given.
            pub fn key(&self) -> &str {
                Hold::key(self)
            }

            /// Whether it is held, by the clock at this call.
            pub fn is_held(&self) -> bool {
                Hold::is_held(self)
            }

            /// An error once it is not held any more. As [`Hold::check`].
            ///
            /// # Errors
            /// `Lost` with the reason; `NotHeld` after a release.
            pub fn check(&self) -> $crate::Result<()> {
                Hold::check(self)
            }

            /// The state by the clock at this call. As [`Hold::state`].
            pub fn state(&self) -> $crate::contracts::LeaseState {
                Hold::state(self)
            }

            /// How much of it is left. As [`Hold::remaining`].
            pub fn remaining(&self) -> std::time::Duration {
                Hold::remaining(self)
            }

            /// A stream of states, from now until it is lost or released. As [`Hold::states`].
            pub fn states(&self) -> futures_util::stream::BoxStream<'static, $crate::contracts::LeaseState> {
                Hold::states(self)
            }

            /// A handle that becomes ready when the hold ends. As [`Hold::lost`].
            pub fn lost(&self) -> $crate::Loss {
                Hold::lost(self)
            }

            /// Runs `work` while it is held. As [`Hold::run`].
            ///
            /// # Errors
            /// `Lost`, with the key and the reason.
            ///
            /// # Cancel safety
            /// As that of `work`.
            pub fn run<F: Future>(&self, work: F) -> $crate::Run<F> {
                Hold::run(self, work)
            }

            /// Gives it back, and waits until the server has confirmed; the answer is the server's. As [`Hold::release`].
            ///
            /// # Errors
            /// `Unknown` when it was not confirmed, or whose hand removed it cannot be told.
            ///
            /// # Cancel safety
            /// A dropped release goes on in the background.
            pub async fn release(&self) -> $crate::Result<$crate::Release> {
                Hold::release(self).await
            }
        }
    };
    ($guard:ident, fenced) => {
        $crate::hold::own_methods!($guard);

        impl $guard {
            /// The fencing token, strictly above that of every holder before. As [`Fenced::token`].
            pub fn token(&self) -> $crate::Token {
                Fenced::token(self)
            }
        }
    };
}
pub(crate) use own_methods;
