//! The grammar of all recipes: a verb (`acquire`; of a read/write lock `read` and `write`), and
//! nine ways to call it.
//!
//! | | waits its turn | never waits |
//! |---|---|---|
//! | as it is | `acquire()` | `try_acquire()` |
//! | with a deadline | `acquire_within(deadline)` | |
//! | with options | `acquire_with(options)` | `try_acquire_with(options)` |
//! | by an owner | `acquire_as(&owner)` | `try_acquire_as(&owner)` |
//! | by an owner, with options | `acquire_as_with(&owner, options)` | `try_acquire_as_with(&owner, options)` |
//!
//! The recipe's own argument comes first (a semaphore's weight), then the owner, then the options.
//! A call that waits answers a guard, a try an `Option` of it.

use super::acquire::Acquire;
use crate::contracts::Patience;
use crate::reentrancy::Owner;

/// One call of a verb.
pub(super) struct Ask<'a> {
    /// The operation's name in errors.
    pub(super) operation: &'static str,
    /// The owner that the call names.
    pub(super) owner: Option<&'a Owner>,
    pub(super) options: Acquire,
    pub(super) patience: Patience,
}

/// Declares the nine ways to call a verb, over a method that takes the recipe's own arguments and
/// an [`Ask`] and answers an `Option` of the guard. The recipe documents the verb, its try, and
/// what an owner means to it.
macro_rules! verb {
    (
        $(#[$about:meta])+
        $verb:ident($($argument:ident: $kind:ty),*) -> $guard:ident, by $take:ident;
        $within:ident, $with:ident;
        $(#[$tried:meta])+
        $try:ident, $try_with:ident;
        $(#[$owned:meta])+
        $owner:ident, $owner_with:ident, $try_owner:ident, $try_owner_with:ident;
    ) => {
        $(#[$about])+
        pub async fn $verb(&self, $($argument: $kind),*) -> Result<$guard> {
            self.$with($($argument,)* Acquire::new()).await
        }

        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), "), at most for `deadline` in all (joining,")]
        /// waiting, reconnecting).
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), "), `Timeout`, and `InvalidArgument` naming")]
        /// `deadline` when it is zero. Nothing stays.
        ///
        /// # Cancel safety
        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), ").")]
        pub async fn $within(&self, $($argument: $kind,)* deadline: Duration) -> Result<$guard> {
            self.$with($($argument,)* Acquire::new().within(deadline)).await
        }

        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), "), with options.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($within), "`](Self::", stringify!($within), "), and `InvalidArgument` naming the")]
        /// option.
        ///
        /// # Cancel safety
        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), ").")]
        pub async fn $with(&self, $($argument: $kind,)* options: Acquire) -> Result<$guard> {
            let operation = stringify!($verb);
            let ask = Ask { operation, owner: None, options, patience: Patience::Wait };
            Ok(self.$take($($argument,)* ask).await?.expect("only a try is refused"))
        }

        $(#[$tried])+
        pub async fn $try(&self, $($argument: $kind),*) -> Result<Option<$guard>> {
            self.$try_with($($argument,)* Acquire::new()).await
        }

        #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), "), with options (`within` has no meaning for")]
        /// a try).
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), "), and `InvalidArgument` naming the option.")]
        ///
        /// # Cancel safety
        #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), ").")]
        pub async fn $try_with(&self, $($argument: $kind,)* options: Acquire) -> Result<Option<$guard>> {
            let ask = Ask { operation: stringify!($try), owner: None, options, patience: Patience::Try };
            self.$take($($argument,)* ask).await
        }

        #[doc = concat!("As [`", stringify!($verb), "`](Self::", stringify!($verb), "), by an owner.")]
        $(#[$owned])+
        pub async fn $owner(&self, $($argument: $kind,)* owner: &Owner) -> Result<$guard> {
            self.$owner_with($($argument,)* owner, Acquire::new()).await
        }

        #[doc = concat!("As [`", stringify!($owner), "`](Self::", stringify!($owner), "), with options, which count for the")]
        /// acquisition, not for a re-entry. The label is the owner's unless another is given.
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($owner), "`](Self::", stringify!($owner), ") and [`", stringify!($with), "`](Self::",
            stringify!($with), ").")]
        ///
        /// # Cancel safety
        #[doc = concat!("As [`", stringify!($owner), "`](Self::", stringify!($owner), ").")]
        pub async fn $owner_with(&self, $($argument: $kind,)* owner: &Owner, options: Acquire) -> Result<$guard> {
            let operation = stringify!($verb);
            let ask = Ask { operation, owner: Some(owner), options, patience: Patience::Wait };
            Ok(self.$take($($argument,)* ask).await?.expect("only a try is refused"))
        }

        #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), "), by an owner, as [`", stringify!($owner),
            "`](Self::", stringify!($owner), ").")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), "), and as [`", stringify!($owner), "`](Self::",
            stringify!($owner), ").")]
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        pub async fn $try_owner(&self, $($argument: $kind,)* owner: &Owner) -> Result<Option<$guard>> {
            self.$try_owner_with($($argument,)* owner, Acquire::new()).await
        }

        #[doc = concat!("As [`", stringify!($try_owner), "`](Self::", stringify!($try_owner), "), with options, as [`",
            stringify!($owner_with), "`](Self::", stringify!($owner_with), ") has them.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($try_owner), "`](Self::", stringify!($try_owner), "), and `InvalidArgument` naming the")]
        /// option.
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        pub async fn $try_owner_with(
            &self,
            $($argument: $kind,)*
            owner: &Owner,
            options: Acquire,
        ) -> Result<Option<$guard>> {
            let ask = Ask { operation: stringify!($try), owner: Some(owner), options, patience: Patience::Try };
            self.$take($($argument,)* ask).await
        }
    };
}
pub(super) use verb;
