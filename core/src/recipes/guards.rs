//! The guards: each is a hold of one recipe.

use std::fmt;
use std::ops::Deref;

use super::hold::Hold;
use crate::error::Result;
use crate::token::Token;

/// A guard: a [`Hold`] of one recipe. Sealed.
pub trait Guard:
    Deref<Target = Hold> + Into<Hold> + fmt::Debug + Send + Sync + Unpin + 'static + sealed::Of
{
}

/// A guard whose acquisition may name an owner, and is then reentrant:
/// [`Acquire::by`](super::Acquire::by). Sealed.
pub trait Reentrant: Guard {}

/// A guard that fences: mutex, writer, leader.
pub trait Fenced: Guard {
    /// The fencing token: always readable, strictly above the tokens of all holders before (NODE-TOKEN).
    /// The resource must refuse a stale one: `UPDATE … SET fence = $1 … WHERE fence <= $1`.
    fn token(&self) -> Token;
}

pub(super) mod sealed {
    /// Makes a guard of a hold.
    pub trait Of: Sized {
        /// The guard of this hold.
        fn of(hold: super::Hold) -> Self;
    }
}

macro_rules! guards {
    ($($(#[$about:meta])+ $guard:ident: $($is:ident)*;)+) => {$(
        $(#[$about])+
        #[must_use = "a guard that is dropped at once is released at once"]
        #[derive(Debug)]
        pub struct $guard(pub(super) Hold);

        impl Deref for $guard {
            type Target = Hold;

            fn deref(&self) -> &Hold {
                &self.0
            }
        }

        impl From<$guard> for Hold {
            fn from(guard: $guard) -> Hold {
                guard.0
            }
        }

        impl sealed::Of for $guard {
            fn of(hold: Hold) -> Self {
                Self(hold)
            }
        }

        impl Guard for $guard {}
        $(guards!(@$is $guard);)*
    )+};
    (@Reentrant $guard:ident) => {
        impl Reentrant for $guard {}
    };
    (@Fenced $guard:ident) => {
        impl Fenced for $guard {
            fn token(&self) -> Token {
                self.0.place()
            }
        }

        impl $guard {
            /// The fencing token: always readable, strictly above the tokens of all holders
            /// before (NODE-TOKEN). As [`Fenced::token`].
            pub fn token(&self) -> Token {
                Fenced::token(self)
            }
        }
    };
    (@Numbered $guard:ident) => {
        impl $guard {
            /// Its place in the queue, as listings show it. It does not fence: others hold at the same time.
            pub fn sequence(&self) -> u64 {
                self.0.place().sequence()
            }
        }
    };
}

guards! {
    /// A held mutex. Released by [`release`](Hold::release), or in the background when it is dropped.
    MutexGuard: Reentrant Fenced;
    /// A read hold, next to other readers. Released by [`release`](Hold::release), or in the
    /// background when it is dropped.
    ReadGuard: Reentrant Numbered;
    /// A write hold, alone. Released by [`release`](Hold::release), or in the background when it is
    /// dropped.
    WriteGuard: Reentrant Fenced;
    /// Held permits of a semaphore. Released by [`release`](Hold::release), or in the background when
    /// they are dropped.
    Permit: Numbered;
    /// Leadership in an election. Given up by [`release`](Hold::release), or in the background when
    /// it is dropped.
    Leadership: Fenced;
    /// A membership of a group. Given up by [`release`](Hold::release), or in the background when it
    /// is dropped.
    Membership: Numbered;
    /// A place inside a double barrier: [`leave`](Inside::leave) waits for the others. A
    /// [`release`](Hold::release), or a drop in the background, does not wait.
    Inside:;
    /// Several locks held as one: the loss of one ends the hold, and `run` names its key. Released by
    /// [`release`](Hold::release), or in the background when it is dropped.
    MultiGuard: Reentrant;
    /// A hold of a majority: it ends when fewer than a majority are held. Released by
    /// [`release`](Hold::release), or in the background when it is dropped.
    QuorumGuard:;
}

impl WriteGuard {
    /// Turns the writer into a reader, in its place and with no writer in between: the next
    /// readers in the queue are admitted. The reader has the writer's sequence number. A
    /// [`min_hold`](super::Acquire::min_hold) and a [`max_hold`](super::Acquire::max_hold) stay.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release; `OutcomeUnknown` when it was not confirmed before
    /// the hold's deadline; `Forbidden`; `Closed`; `RuntimeGone`. The guard is given back then.
    ///
    /// # Cancel safety
    /// A dropped call gives the lock back, as a dropped guard does.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let key = self.0.tenure().queue.clone();
        let downgraded = self.0.downgrade().await;
        downgraded.map(ReadGuard).map_err(|error| error.in_operation("downgrade").on(key.name()))
    }
}
