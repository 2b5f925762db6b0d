//! What all guards have in common.

mod ended;
mod live;
mod loss;
mod majority;
mod tenure;
mod tenures;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;

pub use self::ended::{Ended, Release};
pub(crate) use self::live::LiveHolds;
use self::loss::states;
pub use self::loss::{Loss, Run};
pub(crate) use self::majority::Majority;
pub(crate) use self::tenure::{ClientId, Tenure};
pub(crate) use self::tenures::HeldBy;

use crate::contracts::LeaseState;
use crate::error::{LostReason, Result};
use crate::token::Token;

/// The trait of all guards.
///
/// A lease lock cannot promise that two processes never both *believe* they hold: a process that is
/// paused past its TTL and continued runs for an instant before it looks. `check()` reports the
/// loss at the first call, and the fencing token ([`Fenced`]) lets the resource refuse what was
/// sent in that instant.
///
/// Dropping a hold releases it in the background; it never blocks, and never panics outside a
/// runtime. A dropped hold that was lost at its fixed end or by a close is given back one
/// [margin](crate::contracts::Lease::margin) after the loss.
///
/// Guards have these methods as their own too, so only generic code needs this trait.
#[async_trait::async_trait]
pub trait Hold: fmt::Debug + Send + Sync {
    /// The part that all guards have: at least one, but for a quorum's.
    #[doc(hidden)]
    fn tenures(&self) -> &[Arc<Tenure>];

    /// What makes it a hold: all of its tenures, unless it says otherwise.
    #[doc(hidden)]
    fn held_by(&self) -> HeldBy<'_> {
        HeldBy::All(self.tenures())
    }

    /// The key, as it was given.
    fn key(&self) -> &str {
        self.tenures()[0].queue.name()
    }

    /// Whether it is held, by the clock at this call.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails once it is no longer held.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        self.held_by().check()
    }

    /// The state by the clock at this call: `Suspended` while the coordinator does not answer and
    /// the deadline has not come; `Lost`, with the reason `Released`, after a release.
    fn state(&self) -> LeaseState {
        self.held_by().state().unwrap_or(LeaseState::Lost(LostReason::Released))
    }

    /// How much time is left, by the clock at this call: until the lease's deadline, which moves as
    /// long as the coordinator answers, or until the fixed end if that is sooner. Zero once it is
    /// lost or released. For work that must know whether it may begin.
    fn remaining(&self) -> Duration {
        self.held_by().remaining()
    }

    /// A stream of states, from now until it is lost or released, for code that pauses writes while
    /// `Suspended`.
    fn states(&self) -> BoxStream<'static, LeaseState> {
        states(self.held_by().into())
    }

    /// A handle that becomes ready when the hold ends: a future, cloneable, `'static`. If the
    /// deadline has passed, it is ready at its first poll.
    ///
    /// It answers [`Ended::Lost`](crate::Ended::Lost), or
    /// [`Ended::Released`](crate::Ended::Released) when the hold was released or dropped. A task
    /// that waits for it ends with the hold, and after that the handle keeps nothing alive.
    fn lost(&self) -> Loss {
        Loss::of(self.held_by())
    }

    /// Runs `work` while it is held, and drops it when the hold is lost, or released by another
    /// task. What `work` has spawned, or handed to `spawn_blocking`, goes on: that code must call
    /// [`check`](Hold::check) or wait for [`lost`](Hold::lost).
    ///
    /// The hold is not released at the end: call [`release`](Hold::release), or use the recipe's
    /// `with_lock`, which does both. The work need not be `Send`; the future is `Send` if the work
    /// is.
    ///
    /// # Errors
    /// `Lost`, with the key and the reason. On a hold that is already released the reason is
    /// `Released`, and `work` is never polled.
    ///
    /// # Cancel safety
    /// As that of `work`.
    fn run<F: Future>(&self, work: F) -> Run<F>
    where
        Self: Sized,
    {
        Run::new(self.lost(), work)
    }

    /// Gives the hold back, and waits until the server has confirmed it; the answer is the
    /// server's. Idempotent.
    ///
    /// A hold that was lost before, also at its fixed end, is given back at once and without
    /// waiting: call this when the work is over.
    ///
    /// # Errors
    /// `Unknown` when the server refused the release, or has not confirmed it by the hold's
    /// deadline: retries go on in the background, and the end of the lease frees it. `Unknown` also
    /// when the reply to a first try was lost and the next try finds no node: either that try
    /// removed it, or someone else did before. `RuntimeGone` when the coordinator's runtime has
    /// ended.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release>;
}

/// A guard of any kind: `Box<dyn Hold>` is a hold itself, under which work can run.
#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl<H: Hold + ?Sized> Hold for Box<H> {
    fn tenures(&self) -> &[Arc<Tenure>] {
        (**self).tenures()
    }

    fn held_by(&self) -> HeldBy<'_> {
        (**self).held_by()
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

/// A hold that fences: mutex, writer, leader. The tokens of readers and permits identify them, and
/// do not fence.
pub trait Fenced: Hold {
    /// The fencing token: always readable, strictly above that of every holder before (NODE-TOKEN).
    /// The resource must refuse a stale one: `UPDATE … SET fence = $1 … WHERE fence <= $1`.
    fn token(&self) -> Token;
}

#[deny(clippy::missing_trait_methods)]
impl<H: Fenced + ?Sized> Fenced for Box<H> {
    fn token(&self) -> Token {
        (**self).token()
    }
}

/// Makes a guard a [`Hold`], and with `fenced` a [`Fenced`], by the field that holds. It gets their
/// methods as its own too.
macro_rules! guard {
    ($guard:ident by $($held:tt).+) => {
        #[async_trait::async_trait]
        impl Hold for $guard {
            fn tenures(&self) -> &[std::sync::Arc<$crate::hold::Tenure>] {
                std::slice::from_ref(self.$($held).+.tenure())
            }

            async fn release(&self) -> $crate::Result<$crate::Release> {
                self.$($held).+.release().await
            }
        }

        $crate::hold::own_methods!($guard);
    };
    ($guard:ident by $($held:tt).+, fenced) => {
        $crate::hold::guard!($guard by $($held).+);

        impl Fenced for $guard {
            fn token(&self) -> $crate::Token {
                self.$($held).+.token()
            }
        }

        impl $guard {
            /// The fencing token, strictly above that of every holder before. As [`Fenced::token`].
            pub fn token(&self) -> $crate::Token {
                Fenced::token(self)
            }
        }
    };
}
pub(crate) use guard;

/// Gives a guard the methods of [`Hold`] as its own, so that users need not import the trait.
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

            /// Fails once it is no longer held. As [`Hold::check`].
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

            /// How much time is left. As [`Hold::remaining`].
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

            /// Gives the hold back, and waits until the server has confirmed it; the answer is the
            /// server's. As [`Hold::release`].
            ///
            /// # Errors
            /// `Unknown` when it was not confirmed, or when it is not known what removed it.
            ///
            /// # Cancel safety
            /// A dropped release goes on in the background.
            pub async fn release(&self) -> $crate::Result<$crate::Release> {
                Hold::release(self).await
            }
        }
    };
}
pub(crate) use own_methods;
