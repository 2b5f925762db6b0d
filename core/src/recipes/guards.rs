use std::fmt;
use std::ops::Deref;

use super::hold::Hold;
use crate::error::Result;
use crate::token::Token;

/// A [`Hold`] of one recipe. Sealed.
pub trait Guard:
    Deref<Target = Hold> + Into<Hold> + fmt::Debug + Send + Sync + Unpin + 'static + sealed::Of
{
}

/// A guard of a recipe that is reentrant for an [owner](super::Acquire::by). Sealed.
pub trait Reentrant: Guard {}

/// A guard of an exclusive hold, which has a fencing token: mutex, writer, leader.
pub trait Fenced: Guard {
    /// Returns the fencing token, which is higher than the tokens of all earlier holders (NODE-TOKEN), also
    /// after the end of the hold.
    ///
    /// The resource must refuse a lower token: `UPDATE … SET fence = $1 … WHERE fence <= $1`. Claim the token
    /// there before the first read: a check at each write alone loses a read-modify-write.
    fn token(&self) -> Token;
}

pub(super) mod sealed {
    pub trait Of: Sized {
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
            /// Returns the fencing token: [`Fenced::token`] says how to use it.
            pub fn token(&self) -> Token {
                Fenced::token(self)
            }
        }
    };
    (@Numbered $guard:ident) => {
        impl $guard {
            /// Returns the sequence number of the hold, as in listings: no fencing token, since several
            /// clients can hold at the same time.
            pub fn sequence(&self) -> u64 {
                self.0.place().sequence()
            }
        }
    };
}

guards! {
    /// A held [`Mutex`](super::Mutex).
    MutexGuard: Reentrant Fenced;
    /// A read hold of an [`RwLock`](super::RwLock), shared with other readers.
    ReadGuard: Reentrant Numbered;
    /// An exclusive write hold of an [`RwLock`](super::RwLock).
    WriteGuard: Reentrant Fenced;
    /// Held permits of a [`Semaphore`](super::Semaphore).
    Permit: Numbered;
    /// Leadership in an [`Election`](super::Election). [`release`](Hold::release) resigns.
    Leadership: Fenced;
    /// Membership of a [`Group`](super::Group). [`release`](Hold::release) leaves the group.
    Membership: Numbered;
    /// A place inside a [`DoubleBarrier`](super::DoubleBarrier). [`leave`](Inside::leave) waits for the other
    /// members; a [`release`](Hold::release) or a drop does not.
    Inside:;
    /// Several locks that are held as one ([`MultiLock`](super::MultiLock)). The loss of one ends the hold;
    /// the error names its key.
    MultiGuard: Reentrant;
    /// A hold on a majority of coordinators ([`QuorumLock`](super::QuorumLock)). It is lost when no majority
    /// is held.
    QuorumGuard:;
}

impl WriteGuard {
    /// Turns the writer into a reader in its place, which admits the next readers in the queue.
    /// [`min_hold`](super::Acquire::min_hold) and [`max_hold`](super::Acquire::max_hold) remain.
    ///
    /// # Errors
    /// The guard is released after each error.
    /// * `Lost`, `NotHeld`: as [`check`](Hold::check).
    /// * `OutcomeUnknown`: the server did not confirm the change before the deadline of the hold.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped call releases the guard.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let key = self.0.tenure().queue.clone();
        let downgraded = self.0.downgrade().await;
        downgraded.map(ReadGuard).map_err(|error| error.in_operation("downgrade").on(key.name()))
    }
}
